// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "spyre/bundle.h"

typedef struct {
    const char *source;             // path of the graph
    const char *output;             // directory, or null
    spyre_compile_options options;
    counters_options counters;
} request;

enum { MOST_SOURCE_BYTES = 256 << 20, FIRST_BYTES = 1 << 16 };

// "name=value"
static int change_setting(const char *text, spyre_settings *settings)
{
    char name[64];
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : sizeof name;
    if (length >= sizeof name)
        return cli_complain("compile", "--set: '%.60s' is not name=value", text);
    memcpy(name, text, length);
    name[length] = '\0';
    return cli_report("compile", spyre_settings_set(settings, name, equals + 1));
}

static int read_request(cli_arguments *in, request *out)
{
    const char *cores = NULL, *setting = NULL;
    int code = cli_report("compile", spyre_settings_from_environment(&out->options.settings));
    if (code) return code;
    while (in->at < in->count) {
        if (cli_option(in, "--set", &setting)) {
            code = change_setting(setting, &out->options.settings);
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

// The rest of a stream as a string; null with errno set.
static char *read_stream(FILE *stream, size_t *out_length)
{
    size_t capacity = FIRST_BYTES, length = 0;
    char *bytes = malloc(capacity);
    while (bytes) {
        length += fread(bytes + length, 1, capacity - length - 1, stream);
        if (length + 1 < capacity) break;
        char *larger = capacity < MOST_SOURCE_BYTES ? realloc(bytes, capacity * 2) : NULL;
        if (!larger) {
            free(bytes);
            errno = EFBIG;
            return NULL;
        }
        bytes = larger;
        capacity *= 2;
    }
    if (bytes && ferror(stream)) {
        free(bytes);
        return NULL;
    }
    if (bytes) bytes[length] = '\0';
    *out_length = length;
    return bytes;
}

static int read_graph(const char *path, spyre_graph **out_graph)
{
    size_t length = 0;
    FILE *stream = fopen(path, "rb");
    char *source = stream ? read_stream(stream, &length) : NULL;
    int reason = errno;
    if (stream) fclose(stream);
    if (!source) return cli_complain("compile", "%s: %s", path, strerror(reason));
    int code = CLI_OK;
    if (strlen(source) != length)
        code = cli_complain("compile", "%s: not a text: byte %zu is zero", path, strlen(source));
    else
        code = cli_report("compile", spyre_graph_parse(source, path, out_graph));
    free(source);
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
    if (!code) code = read_graph(r.source, &graph);
    if (!code) {
        spyre_status status = spyre_compile(graph, &r.options, &executable);
        if (!status && r.output) status = spyre_executable_save(executable, r.output);
        code = cli_report("compile", status);
    }
    if (!code && !r.counters.json) code = show(executable);
    if (!code) code = show_counters(executable, &r.counters);
    spyre_executable_destroy(executable);
    spyre_graph_destroy(graph);
    return code;
}
