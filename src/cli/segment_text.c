// SPDX-License-Identifier: Apache-2.0
#include "segment_text.h"

#include <stdio.h>

static int print_segment(const char *command, const spyre_executable *executable, uint32_t index,
                         const char *stage)
{
    char *content = NULL;
    const spyre_segment *s = spyre_executable_segment(executable, index);
    if (s->kind == SPYRE_SEGMENT_HOST) {
        printf("segment %u: host, %u nodes\n", index, s->node_count);
        return CLI_OK;
    }
    int code = cli_report(command, spyre_executable_text(executable, index, stage, &content));
    if (!code) printf("segment %u: card\n%s", index, content);
    spyre_string_free(content);
    return code;
}

int segment_text_print(const char *command, const spyre_executable *executable, const char *stage)
{
    int code = CLI_OK;
    for (uint32_t i = 0; !code && i < spyre_executable_segment_count(executable); i++)
        code = print_segment(command, executable, i, stage);
    return code ? code : cli_print(command, "");
}
