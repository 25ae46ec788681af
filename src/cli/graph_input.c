// SPDX-License-Identifier: Apache-2.0
#include "graph_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SOURCE_BYTES = 256 << 20, FIRST_BYTES = 1 << 16 };

int graph_input_set(const char *command, const char *text, spyre_settings *settings)
{
    char name[64];
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : sizeof name;
    if (length >= sizeof name)
        return cli_complain(command, "--set: '%.60s' is not name=value", text);
    memcpy(name, text, length);
    name[length] = '\0';
    return cli_report(command, spyre_settings_set(settings, name, equals + 1));
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

int graph_input_read(const char *command, const char *path, spyre_graph **out_graph)
{
    size_t length = 0;
    FILE *stream = fopen(path, "rb");
    char *source = stream ? read_stream(stream, &length) : NULL;
    int reason = errno;
    if (stream) fclose(stream);
    if (!source) return cli_complain(command, "%s: %s", path, strerror(reason));
    int code = CLI_OK;
    if (strlen(source) != length)
        code = cli_complain(command, "%s: not a text: byte %zu is zero", path, strlen(source));
    else
        code = cli_report(command, spyre_graph_parse(source, path, out_graph));
    free(source);
    return code;
}

static int compile_file(const char *command, const char *path,
                        const spyre_compile_options *options, spyre_executable **out_executable)
{
    spyre_graph *graph = NULL;
    int code = graph_input_read(command, path, &graph);
    if (!code) code = cli_report(command, spyre_compile(graph, options, out_executable));
    spyre_graph_destroy(graph);
    return code;
}

int graph_input_compile(cli_arguments *in, const char **output, spyre_executable **out_executable)
{
    const char *source = NULL, *setting = NULL;
    spyre_compile_options options = spyre_compile_options_default();
    int code = cli_report(in->command, spyre_settings_from_environment(&options.settings));
    while (!code && in->at < in->count) {
        if (cli_option(in, "--set", &setting))
            code = graph_input_set(in->command, setting, &options.settings);
        else if (output && !in->failed && cli_option(in, "-o", output))
            continue;
        else if (in->failed)
            code = CLI_BAD_INPUT;
        else if (*in->items[in->at] == '-' || source)
            code = cli_unexpected(in);
        else
            source = in->items[in->at++];
    }
    if (code) return code;
    if (!source) return cli_complain(in->command, "a .graph file is missing");
    return compile_file(in->command, source, &options, out_executable);
}
