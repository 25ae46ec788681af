// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "graph_input.h"

static int show_segment(const spyre_executable *executable, uint32_t index)
{
    char *why = NULL;
    const spyre_segment *s = spyre_executable_segment(executable, index);
    if (s->kind == SPYRE_SEGMENT_HOST) {
        printf("segment %u: host, %u nodes\n", index, s->node_count);
        return CLI_OK;
    }
    int code = cli_report("why", spyre_executable_text(executable, index, "why", &why));
    if (!code) printf("segment %u: card\n%s", index, why);
    spyre_string_free(why);
    return code;
}

int cmd_why(int count, char **arguments)
{
    cli_arguments in = {.command = "why", .count = count, .items = arguments};
    spyre_executable *executable = NULL;
    int code = graph_input_compile(&in, NULL, &executable);
    for (uint32_t i = 0; !code && i < spyre_executable_segment_count(executable); i++)
        code = show_segment(executable, i);
    spyre_executable_destroy(executable);
    return code ? code : cli_print("why", "");
}
