// SPDX-License-Identifier: Apache-2.0
//
// What commands that compile a graph have in common. Both return the exit code and complain in the
// name of `command`.
#ifndef CLI_GRAPH_INPUT_H
#define CLI_GRAPH_INPUT_H

#include "cli.h"
#include "spyre/compile.h"

// Reads a .graph file; the caller destroys the graph.
int graph_input_read(const char *command, const char *path, spyre_graph **out_graph);

// Changes a setting: "name=value".
int graph_input_set(const char *command, const char *text, spyre_settings *settings);

// The arguments of a command that takes a graph, settings (--set NAME=VALUE) and, when `output` is
// no null, -o FILE. The caller destroys the executable.
int graph_input_compile(cli_arguments *in, const char **output, spyre_executable **out_executable);

#endif
