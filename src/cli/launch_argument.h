// SPDX-License-Identifier: Apache-2.0
//
// Launch arguments of a command: --input K=FILE, --output K=FILE, --size K=BYTES. Files hold the
// bytes of an argument as the card lays them out. What a small file declares may be large, so
// memory is mapped lazily.
#ifndef CLI_LAUNCH_ARGUMENT_H
#define CLI_LAUNCH_ARGUMENT_H

#include "cli.h"
#include "spyre/program.h"

enum { LAUNCH_MOST_ARGUMENTS = 1024 };
#define LAUNCH_LARGEST_BYTES (1LL << 34)    // a segment of the card

typedef struct {
    const char *input, *output;             // paths, or null
    long long size;                         // of --size, or 0
    spyre_program_buffer buffer;
} launch_argument;

typedef struct {
    launch_argument items[LAUNCH_MOST_ARGUMENTS];
    uint32_t named;                         // one more than the highest number named
} launch_arguments;

// Takes one of the options, --output only if `outputs`. False when the next item is none of them;
// else *out_result is CLI_OK, or an exit code after the line that says why.
bool launch_option(cli_arguments *in, launch_arguments *arguments, bool outputs, int *out_result);

// Sizes that a launch chooses: --size NAME=SIZE, with a name that is no number.
enum { LAUNCH_MOST_SIZES = 16 };
typedef struct {
    const char *items[LAUNCH_MOST_SIZES];
    uint32_t count;
} launch_sizes;

// Takes one. False when the next item is none, or one too many.
bool launch_size_option(cli_arguments *in, launch_sizes *sizes);

// Bytes of the file, for an argument whose size nothing else says; 0 when it cannot be read.
long long launch_file_bytes(const char *path);

// Maps buffer.byte_count bytes of zeros, and reads the input over them. CLI_OK or an exit code.
int launch_argument_fill(const char *command, launch_argument *argument, uint32_t number);

#endif
