// SPDX-License-Identifier: Apache-2.0
//
// spyre ktir print|run: KTIR kernels.
#include <stdlib.h>
#include <string.h>

#include "ktir_input.h"
#include "spyre/graph.h"

static int read_request(cli_arguments *in, ktir_request *r, bool *interpret)
{
    while (in->at < in->count) {
        int code;
        if (cli_flag(in, "--interpret")) *interpret = true;
        else if (!ktir_request_take(in, r, &code)) return cli_unexpected(in);
        else if (code) return code;
    }
    return CLI_OK;
}

static int print_kernel(cli_arguments *in)
{
    ktir_request r = {0};
    bool interpret = false;
    spyre_ktir *kernel = NULL;
    char *printed = NULL;
    int code = read_request(in, &r, &interpret);
    if (!code) code = ktir_open(&r, &kernel);
    if (!code) code = cli_report("ktir", spyre_ktir_print(kernel, &printed));
    if (!code) code = cli_print("ktir", printed);
    spyre_string_free(printed);
    spyre_ktir_destroy(kernel);
    return code;
}

static int run_kernel(cli_arguments *in)
{
    static ktir_input input;
    ktir_request r = {0};
    bool interpret = false;
    int code = read_request(in, &r, &interpret);
    if (code) return code;
    code = ktir_input_read(&r, false, &input);
    if (!code)
        code = cli_report("ktir", spyre_ktir_interpret(input.kernel, &input.options, input.values));
    if (!code) code = ktir_input_write(&input);
    ktir_input_free(&input);
    return code;
}

int cmd_ktir(int count, char **arguments)
{
    cli_arguments in = {.command = "ktir", .count = count, .items = arguments, .at = 1};
    if (!count) return cli_complain("ktir", "print or run is missing");
    if (strcmp(arguments[0], "print") == 0) return print_kernel(&in);
    if (strcmp(arguments[0], "run") == 0) return run_kernel(&in);
    return cli_complain("ktir", "'%s': expected print or run", arguments[0]);
}
