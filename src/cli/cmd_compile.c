// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "counters.h"
#include "graph_input.h"
#include "spyre/bundle.h"

typedef struct {
    graph_input input;
    const char *output;             // directory, or null
    counters_options counters;
    bool stats;
} request;

// Takes the argument at hand; settings that have an option of their own are among them.
static int read_argument(cli_arguments *in, request *out)
{
    spyre_compile_options *options = &out->input.options;
    const char *cores = NULL, *skip = NULL;
    bool taken = false;
    if (cli_option(in, "-o", &out->output)) return CLI_OK;
    if (cli_option(in, "--dump", &options->dump_dir)) return CLI_OK;
    if (cli_option(in, "--cores", &cores)) {
        out->input.has_settings = true;
        return cli_report("compile", spyre_settings_set(&options->settings, "sencores", cores));
    }
    if (cli_option(in, "--skip", &skip)) {
        out->input.has_settings = true;
        options->settings.skip_passes = skip;
        return CLI_OK;
    }
    if (in->failed) return CLI_BAD_INPUT;
    if (counters_option(in, &out->counters)) return CLI_OK;
    if (cli_flag(in, "--strict")) {
        options->host_fallback = false;
        return CLI_OK;
    }
    if (cli_flag(in, "--stats")) {
        out->stats = true;
        return CLI_OK;
    }
    int code = graph_input_argument(in, &out->input, &taken);
    return code || taken ? code : cli_unexpected(in);
}

static int read_request(cli_arguments *in, request *out)
{
    int code = graph_input_begin("compile", &out->input);
    while (!code && in->at < in->count) code = read_argument(in, out);
    return code;
}

static int print_segments(const spyre_executable *executable)
{
    for (uint32_t i = 0; i < spyre_executable_segment_count(executable); i++) {
        const spyre_segment *s = spyre_executable_segment(executable, i);
        printf("segment %u %s: %u nodes, %u inputs, %u outputs", i,
               s->kind == SPYRE_SEGMENT_CARD ? "card" : "host", s->node_count, s->input_count,
               s->output_count);
        if (s->kind == SPYRE_SEGMENT_CARD)
            printf("; %u kernels, %lld multiply-adds, %lld bytes of memory traffic, pool of %lld "
                   "bytes", s->kernel_count, (long long)s->mac_count, (long long)s->memory_bytes,
                   (long long)s->pool_bytes);
        putchar('\n');
    }
    return cli_print("compile", "");
}

static int show_counters(const spyre_executable *executable, const counters_options *options)
{
    for (uint32_t i = 0; i < spyre_executable_segment_count(executable); i++) {
        const spyre_kernel_counters *kernels = spyre_executable_counters(executable, i);
        if (!kernels) continue;
        if (options->table) printf("\nsegment %u\n", i);
        counters_print(options, kernels, spyre_executable_segment(executable, i)->kernel_count);
    }
    return cli_print("compile", "");
}

static int show_stats(const spyre_executable *executable)
{
    spyre_statistic row;
    for (uint32_t i = 0; i < spyre_executable_segment_count(executable); i++) {
        char *table = NULL;
        if (spyre_executable_segment(executable, i)->kind != SPYRE_SEGMENT_CARD) continue;
        int code = cli_report("compile", spyre_executable_text(executable, i, "time", &table));
        if (code) return code;
        printf("\nsegment %u\n%s", i, table);
        spyre_string_free(table);
    }
    putchar('\n');
    for (uint32_t i = 0; spyre_statistic_at(i, &row); i++)
        if (row.value) printf("%-28s%12lld  %s\n", row.name, (long long)row.value, row.meaning);
    return cli_print("compile", "");
}

static int show(const spyre_executable *executable)
{
    char *report = NULL;
    spyre_status status = spyre_executable_report(executable, &report);
    if (status) return cli_report("compile", status);
    int code = cli_print("compile", report);
    spyre_string_free(report);
    return code ? code : print_segments(executable);
}

int cmd_compile(int count, char **arguments)
{
    cli_arguments in = {.command = "compile", .count = count, .items = arguments};
    request r = {0};
    spyre_executable *executable = NULL;
    int code = read_request(&in, &r);
    if (!code) code = graph_input_compile("compile", &r.input, &executable);
    if (!code && r.output)
        code = cli_report("compile", spyre_executable_save(executable, r.output));
    if (!code && !r.counters.json) code = show(executable);
    if (!code) code = show_counters(executable, &r.counters);
    if (!code && r.stats) code = show_stats(executable);
    spyre_executable_destroy(executable);
    return code;
}
