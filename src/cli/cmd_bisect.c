// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "launch_argument.h"
#include "spyre/bisect.h"
#include "spyre/graph.h"

typedef struct {
    const char *directory;
    bool pool_first;
    launch_arguments launch;
    launch_sizes sizes;
} request;

static int read_request(cli_arguments *in, request *r)
{
    while (in->at < in->count) {
        int result;
        if (launch_size_option(in, &r->sizes)) continue;
        if (launch_option(in, &r->launch, false, &result)) {
            if (result) return result;
        } else if (cli_flag(in, "--pool")) {
            r->pool_first = true;
        } else if (*in->items[in->at] == '-' || r->directory) {
            return cli_unexpected(in);
        } else {
            r->directory = in->items[in->at++];
        }
    }
    return r->directory ? CLI_OK : cli_complain("bisect", "the directory of a bundle is missing");
}

static int prepare(request *r)
{
    for (uint32_t k = 0; k < r->launch.named; k++) {
        launch_argument *argument = &r->launch.items[k];
        long long bytes = argument->size;
        if (!bytes && argument->input) bytes = launch_file_bytes(argument->input);
        argument->buffer.byte_count = bytes;
        if (!argument->input) continue;
        if (!bytes) return cli_complain("bisect", "%s: no file with bytes", argument->input);
        int code = launch_argument_fill("bisect", argument, k);
        if (code) return code;
    }
    return CLI_OK;
}

static int run(request *r)
{
    static spyre_program_buffer buffers[LAUNCH_MOST_ARGUMENTS];
    char *content = NULL;
    bool equal;
    for (uint32_t k = 0; k < r->launch.named; k++) buffers[k] = r->launch.items[k].buffer;
    spyre_status status = spyre_bundle_bisect(r->directory, r->pool_first, buffers, r->launch.named,
                                              r->sizes.items, r->sizes.count, &equal, &content);
    if (status) return cli_report("bisect", status);
    int code = cli_print("bisect", content);
    spyre_string_free(content);
    return code ? code : equal ? CLI_OK : CLI_FAILED;
}

int cmd_bisect(int count, char **arguments)
{
    static request r;
    r = (request){.directory = NULL};
    cli_arguments in = {.command = "bisect", .count = count, .items = arguments};
    int code = read_request(&in, &r);
    if (!code) code = prepare(&r);
    return code ? code : run(&r);
}
