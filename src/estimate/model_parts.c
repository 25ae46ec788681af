// SPDX-License-Identifier: Apache-2.0
//
// Weights lie as products read them ([in, out]), as a program's weights do after its first launch.
#include "estimate/model_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "spyre/counters.h"
#include "spyre/graph.h"

typedef long long number;       // for printf

typedef struct {
    const estimate_model *m;
    const part_shape *s;
    number hidden, sequences, tokens;
    text out;
} writer;

static void weight(writer *w, const char *name, number rows, number columns)
{
    text_printf(&w->out, "input %%%s: f16[%lld, %lld]\n", name, rows, columns);
}

static void begin(writer *w, bool norm)
{
    text_printf(&w->out, "input %%x: f16[%lld, %lld, %lld]\n", w->sequences, w->tokens, w->hidden);
    if (norm) text_printf(&w->out, "input %%norm: f16[%lld]\n", w->hidden);
}

static void normalise(writer *w)
{
    text_printf(&w->out, "%%h = aten.rms_norm.default(%%x, [%lld], %%norm, 1e-5) -> "
                "f16[%lld, %lld, %lld]\n", w->hidden, w->sequences, w->tokens, w->hidden);
}

static void product(writer *w, const char *name, const char *x, number columns)
{
    text_printf(&w->out, "%%%s = aten.matmul.default(%%%s, %%w%s) -> f16[%lld, %lld, %lld]\n",
                name, x, name, w->sequences, w->tokens, columns);
}

// Splits %name into heads.
static void split(writer *w, const char *name, number heads)
{
    number dim = w->m->head_dim;
    text_printf(&w->out, "%%%s4 = aten.view.default(%%%s, [%lld, %lld, %lld, %lld]) -> "
                "f16[%lld, %lld, %lld, %lld]\n", name, name, w->sequences, w->tokens, heads, dim,
                w->sequences, w->tokens, heads, dim);
}

// The half of %name4's heads that begins at `from`.
static void half(writer *w, const char *name, char which, number heads, number from)
{
    number dim = w->m->head_dim, row = heads * dim;
    text_printf(&w->out, "%%%s%c = aten.slice.Tensor(%%%s4, 3, %lld, %lld, 1) -> "
                "f16[%lld, %lld, %lld, %lld]{%lld, %lld, %lld, 1}+%lld\n", name, which, name, from,
                from + dim / 2, w->sequences, w->tokens, heads, dim / 2, w->tokens * row, row, dim,
                from);
}

static void on_heads(writer *w, const char *result, const char *call, number heads)
{
    text_printf(&w->out, "%%%s = aten.%s -> f16[%lld, %lld, %lld, %lld]\n", result, call,
                w->sequences, w->tokens, heads, (number)w->m->head_dim);
}

// Heads of %name4 or, with positions in them, %name7, before tokens: %namet.
static void transpose(writer *w, const char *name, char from, number heads)
{
    number dim = w->m->head_dim, row = heads * dim;
    text_printf(&w->out, "%%%st = aten.transpose.int(%%%s%c, 1, 2) -> "
                "f16[%lld, %lld, %lld, %lld]{%lld, %lld, %lld, 1}\n", name, name, from,
                w->sequences, heads, w->tokens, dim, w->tokens * row, dim, row);
}

// A step on %name's heads: its result is %name and one more character.
static void step(writer *w, const char *name, char which, number heads, const char *format, ...)
    SPYRE_PRINTF(5, 6);
static void step(writer *w, const char *name, char which, number heads, const char *format, ...)
{
    char call[96], result[16];
    va_list values;
    va_start(values, format);
    vsnprintf(call, sizeof call, format, values);
    va_end(values);
    snprintf(result, sizeof result, "%s%c", name, which);
    on_heads(w, result, call, heads);
}

// Rotary positions: x cos + (-second half, first half) sin.
static void rotate(writer *w, const char *name, number heads)
{
    number dim = w->m->head_dim;
    half(w, name, 'a', heads, 0);
    half(w, name, 'b', heads, dim / 2);
    text_printf(&w->out, "%%%sn = aten.neg.default(%%%sb) -> f16[%lld, %lld, %lld, %lld]\n", name,
                name, w->sequences, w->tokens, heads, dim / 2);
    step(w, name, 'r', heads, "cat.default([%%%sn, %%%sa], 3)", name, name);
    step(w, name, '5', heads, "mul.Tensor(%%%s4, %%cos)", name);
    step(w, name, '6', heads, "mul.Tensor(%%%sr, %%sin)", name);
    step(w, name, '7', heads, "add.Tensor(%%%s5, %%%s6, 1)", name, name);
}

static void attention(writer *w)
{
    number dim = w->m->head_dim, heads = w->m->heads / w->s->cards;
    number kv_heads = model_kv_heads(w->m, w->s->cards), context = w->s->context;
    bool cached = context > w->tokens;
    begin(w, true);
    weight(w, "wq", w->hidden, heads * dim);
    weight(w, "wk", w->hidden, kv_heads * dim);
    weight(w, "wv", w->hidden, kv_heads * dim);
    weight(w, "wo", heads * dim, w->hidden);
    text_printf(&w->out, "input %%cos: f16[1, %lld, 1, %lld]\ninput %%sin: f16[1, %lld, 1, %lld]\n",
                w->tokens, dim, w->tokens, dim);
    for (const char *name = "kv"; cached && *name; name++)
        text_printf(&w->out, "input %%%ccache: f16[%lld, %lld, %lld, %lld]\n", *name,
                    w->sequences, kv_heads, context, dim);
    normalise(w);
    product(w, "q", "h", heads * dim);
    product(w, "k", "h", kv_heads * dim);
    product(w, "v", "h", kv_heads * dim);
    split(w, "q", heads);
    split(w, "k", kv_heads);
    split(w, "v", kv_heads);
    rotate(w, "q", heads);
    rotate(w, "k", kv_heads);
    transpose(w, "q", '7', heads);
    if (!cached) transpose(w, "k", '7', kv_heads);
    if (!cached) transpose(w, "v", '4', kv_heads);
    text_printf(&w->out, "%%a = aten.scaled_dot_product_attention.default(%%qt, %s, none, 0.0, %s, "
                "none, true) -> f16[%lld, %lld, %lld, %lld]\n",
                cached ? "%kcache, %vcache" : "%kt, %vt", cached ? "false" : "true", w->sequences,
                heads, w->tokens, dim);
    text_printf(&w->out, "%%at = aten.transpose.int(%%a, 1, 2) -> f16[%lld, %lld, %lld, %lld]"
                "{%lld, %lld, %lld, 1}\n", w->sequences, w->tokens, heads, dim,
                w->tokens * heads * dim, dim, w->tokens * dim);
    on_heads(w, "ac", "clone.default(%at, none)", heads);
    text_printf(&w->out, "%%av = aten.view.default(%%ac, [%lld, %lld, %lld]) -> "
                "f16[%lld, %lld, %lld]\n", w->sequences, w->tokens, heads * dim, w->sequences,
                w->tokens, heads * dim);
    product(w, "o", "av", w->hidden);
    text_append(&w->out, "return %o, %k7, %v4\n");     // keys and values go to the cache
}

static void mlp(writer *w)
{
    number width = w->m->intermediate / w->s->cards;
    begin(w, true);
    weight(w, "wg", w->hidden, width);
    weight(w, "wu", w->hidden, width);
    weight(w, "wd", width, w->hidden);
    normalise(w);
    product(w, "g", "h", width);
    product(w, "u", "h", width);
    text_printf(&w->out, "%%s = aten.silu.default(%%g) -> f16[%lld, %lld, %lld]\n"
                "%%m = aten.mul.Tensor(%%s, %%u) -> f16[%lld, %lld, %lld]\n", w->sequences,
                w->tokens, width, w->sequences, w->tokens, width);
    product(w, "d", "m", w->hidden);
    text_append(&w->out, "return %d\n");
}

static void embedding(writer *w)
{
    text_printf(&w->out, "input %%table: f16[%lld, %lld]\ninput %%ids: i64[%lld, %lld]\n"
                "%%y = aten.embedding.default(%%table, %%ids, -1, false, false) -> "
                "f16[%lld, %lld, %lld]\nreturn %%y\n", (number)w->m->vocabulary, w->hidden,
                w->sequences, w->tokens, w->sequences, w->tokens, w->hidden);
}

static void head(writer *w)
{
    number each = (w->m->vocabulary + w->s->cards - 1) / w->s->cards;
    w->tokens = 1;
    begin(w, true);
    weight(w, "wl", w->hidden, each);
    normalise(w);
    product(w, "l", "h", each);
    text_append(&w->out, "return %l\n");
}

// The graph's text, which is the caller's as text_give() makes it.
static spyre_status write_part(const estimate_model *m, estimate_part part,
                               const part_shape *shape, char **out_graph)
{
    static void (*const write[PART_COUNT])(writer *) = {embedding, attention, mlp, head};
    writer w = {.m = m, .s = shape, .hidden = m->hidden, .sequences = shape->sequences,
                .tokens = shape->tokens};
    write[part](&w);
    return text_give(&w.out, NULL, out_graph);
}

static void add_kernels(const spyre_executable *executable, uint32_t segment, part_cost *cost)
{
    const spyre_kernel_counters *kernels = spyre_executable_counters(executable, segment);
    uint32_t count = spyre_executable_segment(executable, segment)->kernel_count;
    for (uint32_t k = 0; kernels && k < count; k++) {
        cost->us += kernels[k].us;
        if (kernels[k].bound == SPYRE_BOUND_MEMORY) cost->memory_us += kernels[k].us;
    }
}

static spyre_status price_of(const estimate_model *m, estimate_part part, const part_shape *shape,
                             part_cost *out_cost)
{
    char *content = NULL;
    spyre_graph *graph = NULL;
    spyre_executable *executable = NULL;
    spyre_compile_options options = spyre_compile_options_default();
    options.host_fallback = false;
    *out_cost = (part_cost){0, 0};
    TRY(write_part(m, part, shape, &content));
    spyre_status status = spyre_graph_parse(content, "layer", &graph);
    if (!status) status = spyre_compile(graph, &options, &executable);
    for (uint32_t s = 0; !status && s < spyre_executable_segment_count(executable); s++)
        add_kernels(executable, s, out_cost);
    spyre_executable_destroy(executable);
    spyre_graph_destroy(graph);
    spyre_string_free(content);
    return status_at(status, "%u sequences of %u tokens on %u cards", shape->sequences,
                     shape->tokens, shape->cards);
}

// --- The list

typedef struct {
    estimate_part part;
    part_shape shape;
    part_cost cost;
} price;

struct price_list {
    const estimate_model *model;
    price *items;
    uint32_t count, capacity;
};

price_list *price_list_create(const estimate_model *m)
{
    price_list *list = calloc(1, sizeof *list);
    if (list) list->model = m;
    return list;
}

void price_list_destroy(price_list *list)
{
    if (!list) return;
    free(list->items);
    free(list);
}

static bool is_of(const price *p, estimate_part part, const part_shape *shape)
{
    return p->part == part && p->shape.cards == shape->cards &&
           p->shape.sequences == shape->sequences && p->shape.tokens == shape->tokens &&
           p->shape.context == shape->context;
}

static spyre_status add(price_list *list, const price *p)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 64;
        price *items = realloc(list->items, capacity * sizeof *items);
        TRY_ALLOC(items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *p;
    return NULL;
}

spyre_status price_list_find(price_list *list, estimate_part part, const part_shape *shape,
                             part_cost *out_cost)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (!is_of(&list->items[i], part, shape)) continue;
        *out_cost = list->items[i].cost;
        return NULL;
    }
    TRY(price_of(list->model, part, shape, out_cost));
    return add(list, &(price){part, *shape, *out_cost});
}
