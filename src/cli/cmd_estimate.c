// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "output_file.h"
#include "spyre/estimate.h"
#include "spyre/graph.h"

// The option at hand; false when it is none of these.
static bool take_option(cli_arguments *in, spyre_estimate_options *o, int *code)
{
    const struct {
        const char *name;
        uint32_t *target;
    } options[] = {{"--cards", &o->cards}, {"--tp", &o->tensor},     {"--pp", &o->pipeline},
                   {"--batch", &o->batch}, {"--prompt", &o->prompt}, {"--context", &o->context}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *value;
        if (!cli_option(in, options[i].name, &value)) continue;
        *code = cli_read_count("estimate", options[i].name, value, options[i].target);
        return true;
    }
    return false;
}

static int write_file(const char *path, const char *content)
{
    output_file file;
    bool good = output_file_open(path, &file);
    if (good) good = output_file_close(&file, fputs(content, file.stream) >= 0);
    return good ? CLI_OK : cli_complain("estimate", "%s: %s", path, strerror(errno));
}

static int estimate(const char *path, const spyre_estimate_options *o, const char *output)
{
    char *table, *picture;
    int code = cli_report("estimate", spyre_estimate(path, o, &table, &picture));
    if (!code && output) code = write_file(output, picture);
    if (!code) code = cli_print("estimate", table);
    spyre_string_free(table);
    spyre_string_free(picture);
    return code;
}

int cmd_estimate(int count, char **arguments)
{
    cli_arguments in = {.command = "estimate", .count = count, .items = arguments};
    spyre_estimate_options options = spyre_estimate_options_default();
    const char *path = NULL, *output = NULL;
    int code = CLI_OK;
    while (in.at < in.count && !code) {
        if (take_option(&in, &options, &code) || cli_option(&in, "-o", &output)) continue;
        if (in.failed) return CLI_BAD_INPUT;
        if (path || *in.items[in.at] == '-') return cli_unexpected(&in);
        path = in.items[in.at++];
    }
    if (in.failed) return CLI_BAD_INPUT;
    if (!code && !path) code = cli_complain("estimate", "a configuration is missing");
    return code ? code : estimate(path, &options, output);
}
