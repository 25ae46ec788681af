// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "cli.h"
#include "spyre/graph.h"
#include "spyre/replay.h"

static bool read_core(const char *value, int *out)
{
    char *end;
    errno = 0;
    long core = strtol(value, &end, 10);
    *out = (int)core;
    return end != value && !*end && !errno && core >= 0 && core <= 31;
}

int cmd_replay(int count, char **arguments)
{
    cli_arguments in = {.command = "replay", .count = count, .items = arguments};
    spyre_replay_options options = SPYRE_REPLAY_OPTIONS_INIT;
    const char *path = NULL, *core = NULL;
    char *content = NULL;
    bool equal;
    while (in.at < in.count) {
        if (cli_option(&in, "--until", &options.until)) continue;
        if (!in.failed && cli_option(&in, "--core", &core)) continue;
        if (in.failed) return CLI_BAD_INPUT;
        if (cli_flag(&in, "--exact")) {
            options.exact = true;
            continue;
        }
        if (*in.items[in.at] == '-' || path) return cli_unexpected(&in);
        path = in.items[in.at++];
    }
    if (!path) return cli_complain("replay", "a recorded launch is missing");
    if (core && !read_core(core, &options.core))
        return cli_complain("replay", "--core '%s': expected a number in 0..31", core);
    spyre_status status = spyre_replay(path, &options, &equal, &content);
    if (status) return cli_report("replay", status);
    int code = cli_print("replay", content);
    spyre_string_free(content);
    return code ? code : equal ? CLI_OK : CLI_FAILED;
}
