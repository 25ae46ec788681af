// SPDX-License-Identifier: Apache-2.0
#include "graph_input.h"
#include "segment_text.h"

int cmd_why(int count, char **arguments)
{
    cli_arguments in = {.command = "why", .count = count, .items = arguments};
    spyre_executable *executable = NULL;
    int code = graph_input_compile_arguments(&in, NULL, &executable);
    if (!code) code = segment_text_print("why", executable, "why");
    spyre_executable_destroy(executable);
    return code;
}
