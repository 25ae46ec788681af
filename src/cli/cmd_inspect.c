// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "launch_argument.h"
#include "spyre/graph.h"
#include "spyre/inspect.h"

int cmd_inspect(int count, char **arguments)
{
    cli_arguments in = {.command = "inspect", .count = count, .items = arguments};
    char *content = NULL;
    launch_sizes sizes = {.count = 0};
    bool plan = cli_flag(&in, "--plan");
    while (in.at < count && launch_size_option(&in, &sizes)) continue;
    if (in.at == count) return cli_complain("inspect", "a path is missing");
    if (arguments[in.at][0] == '-') return cli_unexpected(&in);
    const char *path = arguments[in.at++];
    while (in.at < count && launch_size_option(&in, &sizes)) continue;
    if (in.at < count) return cli_unexpected(&in);
    spyre_status status = plan ? spyre_inspect_plan(path, &content)
                               : spyre_inspect(path, sizes.items, sizes.count, &content);
    if (status) return cli_report("inspect", status);
    int code = cli_print("inspect", content);
    spyre_string_free(content);
    return code;
}
