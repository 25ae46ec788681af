// SPDX-License-Identifier: Apache-2.0
//
// Runs a SpyreCode directory. Files hold the bytes of a launch argument as the card lays them out.
// What a small file declares may be large, so memory is mapped lazily and outputs have holes.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"
#include "spyre/program.h"

enum { MOST_ARGUMENTS = 1024, PIECE_BYTES = 1 << 16 };
#define LARGEST_BYTES (1LL << 34)       // a segment of the card

typedef struct {
    const char *input, *output;         // paths, or null
    long long size;                     // of --size, or 0
    spyre_program_buffer buffer;
} launch_argument;

typedef struct {
    const char *directory;
    launch_argument arguments[MOST_ARGUMENTS];
    uint32_t named;                     // one more than the highest number named
    counters_options counters;
} request;

static int bad(const char *option, const char *value)
{
    return cli_complain("run", "%s '%s': expected NUMBER=VALUE with a number below %d", option,
                        value, MOST_ARGUMENTS);
}

// "3=path" gives argument 3 and the part behind '='; null when it is not of that form.
static launch_argument *named_argument(request *r, const char *value, const char **out_rest)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (end == value || *end != '=' || !end[1] || errno || number < 0 || number >= MOST_ARGUMENTS)
        return NULL;
    if ((uint32_t)number >= r->named) r->named = (uint32_t)number + 1;
    *out_rest = end + 1;
    return &r->arguments[number];
}

static bool parse_size(const char *digits, long long *out_size)
{
    char *end;
    errno = 0;
    *out_size = strtoll(digits, &end, 10);
    return end != digits && !*end && !errno && *out_size > 0 && *out_size <= LARGEST_BYTES;
}

static int read_request(cli_arguments *in, request *r)
{
    while (in->at < in->count) {
        const char *value, *rest;
        launch_argument *argument = NULL;
        const char *option = in->items[in->at];
        if (cli_option(in, "--input", &value)) {
            argument = named_argument(r, value, &rest);
            if (!argument) return bad("--input", value);
            argument->input = rest;
        } else if (!in->failed && cli_option(in, "--output", &value)) {
            argument = named_argument(r, value, &rest);
            if (!argument) return bad("--output", value);
            argument->output = rest;
        } else if (!in->failed && cli_option(in, "--size", &value)) {
            argument = named_argument(r, value, &rest);
            if (!argument || !parse_size(rest, &argument->size)) return bad("--size", value);
        } else if (in->failed) {
            return CLI_BAD_INPUT;
        } else if (counters_option(in, &r->counters)) {
            continue;
        } else if (*option == '-' || r->directory) {
            return cli_unexpected(in);
        } else {
            r->directory = option;
            in->at++;
        }
    }
    return r->directory ? CLI_OK : cli_complain("run", "a SpyreCode directory is missing");
}

static int read_input(launch_argument *argument)
{
    FILE *file = fopen(argument->input, "rb");
    size_t wanted = (size_t)argument->buffer.byte_count;
    size_t found = file ? fread(argument->buffer.bytes, 1, wanted, file) : 0;
    bool more = file && found == wanted && fgetc(file) != EOF;
    int reason = errno;
    bool failed = !file || ferror(file);
    if (file) fclose(file);
    if (failed) return cli_complain("run", "%s: %s", argument->input, strerror(reason));
    if (found == wanted && !more) return CLI_OK;
    return cli_complain("run", "%s: %s bytes than the %zu of its launch argument", argument->input,
                        more ? "more" : "fewer", wanted);
}

// Zeros that cost memory where they are written; null when there is no room.
static void *map_zeros(int64_t bytes)
{
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, (size_t)bytes, MADV_HUGEPAGE);      // fewer faults; a refusal is fine
    return memory;
}

// The size of argument k, and memory when a file names its contents before or after.
static int prepare_argument(const spyre_program *program, uint32_t k, launch_argument *a)
{
    int64_t bytes = spyre_program_argument_bytes(program, k);
    if (!bytes) bytes = a->size;
    if (!bytes)
        return cli_complain("run", "launch argument %u: the code does not state its size, "
                            "--size %u=BYTES is needed", k, k);
    if (bytes > LARGEST_BYTES)
        return cli_complain("run", "launch argument %u: %lld bytes, at most %lld fit a segment of "
                            "the card", k, (long long)bytes, LARGEST_BYTES);
    a->buffer.byte_count = bytes;
    if (!a->input && !a->output) return CLI_OK;
    a->buffer.bytes = map_zeros(bytes);
    if (!a->buffer.bytes) {
        cli_complain("run", "launch argument %u: no address space for its %lld bytes", k,
                     (long long)bytes);
        return CLI_FAILED;
    }
    return a->input ? read_input(a) : CLI_OK;
}

static int prepare(const spyre_program *program, request *r)
{
    uint32_t count = spyre_program_argument_count(program);
    if (r->named > count)
        return cli_complain("run", "%s: there is no launch argument %u, only %u of them",
                            r->directory, r->named - 1, count);
    int result = CLI_OK;
    for (uint32_t k = 0; k < count && !result; k++)
        result = prepare_argument(program, k, &r->arguments[k]);
    return result;
}

static int launch(spyre_program *program, const request *r)
{
    static spyre_program_buffer buffers[MOST_ARGUMENTS];
    spyre_context *context = NULL;
    for (uint32_t k = 0; k < spyre_program_argument_count(program); k++)
        buffers[k] = r->arguments[k].buffer;
    spyre_status status = spyre_context_create(1, &context);
    if (!status) status = spyre_program_run(context, 0, program, buffers);
    spyre_context_destroy(context);
    return cli_report("run", status);
}

static bool is_zero(const char *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

// Pieces of zeros become holes of a regular file.
static bool write_pieces(FILE *file, const char *bytes, size_t count)
{
    struct stat about;
    bool holes = fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode);
    for (size_t at = 0; at < count; at += PIECE_BYTES) {
        size_t piece = count - at < PIECE_BYTES ? count - at : PIECE_BYTES;
        if (holes && is_zero(bytes + at, piece)) {
            if (fseeko(file, (off_t)piece, SEEK_CUR) != 0) return false;
        } else if (fwrite(bytes + at, 1, piece, file) != piece) {
            return false;
        }
    }
    if (fflush(file) != 0) return false;
    return !holes || ftruncate(fileno(file), (off_t)count) == 0;
}

static int write_output(const launch_argument *argument)
{
    FILE *file = fopen(argument->output, "wb");
    bool written = file && write_pieces(file, argument->buffer.bytes,
                                        (size_t)argument->buffer.byte_count);
    int reason = errno;
    if (file && fclose(file) != 0 && written) {
        reason = errno;
        written = false;
    }
    if (written) return CLI_OK;
    return cli_complain("run", "%s: %s", argument->output, strerror(reason));
}

static int show_counters(const spyre_program *program, const counters_options *options)
{
    uint32_t kernel_count;
    const spyre_kernel_counters *kernels = spyre_program_counters(program, &kernel_count);
    counters_print(options, kernels, kernel_count);
    return cli_print("run", "");
}

int cmd_run(int count, char **arguments)
{
    request r = {0};
    cli_arguments in = {.command = "run", .count = count, .items = arguments};
    spyre_program *program = NULL;
    int result = read_request(&in, &r);
    if (!result) result = cli_report("run", spyre_program_open(r.directory, &program));
    if (!result && spyre_program_argument_count(program) > MOST_ARGUMENTS)
        result = cli_complain("run", "%s: more than %d launch arguments", r.directory,
                              MOST_ARGUMENTS);
    if (!result) result = prepare(program, &r);
    if (!result) result = launch(program, &r);
    for (uint32_t k = 0; k < r.named && !result; k++)
        if (r.arguments[k].output) result = write_output(&r.arguments[k]);
    if (!result) result = show_counters(program, &r.counters);
    for (uint32_t k = 0; k < MOST_ARGUMENTS; k++)
        if (r.arguments[k].buffer.bytes)
            munmap(r.arguments[k].buffer.bytes, (size_t)r.arguments[k].buffer.byte_count);
    spyre_program_close(program);
    return result;
}
