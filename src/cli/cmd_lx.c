// SPDX-License-Identifier: Apache-2.0
#include "graph_input.h"
#include "segment_text.h"

int cmd_lx(int count, char **arguments)
{
    cli_arguments in = {.command = "lx", .count = count, .items = arguments};
    const char *output = NULL;
    spyre_executable *executable = NULL;
    int code = graph_input_compile_arguments(&in, &output, &executable);
    if (!code && output) code = cli_report("lx", spyre_executable_draw_lx(executable, output));
    else if (!code) code = segment_text_print("lx", executable, "lx");
    spyre_executable_destroy(executable);
    return code;
}
