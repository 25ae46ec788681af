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
#include "launch_argument.h"
#include "output_file.h"
#include "spyre/program.h"

enum { PIECE_BYTES = 1 << 16 };

typedef struct {
    const char *directory;
    launch_arguments launch;
    counters_options counters;
} request;

static int read_request(cli_arguments *in, request *r)
{
    while (in->at < in->count) {
        int result;
        const char *option = in->items[in->at];
        if (launch_option(in, &r->launch, true, &result)) {
            if (result) return result;
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

// The size of argument k, and memory when a file names its contents before or after.
static int prepare_argument(const spyre_program *program, uint32_t k, launch_argument *a)
{
    int64_t bytes = spyre_program_argument_bytes(program, k);
    if (!bytes) bytes = a->size;
    if (!bytes)
        return cli_complain("run", "launch argument %u: the code does not state its size, "
                            "--size %u=BYTES is needed", k, k);
    if (bytes > LAUNCH_LARGEST_BYTES)
        return cli_complain("run", "launch argument %u: %lld bytes, at most %lld fit a segment of "
                            "the card", k, (long long)bytes, LAUNCH_LARGEST_BYTES);
    a->buffer.byte_count = bytes;
    if (!a->input && !a->output) return CLI_OK;
    return launch_argument_fill("run", a, k);
}

static int prepare(const spyre_program *program, request *r)
{
    uint32_t count = spyre_program_argument_count(program);
    if (r->launch.named > count)
        return cli_complain("run", "%s: there is no launch argument %u, only %u of them",
                            r->directory, r->launch.named - 1, count);
    int result = CLI_OK;
    for (uint32_t k = 0; k < count && !result; k++)
        result = prepare_argument(program, k, &r->launch.items[k]);
    return result;
}

static int launch(spyre_program *program, const request *r)
{
    static spyre_program_buffer buffers[LAUNCH_MOST_ARGUMENTS];
    spyre_context *context = NULL;
    for (uint32_t k = 0; k < spyre_program_argument_count(program); k++)
        buffers[k] = r->launch.items[k].buffer;
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
    output_file file;
    bool good = output_file_open(argument->output, &file);
    if (good) {
        good = write_pieces(file.stream, argument->buffer.bytes,
                            (size_t)argument->buffer.byte_count);
        good = output_file_close(&file, good);
    }
    return good ? CLI_OK : cli_complain("run", "%s: %s", argument->output, strerror(errno));
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
    if (!result && spyre_program_argument_count(program) > LAUNCH_MOST_ARGUMENTS)
        result = cli_complain("run", "%s: more than %d launch arguments", r.directory,
                              LAUNCH_MOST_ARGUMENTS);
    if (!result) result = prepare(program, &r);
    if (!result) result = launch(program, &r);
    for (uint32_t k = 0; k < r.launch.named && !result; k++)
        if (r.launch.items[k].output) result = write_output(&r.launch.items[k]);
    if (!result) result = show_counters(program, &r.counters);
    for (uint32_t k = 0; k < LAUNCH_MOST_ARGUMENTS; k++)
        if (r.launch.items[k].buffer.bytes)
            munmap(r.launch.items[k].buffer.bytes, (size_t)r.launch.items[k].buffer.byte_count);
    spyre_program_close(program);
    return result;
}
