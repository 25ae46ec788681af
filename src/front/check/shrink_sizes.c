// SPDX-License-Identifier: Apache-2.0
//
// Loops of ops and dims of buffers are nodes; an access that walks a whole dim by single
// steps joins its loop and the dim. What is joined has one extent and is shortened as one. Any
// other access pins what it touches. Shortening one op at a time would be simpler, but then results
// no longer fit the operands that read them. A named dim keeps what hints about its name divide it
// by.
#include "front/check/shrink_sizes.h"

#include <string.h>

#include "base/integer.h"
#include "graph/hint.h"

// Extents from LONG on keep `tail` sticks and the remainder; shorter ones keep `few` and the
// remainder by it. Tried in order, 0: as it is.
static const struct {
    int64_t tail, few;
} sizes[] = {{0, 0}, {128, 0}, {128, 4}, {64, 4}, {64, 2}, {16, 2}};

enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0], LONG = 64, STICK = 64 };

typedef struct {
    loop_graph *loops;
    uint32_t *parent;     // union of nodes: dims of buffers, then loops of ops
    bool *pinned;         // by root
    int64_t *parts;       // by root: what hints divide it by
    int64_t *extent;      // by node
    uint32_t node_count;
} shrinker;

static uint32_t dim_node(uint32_t buffer, uint32_t d)
{
    return buffer * LOOP_MAX_DIMS + d;
}

static uint32_t loop_node(const shrinker *s, uint32_t op, uint32_t v)
{
    return s->loops->buffers.count * LOOP_MAX_DIMS + op * LOOP_MAX_VARS + v;
}

static uint32_t root_of(const shrinker *s, uint32_t node)
{
    while (s->parent[node] != node) node = s->parent[node] = s->parent[s->parent[node]];
    return node;
}

static void join(shrinker *s, uint32_t a, uint32_t b)
{
    uint32_t x = root_of(s, a), y = root_of(s, b);
    s->parent[x] = y;
    s->pinned[y] |= s->pinned[x];
}

static void pin(shrinker *s, uint32_t node)
{
    s->pinned[root_of(s, node)] = true;
}

static void pin_buffer(shrinker *s, uint32_t buffer)
{
    for (uint32_t d = 0; d < s->loops->buffers.items[buffer].dim_count; d++)
        pin(s, dim_node(buffer, d));
}

// A walk over `buffer`: `extent` steps of `stride`, by loop `node` (LOOP_UNUSED: by no loop).
static void add_walk(shrinker *s, uint32_t buffer, int64_t stride, int64_t extent, uint32_t node)
{
    const loop_buffer *b = &s->loops->buffers.items[buffer];
    if (stride == 0) return;
    uint32_t d = stride > 0 && b->dim_count ? loop_dim_at(b, stride) : 0;
    if (stride > 0 && d < b->dim_count && b->dim[d].stride == stride &&
        b->dim[d].extent == extent) {
        if (node != LOOP_UNUSED) join(s, node, dim_node(buffer, d));
        return;
    }
    if (node != LOOP_UNUSED) pin(s, node);
    bool inside = d < b->dim_count && stride % b->dim[d].stride == 0 &&
                  stride / b->dim[d].stride * (extent - 1) < b->dim[d].extent;
    if (inside)
        pin(s, dim_node(buffer, d));
    else
        pin_buffer(s, buffer);
}

static void add_offset(shrinker *s, uint32_t buffer, int64_t offset)
{
    const loop_buffer *b = &s->loops->buffers.items[buffer];
    int64_t index[LOOP_MAX_DIMS];
    if (loop_split_offset(b, offset, index)) pin_buffer(s, buffer);
    for (uint32_t d = 0; d < b->dim_count; d++)
        if (index[d]) pin(s, dim_node(buffer, d));
}

static void add_op(shrinker *s, uint32_t index)
{
    const loop_op *op = &s->loops->ops.items[index];
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const loop_access *access = &op->operand[k];
        add_offset(s, access->buffer, access->offset);
        for (uint32_t v = 0; v < op->var_count; v++)
            add_walk(s, access->buffer, access->stride[v], op->extent[v], loop_node(s, index, v));
        if (!loop_is_table(op, access) || !op->row_stride) continue;
        const loop_buffer *table = &s->loops->buffers.items[access->buffer];
        if (table->dim_count) pin(s, dim_node(access->buffer, loop_dim_at(table, op->row_stride)));
    }
}

// Dims between which the storage has gaps, and dims for which an input's layout has extra room.
static void add_buffer(shrinker *s, uint32_t id)
{
    const loop_buffer *b = &s->loops->buffers.items[id];
    int64_t dense = 1;
    for (uint32_t d = 0; d < b->dim_count; d++) {
        int64_t lanes = loop_lanes(b), natural = b->dim[d].extent;
        if (d == b->stick) natural = divide_up(natural, lanes);
        if (b->dim[d].stride != dense) pin_buffer(s, id);
        if (b->kind == LOOP_INPUT && b->fixed_size && b->fixed_size[d] &&
            b->fixed_size[d] != natural)
            pin(s, dim_node(id, d));
        dense = b->dim[d].stride * b->dim[d].extent;
    }
}

static void add_output(shrinker *s, const loop_output *output)
{
    add_offset(s, output->buffer, output->view.offset);
    for (uint32_t d = 0; d < output->view.rank; d++) {
        if (output->view.size[d] < 2) continue;
        add_walk(s, output->buffer, output->view.stride[d], output->view.size[d], LOOP_UNUSED);
    }
}

// --- Hints

static bool has_name(const hint_entry *entry, const char *name, size_t length)
{
    return entry->length == length && memcmp(entry->name, name, length) == 0;
}

// What scopes of tiles around the node, and then slices, divide a dim of that name by.
static int64_t parts_at(const spyre_graph *graph, const graph_hint *hint, const hint_entry *entry)
{
    const char *at = hint->tiles ? graph->locations.items[hint->tiles] : "";
    int64_t parts = 1;
    hint_tiles tiles;
    hint_entry slices;
    while (hint_next_tiles(&at, &tiles))
        if (has_name(entry, tiles.name, tiles.length) &&
            __builtin_mul_overflow(parts, tiles.count, &parts))
            return 0;
    at = hint->work_div ? graph->locations.items[hint->work_div] : "";
    while (hint_next_split(&at, &slices))
        if (has_name(entry, slices.name, slices.length) &&
            __builtin_mul_overflow(parts, slices.slices, &parts))
            return 0;
    return parts;
}

// A dim that is several ("M:64*K:256") stays.
static void add_names(shrinker *s, uint32_t id, const char *names, const spyre_view *view)
{
    const spyre_graph *graph = s->loops->graph;
    const loop_buffer *b = &s->loops->buffers.items[id];
    hint_entry entry;
    for (uint32_t r = 0; r < view->rank && hint_next_name(&names, &entry); r++) {
        if (view->size[r] < 2 || !entry.length || !b->dim_count) continue;
        uint32_t root = root_of(s, dim_node(id, loop_dim_at(b, view->stride[r])));
        if (memchr(entry.name, '*', entry.length)) s->pinned[root] = true;
        for (uint32_t n = 0; n < graph->nodes.count && s->parts[root]; n++) {
            int64_t parts = parts_at(graph, &graph->nodes.items[n].hint, &entry);
            s->parts[root] = parts ? common_multiple(s->parts[root], parts) : 0;
        }
    }
}

static void add_hints(shrinker *s)
{
    const spyre_graph *graph = s->loops->graph;
    for (uint32_t n = 0; n < s->node_count; n++) s->parts[n] = 1;
    for (uint32_t id = 0; id < s->loops->buffers.count; id++) {
        const loop_buffer *b = &s->loops->buffers.items[id];
        if (b->kind != LOOP_INPUT || !graph->inputs.items[b->index].dims) continue;
        add_names(s, id, graph->locations.items[graph->inputs.items[b->index].dims], &b->storage);
    }
    for (uint32_t i = 0; i < s->loops->ops.count; i++) {
        const loop_op *op = &s->loops->ops.items[i];
        uint32_t result = loop_result(op)->buffer;
        uint32_t dims = graph->nodes.items[op->node].hint.dims;
        const spyre_view *storage = &s->loops->buffers.items[result].storage;
        if (dims) add_names(s, result, graph->locations.items[dims], storage);
    }
}

static spyre_status begin(loop_graph *loops, shrinker *s)
{
    uint32_t count = loops->buffers.count * LOOP_MAX_DIMS + loops->ops.count * LOOP_MAX_VARS;
    *s = (shrinker){.loops = loops, .node_count = count};
    TRY_NEW(loops->memory, s->parent, count);
    TRY_NEW(loops->memory, s->pinned, count);
    TRY_NEW(loops->memory, s->extent, count);
    TRY_NEW(loops->memory, s->parts, count);
    for (uint32_t n = 0; n < count; n++) s->parent[n] = n;
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        for (uint32_t d = 0; d < loops->buffers.items[b].dim_count; d++)
            s->extent[dim_node(b, d)] = loops->buffers.items[b].dim[d].extent;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t v = 0; v < loops->ops.items[i].var_count; v++)
            s->extent[loop_node(s, i, v)] = loops->ops.items[i].extent[v];
    for (uint32_t b = 0; b < loops->buffers.count; b++) add_buffer(s, b);
    for (uint32_t i = 0; i < loops->ops.count; i++) add_op(s, i);
    for (uint32_t i = 0; i < loops->outputs.count; i++) add_output(s, &loops->outputs.items[i]);
    add_hints(s);
    return NULL;
}

// --- Sizes

static int64_t shortened(const shrinker *s, uint32_t node, uint32_t size)
{
    int64_t extent = s->extent[node], tail = sizes[size].tail, few = sizes[size].few, kept = extent;
    if (s->pinned[root_of(s, node)]) return extent;
    if (extent >= LONG && tail)
        kept = tail + extent % (tail < STICK ? tail : STICK);
    else if (extent < LONG && few)
        kept = few + extent % few;
    int64_t parts = s->parts[root_of(s, node)], unit;
    if (parts != 1) {
        if (parts == 0 || extent % parts) return extent;
        if (__builtin_mul_overflow(parts, STICK, &unit)) return extent;
        if (extent % unit) unit = parts;
        kept = round_up(kept, unit);
    }
    return kept < extent ? kept : extent;
}

static int64_t count_steps(const shrinker *s, uint32_t size)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < s->loops->ops.count; i++) {
        int64_t steps = 1;
        for (uint32_t v = 0; v < s->loops->ops.items[i].var_count; v++)
            if (__builtin_mul_overflow(steps, shortened(s, loop_node(s, i, v), size), &steps))
                return INT64_MAX;
        if (__builtin_add_overflow(total, steps, &total)) return INT64_MAX;
    }
    return total;
}

// --- Rewriting

// A step of `stride` in the old dims as one in the new.
static int64_t moved_stride(const loop_buffer *old, const loop_buffer *now, int64_t stride)
{
    if (stride <= 0 || old->dim_count == 0) return stride;
    uint32_t d = loop_dim_at(old, stride);
    if (stride % old->dim[d].stride) return stride; // all dims are pinned
    return stride / old->dim[d].stride * now->dim[d].stride;
}

static int64_t moved_offset(const loop_buffer *old, const loop_buffer *now, int64_t offset)
{
    int64_t index[LOOP_MAX_DIMS], out = loop_split_offset(old, offset, index);
    for (uint32_t d = 0; d < old->dim_count; d++) out += index[d] * now->dim[d].stride;
    return out;
}

static spyre_status rewrite_buffer(const shrinker *s, uint32_t id, uint32_t size)
{
    int64_t *fixed_size = NULL;
    loop_buffer *b = &s->loops->buffers.items[id];
    const loop_buffer old = *b;
    int64_t lanes = loop_lanes(b);
    if (b->fixed_size) TRY(loop_own_sizes(s->loops->memory, b, &fixed_size));
    for (uint32_t d = 0; d < b->dim_count; d++) {
        int64_t extent = shortened(s, dim_node(id, d), size);
        if (d > 0 && old.dim[d].stride == old.dim[d - 1].stride * old.dim[d - 1].extent)
            b->dim[d].stride = b->dim[d - 1].stride * b->dim[d - 1].extent;
        b->dim[d].extent = extent;
        if (fixed_size && fixed_size[d] && extent != old.dim[d].extent)
            fixed_size[d] = d == b->stick ? divide_up(extent, lanes) : extent;
    }
    for (uint32_t r = 0; r < b->storage.rank; r++) {
        if (b->storage.size[r] < 2) continue;
        uint32_t d = loop_dim_at(&old, b->storage.stride[r]);
        b->storage.size[r] = b->dim[d].extent;
        b->storage.stride[r] = b->dim[d].stride;
    }
    return NULL;
}

static void rewrite_op(const shrinker *s, uint32_t index, const loop_buffer *old, uint32_t size)
{
    loop_op *op = &s->loops->ops.items[index];
    for (uint32_t k = 0; k < op->operand_count; k++) {
        loop_access *access = &op->operand[k];
        const loop_buffer *was = &old[access->buffer];
        const loop_buffer *now = &s->loops->buffers.items[access->buffer];
        access->offset = moved_offset(was, now, access->offset);
        for (uint32_t v = 0; v < op->var_count; v++)
            access->stride[v] = moved_stride(was, now, access->stride[v]);
        if (loop_is_table(op, access)) op->row_stride = moved_stride(was, now, op->row_stride);
    }
    for (uint32_t v = 0; v < op->var_count; v++)
        op->extent[v] = shortened(s, loop_node(s, index, v), size);
}

static void rewrite_output(const shrinker *s, loop_output *output, const loop_buffer *old)
{
    const loop_buffer *was = &old[output->buffer], *now = &s->loops->buffers.items[output->buffer];
    spyre_view *view = &output->view;
    view->offset = moved_offset(was, now, view->offset);
    for (uint32_t d = 0; d < view->rank; d++) {
        if (view->size[d] < 2 || view->stride[d] <= 0) continue;
        uint32_t at = loop_dim_at(was, view->stride[d]);
        if (was->dim[at].stride == view->stride[d] && was->dim[at].extent == view->size[d])
            view->size[d] = now->dim[at].extent;
        view->stride[d] = moved_stride(was, now, view->stride[d]);
    }
}

spyre_status loop_shrink_sizes(loop_graph *loops, int64_t most_steps, int64_t *out_steps)
{
    shrinker s;
    uint32_t size = 0, buffers = loops->buffers.count;
    TRY(begin(loops, &s));
    *out_steps = count_steps(&s, 0);
    while (*out_steps > most_steps && size + 1 < SIZE_COUNT) *out_steps = count_steps(&s, ++size);
    if (size == 0) return NULL;
    loop_buffer *old = ARENA_NEW(loops->memory, loop_buffer, buffers);
    TRY_ALLOC(old);
    for (uint32_t b = 0; b < buffers; b++) old[b] = loops->buffers.items[b];
    loops->shrunk = true;
    for (uint32_t b = 0; b < buffers; b++) TRY(rewrite_buffer(&s, b, size));
    for (uint32_t i = 0; i < loops->ops.count; i++) rewrite_op(&s, i, old, size);
    for (uint32_t i = 0; i < loops->outputs.count; i++)
        rewrite_output(&s, &loops->outputs.items[i], old);
    return NULL;
}
