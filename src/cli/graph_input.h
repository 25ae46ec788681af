// SPDX-License-Identifier: Apache-2.0
//
// What commands that compile have in common: a file with a graph, or with the loop IR that passes
// made of one. Functions return the exit code and complain in the name of `command`.
#ifndef CLI_GRAPH_INPUT_H
#define CLI_GRAPH_INPUT_H

#include "cli.h"
#include "spyre/compile.h"

typedef struct {
    const char *path;       // FILE.graph, FILE.loop or FILE.passes
    const char *after;      // --after PASS, or null
    bool has_settings;      // some were given on the command line
    spyre_compile_options options;
} graph_input;

// Default options with the settings of the environment.
int graph_input_begin(const char *command, graph_input *out);

// Takes the argument at hand when it is --set NAME=VALUE, --after PASS or the file; *out_taken says
// whether it was.
int graph_input_argument(cli_arguments *in, graph_input *out, bool *out_taken);

// Compiles what the file holds. The caller destroys the executable.
int graph_input_compile(const char *command, const graph_input *input,
                        spyre_executable **out_executable);

// For a command with no other arguments than these and, when `output` is no null, -o FILE.
int graph_input_compile_arguments(cli_arguments *in, const char **output,
                                  spyre_executable **out_executable);

#endif
