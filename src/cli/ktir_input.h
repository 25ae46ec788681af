// SPDX-License-Identifier: Apache-2.0
//
// A KTIR kernel and what it is called with, from the arguments of `spyre ktir`.
#ifndef CLI_KTIR_INPUT_H
#define CLI_KTIR_INPUT_H

#include "cli.h"
#include "npy.h"
#include "spyre/ktir.h"

enum { KTIR_INPUT_MOST = 256 };

typedef struct {
    const char *name, *path;            // NAME=FILE
} ktir_file;

typedef struct {
    spyre_ktir *kernel;
    spyre_ktir_options options;
    uint32_t count;                     // parameters
    spyre_ktir_value values[KTIR_INPUT_MOST];
    npy_array arrays[KTIR_INPUT_MOST];  // of parameters that are memory
    const char *outputs[KTIR_INPUT_MOST];       // paths, or null
} ktir_input;

// What options say, before the file is read.
typedef struct {
    const char *file, *function, *grid;
    const char *inputs[KTIR_INPUT_MOST], *outputs[KTIR_INPUT_MOST], *numbers[KTIR_INPUT_MOST];
    uint32_t input_count, output_count, number_count;
    uint64_t steps;
} ktir_request;

// Takes one option or the file; false when it is none of them. *out_code is not 0 after an error.
bool ktir_request_take(cli_arguments *in, ktir_request *r, int *out_code);

// Opens the kernel of a request.
int ktir_open(const ktir_request *r, spyre_ktir **out_kernel);

// Opens the kernel and fills in its parameters: arrays from files, zeros where only an output is
// named, numbers. Every parameter must have a value, but views at constant addresses. With
// `numbers_only` arrays are left out.
int ktir_input_read(const ktir_request *r, bool numbers_only, ktir_input *out_input);
int ktir_input_write(const ktir_input *input);      // outputs
void ktir_input_free(ktir_input *input);

#endif
