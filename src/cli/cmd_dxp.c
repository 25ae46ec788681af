// SPDX-License-Identifier: Apache-2.0
//
// The command form of the back-end compiler that torch-spyre calls: --bundle -d DIR.
#include <stddef.h>

#include "cli.h"
#include "spyre/bundle.h"

int cmd_dxp(int count, char **arguments)
{
    cli_arguments in = {.command = "dxp", .count = count, .items = arguments};
    spyre_bundle_options options = SPYRE_BUNDLE_OPTIONS_INIT;
    const char *directory = NULL;
    while (in.at < in.count) {
        if (cli_flag(&in, "--bundle")) continue;
        if (cli_option(&in, "-d", &directory) || cli_option(&in, "-o", &options.output)) continue;
        if (in.failed) return CLI_BAD_INPUT;
        if (cli_flag(&in, "--pool")) options.pool_first = true;
        else if (cli_flag(&in, "--init-txt")) options.init_text = true;
        else return cli_unexpected(&in);
    }
    if (!directory) return cli_complain("dxp", "-d with the bundle's directory is missing");
    return cli_report("dxp", spyre_bundle_compile(directory, &options));
}
