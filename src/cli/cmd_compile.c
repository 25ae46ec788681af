// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "counters.h"
#include "graph_input.h"
#include "spyre/bundle.h"

typedef struct {
    const char *source;             // path of the graph
    const char *output;             // directory, or null
    spyre_compile_options options;
    counters_options counters;
    bool stats;
} request;

static int read_request(cli_arguments *in, request *out)
{
    const char *cores = NULL, *setting = NULL;
    int code = cli_report("compile", spyre_settings_from_environment(&out->options.settings));
    if (code) return code;
    while (in->at < in->count) {
        if (cli_option(in, "--set", &setting)) {
            code = graph_input_set("compile", setting, &out->options.settings);
            if (code) return code;
            continue;
        }
        if (cli_option(in, "-o", &out->output)) continue;
        if (cli_option(in, "--dump", &out->options.dump_dir)) continue;
        if (cli_option(in, "--cores", &cores)) continue;
        if (cli_option(in, "--skip", &out->options.settings.skip_passes)) continue;
        if (in->failed) return CLI_BAD_INPUT;
        if (counters_option(in, &out->counters)) continue;
        if (cli_flag(in, "--strict")) {
            out->options.host_fallback = false;
        } else if (cli_flag(in, "--stats")) {
            out->stats = true;
        } else if (*in->items[in->at] == '-' || out->source) {
            return cli_unexpected(in);
        } else {
            out->source = in->items[in->at++];
        }
    }
    if (!out->source) return cli_complain("compile", "a .graph file is missing");
    if (!cores) return CLI_OK;
    return cli_report("compile", spyre_settings_set(&out->options.settings, "sencores", cores));
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
    request r = {.options = spyre_compile_options_default()};
    spyre_graph *graph = NULL;
    spyre_executable *executable = NULL;
    int code = read_request(&in, &r);
    if (!code) code = graph_input_read("compile", r.source, &graph);
    if (!code) {
        spyre_status status = spyre_compile(graph, &r.options, &executable);
        if (!status && r.output) status = spyre_executable_save(executable, r.output);
        code = cli_report("compile", status);
    }
    if (!code && !r.counters.json) code = show(executable);
    if (!code) code = show_counters(executable, &r.counters);
    if (!code && r.stats) code = show_stats(executable);
    spyre_executable_destroy(executable);
    spyre_graph_destroy(graph);
    return code;
}
