// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "cli.h"
#include "spyre/explore.h"

int cmd_explore(int count, char **arguments)
{
    cli_arguments in = {.command = "explore", .count = count, .items = arguments};
    const char *directory = NULL, *output = NULL;
    while (in.at < in.count) {
        if (cli_option(&in, "-o", &output)) continue;
        if (in.failed) return CLI_BAD_INPUT;
        if (*in.items[in.at] == '-' || directory) return cli_unexpected(&in);
        directory = in.items[in.at++];
    }
    if (!directory) return cli_complain("explore", "a directory is missing");
    if (!output) return cli_complain("explore", "-o FILE.html is missing");
    return cli_report("explore", spyre_explore(directory, output));
}
