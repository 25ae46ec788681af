// SPDX-License-Identifier: Apache-2.0
#include "compile/inspect/inspect.h"

#include <string.h>

#include "base/file.h"
#include "base/thread_pool.h"
#include "card/card.h"
#include "graph/aten.h"
#include "graph/text/print.h"
#include "spyre/inspect.h"

enum { FILE_LIMIT_BYTES = 1 << 30 };

static void print_graph_summary(const spyre_graph *graph, const char *path, text *out)
{
    uint32_t layers[GRAPH_LAYER_HOST + 1] = {0};
    for (uint32_t i = 0; i < graph->nodes.count; i++) layers[graph->nodes.items[i].layer]++;
    text_printf(out, "# %s: %u inputs, %u nodes (%u native, %u to rewrite, %u views, %u host), ",
                path, graph->inputs.count, graph->nodes.count, layers[GRAPH_LAYER_NATIVE],
                layers[GRAPH_LAYER_DECOMPOSITION], layers[GRAPH_LAYER_VIEW],
                layers[GRAPH_LAYER_HOST]);
    text_printf(out, "%u outputs\n", graph->outputs.count);
}

static spyre_status inspect_graph(const char *path, const char *source, size_t length, text *out)
{
    spyre_graph *graph;
    if (memchr(source, 0, length))
        return status_new(SPYRE_INVALID_FORMAT, "%s: neither text nor a program image", path);
    TRY(spyre_graph_parse(source, path, &graph));
    print_graph_summary(graph, path, out);
    spyre_status status = graph_print(graph, true, out);
    spyre_graph_destroy(graph);
    return status;
}

static spyre_status inspect_directory(arena *memory, const char *path, const char *const *sizes,
                                      uint32_t size_count, text *out)
{
    const char *code = file_join(memory, path, "spyrecode.json");
    const char *steps = file_join(memory, path, "bundle.mlir");
    TRY_ALLOC(code);
    TRY_ALLOC(steps);
    if (file_exists(steps) && (size_count || !file_exists(code)))
        return inspect_bundle(memory, path, sizes, size_count, out);
    if (size_count)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: sizes are those of a bundle", path);
    if (file_exists(code)) return inspect_spyrecode(memory, path, out);
    return status_new(SPYRE_NOT_FOUND, "%s: holds neither bundle.mlir nor spyrecode.json", path);
}

static spyre_status inspect_file(arena *memory, const char *path, text *out)
{
    char *bytes;
    size_t length;
    if (text_ends_in(path, "init.txt")) return inspect_init_text(memory, path, out);
    if (text_ends_in(path, ".json")) return inspect_bundle_step(memory, path, out);
    TRY(file_read(memory, path, FILE_LIMIT_BYTES, &bytes, &length));
    if (isa_image_bytes((const uint8_t *)bytes, length))
        return inspect_program(memory, path, (const uint8_t *)bytes, length, out);
    return inspect_graph(path, bytes, length, out);
}

spyre_status spyre_inspect(const char *path, const char *const *sizes, uint32_t size_count,
                           char **out_text)
{
    text out = {0};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status =
        file_is_directory(path) ? inspect_directory(memory, path, sizes, size_count, &out)
        : size_count ? status_new(SPYRE_INVALID_ARGUMENT, "%s: sizes are those of a bundle", path)
                     : inspect_file(memory, path, &out);
    arena_destroy(memory);
    return text_give(&out, status, out_text);
}

static spyre_status print_plan(arena *memory, const char *path, text *out)
{
    char *bytes;
    size_t length;
    uint32_t threads;
    isa_program *program;
    if (file_is_directory(path)) path = file_join(memory, path, "init.bin");
    TRY_ALLOC(path);
    TRY(thread_default_count(&threads));
    TRY(file_read(memory, path, FILE_LIMIT_BYTES, &bytes, &length));
    size_t used = isa_image_bytes((const uint8_t *)bytes, length);
    if (!used) return status_new(SPYRE_INVALID_FORMAT, "%s: not a program image", path);
    TRY(status_at(isa_decode(memory, (const uint8_t *)bytes, used, &program), "%s", path));
    return status_at(card_print_plan(program, threads, out), "%s", path);
}

spyre_status spyre_inspect_plan(const char *path, char **out_text)
{
    text out = {0};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = print_plan(memory, path, &out);
    arena_destroy(memory);
    return text_give(&out, status, out_text);
}
