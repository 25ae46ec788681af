// SPDX-License-Identifier: Apache-2.0
#include "graph_input.h"
#include "segment_text.h"

static int print_exchanges(const spyre_executable *executable, uint32_t ranks)
{
    char *content = NULL;
    int code = cli_report("why", spyre_executable_exchanges(executable, ranks, &content));
    if (!code) code = cli_print("why", content);
    spyre_string_free(content);
    return code;
}

static int compile(cli_arguments *in, uint32_t *out_ranks, spyre_executable **out_executable)
{
    graph_input input;
    int code = graph_input_begin("why", &input);
    while (!code && in->at < in->count) {
        const char *ranks;
        bool taken = cli_option(in, "--ranks", &ranks);
        if (taken) code = cli_read_count("why", "--ranks", ranks, out_ranks);
        else if (in->failed) code = CLI_BAD_INPUT;
        else code = graph_input_argument(in, &input, &taken);
        if (!code && !taken) code = cli_unexpected(in);
    }
    return code ? code : graph_input_compile("why", &input, out_executable);
}

int cmd_why(int count, char **arguments)
{
    cli_arguments in = {.command = "why", .count = count, .items = arguments};
    spyre_executable *executable = NULL;
    uint32_t ranks = 0;
    int code = compile(&in, &ranks, &executable);
    if (!code) code = segment_text_print("why", executable, "why");
    if (!code) code = print_exchanges(executable, ranks);
    spyre_executable_destroy(executable);
    return code;
}
