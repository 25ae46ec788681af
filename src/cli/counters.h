// SPDX-License-Identifier: Apache-2.0
//
// Counters of kernels on standard output: --counters as a table, --json as one line of JSON.
#ifndef CLI_COUNTERS_H
#define CLI_COUNTERS_H

#include <stdbool.h>

#include "cli.h"
#include "spyre/counters.h"

typedef struct {
    bool table, json;
} counters_options;

// Takes --counters and --json; false when the argument at hand is neither.
bool counters_option(cli_arguments *in, counters_options *options);

// Prints the kernels of one program and their sum, kernels[count], as asked for.
void counters_print(const counters_options *options, const spyre_kernel_counters *kernels,
                    uint32_t count);

#endif
