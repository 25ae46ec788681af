// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "cli.h"
#include "spyre/graph.h"
#include "spyre/inspect.h"

int cmd_inspect(int count, char **arguments)
{
    cli_arguments in = {.command = "inspect", .count = count, .items = arguments};
    char *content = NULL;
    if (count == 0) return cli_complain("inspect", "a path is missing");
    if (arguments[0][0] == '-') return cli_unexpected(&in);
    in.at = 1;
    if (count > 1) return cli_unexpected(&in);
    spyre_status status = spyre_inspect(arguments[0], &content);
    if (status) return cli_report("inspect", status);
    int code = cli_print("inspect", content);
    spyre_string_free(content);
    return code;
}
