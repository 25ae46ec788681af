// SPDX-License-Identifier: Apache-2.0
#include "graph_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SOURCE_BYTES = 256 << 20, FIRST_BYTES = 1 << 16 };

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

// The text of a file, which the caller frees.
static int read_text(const char *command, const char *path, char **out_source)
{
    size_t length = 0;
    FILE *stream = fopen(path, "rb");
    *out_source = stream ? read_stream(stream, &length) : NULL;
    int reason = errno;
    if (stream) fclose(stream);
    if (!*out_source) return cli_complain(command, "%s: %s", path, strerror(reason));
    if (strlen(*out_source) == length) return CLI_OK;
    return cli_complain(command, "%s: not a text: byte %zu is zero", path, strlen(*out_source));
}

static bool ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && strcmp(path + length - tail, ending) == 0;
}

static int compile_graph(const char *command, const graph_input *input, const char *source,
                         spyre_executable **out_executable)
{
    spyre_graph *graph = NULL;
    if (input->after)
        return cli_complain(command, "--after: %s is no .loop or .passes file", input->path);
    int code = cli_report(command, spyre_graph_parse(source, input->path, &graph));
    if (!code) code = cli_report(command, spyre_compile(graph, &input->options, out_executable));
    spyre_graph_destroy(graph);
    return code;
}

static int compile_loops(const char *command, const graph_input *input, const char *source,
                         spyre_executable **out_executable)
{
    if (input->has_settings)
        return cli_complain(command, "%s: its settings are its lines 'set NAME=VALUE'",
                            input->path);
    return cli_report(command, spyre_compile_loops(source, input->path, input->after,
                                                   input->options.dump_dir, out_executable));
}

int graph_input_begin(const char *command, graph_input *out)
{
    *out = (graph_input){.options = spyre_compile_options_default()};
    return cli_report(command, spyre_settings_from_environment(&out->options.settings));
}

static int set(const char *command, const char *text, graph_input *out)
{
    char name[64];
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : sizeof name;
    if (length >= sizeof name)
        return cli_complain(command, "--set: '%.60s' is not name=value", text);
    memcpy(name, text, length);
    name[length] = '\0';
    out->has_settings = true;
    return cli_report(command, spyre_settings_set(&out->options.settings, name, equals + 1));
}

int graph_input_argument(cli_arguments *in, graph_input *out, bool *out_taken)
{
    const char *setting = NULL;
    *out_taken = true;
    if (cli_option(in, "--set", &setting)) return set(in->command, setting, out);
    if (in->failed) return CLI_BAD_INPUT;
    if (cli_option(in, "--after", &out->after)) return CLI_OK;
    if (in->failed) return CLI_BAD_INPUT;
    *out_taken = *in->items[in->at] != '-' && !out->path;
    if (*out_taken) out->path = in->items[in->at++];
    return CLI_OK;
}

int graph_input_compile(const char *command, const graph_input *input,
                        spyre_executable **out_executable)
{
    char *source = NULL;
    if (!input->path) return cli_complain(command, "a .graph or .loop file is missing");
    bool loops = ends_with(input->path, ".loop") || ends_with(input->path, ".passes");
    int code = read_text(command, input->path, &source);
    if (!code) code = (loops ? compile_loops : compile_graph)(command, input, source,
                                                              out_executable);
    free(source);
    return code;
}

int graph_input_compile_arguments(cli_arguments *in, const char **output,
                                  spyre_executable **out_executable)
{
    graph_input input;
    int code = graph_input_begin(in->command, &input);
    while (!code && in->at < in->count) {
        bool taken = false;
        if (output && cli_option(in, "-o", output)) continue;
        code = in->failed ? CLI_BAD_INPUT : graph_input_argument(in, &input, &taken);
        if (!code && !taken) code = cli_unexpected(in);
    }
    return code ? code : graph_input_compile(in->command, &input, out_executable);
}
