// SPDX-License-Identifier: Apache-2.0
#include "launch_argument.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

// "3=path" gives argument 3 and the part behind '='; null when it is not of that form.
static launch_argument *named_argument(launch_arguments *arguments, const char *value,
                                       const char **out_rest)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (end == value || *end != '=' || !end[1] || errno || number < 0 ||
        number >= LAUNCH_MOST_ARGUMENTS)
        return NULL;
    if ((uint32_t)number >= arguments->named) arguments->named = (uint32_t)number + 1;
    *out_rest = end + 1;
    return &arguments->items[number];
}

static bool parse_size(const char *digits, long long *out_size)
{
    char *end;
    errno = 0;
    *out_size = strtoll(digits, &end, 10);
    return end != digits && !*end && !errno && *out_size > 0 && *out_size <= LAUNCH_LARGEST_BYTES;
}

static bool take(launch_arguments *arguments, const char *option, const char *value)
{
    const char *rest;
    launch_argument *argument = named_argument(arguments, value, &rest);
    if (!argument) return false;
    if (strcmp(option, "--size") == 0) return parse_size(rest, &argument->size);
    if (strcmp(option, "--input") == 0) argument->input = rest;
    else argument->output = rest;
    return true;
}

// --inputs FILE FILE ..: arguments 0, 1, ..
static int take_files(cli_arguments *in, launch_arguments *arguments)
{
    uint32_t count = 0;
    for (in->at++; in->at < in->count && *in->items[in->at] != '-'; in->at++) {
        if (count == LAUNCH_MOST_ARGUMENTS)
            return cli_complain(in->command, "--inputs: more than %d files", LAUNCH_MOST_ARGUMENTS);
        arguments->items[count++].input = in->items[in->at];
    }
    if (count > arguments->named) arguments->named = count;
    return count ? CLI_OK : cli_complain(in->command, "--inputs: files are missing");
}

bool launch_option(cli_arguments *in, launch_arguments *arguments, bool outputs, int *out_result)
{
    static const char *const options[] = {"--input", "--size", "--output"};
    if (strcmp(in->items[in->at], "--inputs") == 0) {
        *out_result = take_files(in, arguments);
        return true;
    }
    for (uint32_t i = 0; i < (outputs ? 3 : 2); i++) {
        const char *value;
        bool found = cli_option(in, options[i], &value);
        *out_result = in->failed ? CLI_BAD_INPUT : CLI_OK;
        if (in->failed) return true;
        if (!found) continue;
        if (!take(arguments, options[i], value))
            *out_result = cli_complain(in->command, "%s '%s': expected NUMBER=VALUE with a number "
                                       "below %d", options[i], value, LAUNCH_MOST_ARGUMENTS);
        return true;
    }
    return false;
}

bool launch_size_option(cli_arguments *in, launch_sizes *sizes)
{
    static const char option[] = "--size";
    const char *item = in->items[in->at];
    bool joined = strncmp(item, "--size=", sizeof option) == 0;
    const char *value = joined ? item + sizeof option : NULL;
    if (strcmp(item, option) == 0 && in->at + 1 < in->count) value = in->items[in->at + 1];
    if (!value || (*value >= '0' && *value <= '9') || sizes->count == LAUNCH_MOST_SIZES)
        return false;
    sizes->items[sizes->count++] = value;
    in->at += joined ? 1 : 2;
    return true;
}

long long launch_file_bytes(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) ? (long long)about.st_size : 0;
}

static int read_input(const char *command, launch_argument *argument)
{
    FILE *file = fopen(argument->input, "rb");
    size_t wanted = (size_t)argument->buffer.byte_count;
    size_t found = file ? fread(argument->buffer.bytes, 1, wanted, file) : 0;
    bool more = file && found == wanted && fgetc(file) != EOF;
    int reason = errno;
    bool failed = !file || ferror(file);
    if (file) fclose(file);
    if (failed) return cli_complain(command, "%s: %s", argument->input, strerror(reason));
    if (found == wanted && !more) return CLI_OK;
    return cli_complain(command, "%s: %s bytes than the %zu of its launch argument",
                        argument->input, more ? "more" : "fewer", wanted);
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

int launch_argument_fill(const char *command, launch_argument *argument, uint32_t number)
{
    argument->buffer.bytes = map_zeros(argument->buffer.byte_count);
    if (!argument->buffer.bytes) {
        cli_complain(command, "launch argument %u: no address space for its %lld bytes", number,
                     (long long)argument->buffer.byte_count);
        return CLI_FAILED;
    }
    return argument->input ? read_input(command, argument) : CLI_OK;
}
