// SPDX-License-Identifier: Apache-2.0
//
// hinted_divisions: the user's slices of named dims. Inputs name their dims; a loop takes the name
// of a dim that it walks from end to end, and gives it to the dim of the result that it walks.
// Loops are what is divided, so names of views, of reshapes and of layouts need no rules of their
// own.
#include "front/division.h"
#include "front/front.h"
#include "front/span_reduction.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "graph/hint.h"

typedef struct {
    const char *start; // or null
    size_t length;
} dim_name;

typedef struct {
    loop_graph *loops;
    dim_name (*names)[LOOP_MAX_DIMS]; // by buffer and dim
} namer;

// The dim that a loop with this stride and extent walks from end to end; LOOP_NO_DIM when none.
static uint8_t whole_dim(const loop_buffer *buffer, int64_t stride, int64_t extent)
{
    for (uint8_t d = 0; d < buffer->dim_count; d++)
        if (buffer->dim[d].stride == stride && buffer->dim[d].extent == extent) return d;
    return LOOP_NO_DIM;
}

static void name_input(const namer *n, uint32_t id)
{
    const loop_buffer *buffer = &n->loops->buffers.items[id];
    const spyre_graph *graph = n->loops->graph;
    const graph_input *input = &graph->inputs.items[buffer->index];
    const char *at = input->dims ? graph->locations.items[input->dims] : "";
    hint_entry entry;
    spyre_view view;
    const graph_value *value = &graph->values.items[input->value];
    spyre_status status = graph_view_constant(graph, &value->view, &view);
    for (uint32_t d = 0; !status && d < view.rank && hint_next_name(&at, &entry); d++) {
        uint8_t dim = whole_dim(buffer, view.stride[d], view.size[d]);
        if (dim != LOOP_NO_DIM && entry.length)
            n->names[id][dim] = (dim_name){entry.name, entry.length};
    }
    spyre_status_free(status);
}

static dim_name *name_at(const namer *n, const loop_op *op, uint32_t k, uint32_t v)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *buffer = &n->loops->buffers.items[access->buffer];
    uint8_t dim = whole_dim(buffer, access->stride[v], op->extent[v]);
    return access->stride[v] && dim != LOOP_NO_DIM ? &n->names[access->buffer][dim] : NULL;
}

// The names of the op's loops; results take them over.
static void name_loops(const namer *n, const loop_op *op, dim_name out[LOOP_MAX_VARS])
{
    uint32_t output = op->operand_count - 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        out[v] = (dim_name){NULL, 0};
        for (uint32_t k = 0; k < output && !out[v].start; k++) {
            const dim_name *name = name_at(n, op, k, v);
            if (name) out[v] = *name;
        }
        dim_name *result = name_at(n, op, output, v);
        if (result && out[v].start) *result = out[v];
    }
}

// Blames no node: the host would not do what the user asks either.
static spyre_status refuse(const namer *n, uint32_t index, const hint_entry *entry, const char *why)
{
    *n->loops->at_node = SPYRE_NO_ID;
    return status_new(SPYRE_UNSUPPORTED, "%s: work_div %.*s=%" PRId64 ": %s",
                      loop_op_place(n->loops, index), (int)entry->length, entry->name,
                      entry->slices, why);
}

static spyre_status split(const namer *n, uint32_t index, const dim_name *names,
                          const hint_entry *entry, division *d, bool *found)
{
    const loop_op *op = &n->loops->ops.items[index];
    division_sizes sizes = division_sizes_of(n->loops, op);
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (names[v].length != entry->length || !names[v].start) continue;
        if (memcmp(names[v].start, entry->name, entry->length) != 0) continue;
        if (sizes.units[v] % entry->slices)
            return refuse(n, index, entry, "does not divide the dim");
        for (uint32_t u = 0; entry->slices > 1 && loop_var_is_reduced(op, v) && u < v; u++)
            if (loop_var_is_reduced(op, u) && d->split[u] > 1)
                return refuse(n, index, entry, "a second reduced dim");
        if (division_cores(op, d) * entry->slices > n->loops->cores)
            return refuse(n, index, entry, "more slices than cores");
        d->split[v] = (int32_t)entry->slices;
        *found = true;
        return NULL;
    }
    return NULL;
}

// A restickify serves the op that was hinted, and is none of the user's.
static spyre_status divide(const namer *n, uint32_t index, const dim_name *names, bool *changed)
{
    loop_op *op = &n->loops->ops.items[index];
    const spyre_graph *graph = n->loops->graph;
    uint32_t hint = graph->nodes.items[op->node].hint;
    const char *at = hint ? graph->locations.items[hint] : "";
    hint_entry entry;
    division d = division_whole();
    bool found = false;
    if (op->op == OPFUNC_RESTICKIFY) return NULL;
    while (hint_next_split(&at, &entry)) TRY(split(n, index, names, &entry, &d, &found));
    if (!found) return NULL;
    if (op->divided_by == LOOP_DIVIDED_BY_SPAN)
        log_warn("%s: work_div replaces the slices that the span limit demands",
                 loop_op_place(n->loops, index));
    if (!span_fits(n->loops, op, &d))
        log_error("%s: a core reaches over more than %u bytes of a tensor",
                  loop_op_place(n->loops, index), n->loops->settings.max_span_bytes);
    division_number_cores(op, &d);
    division_set(op, &d, LOOP_DIVIDED_BY_HINT);
    *changed = true;
    return NULL;
}

spyre_status pass_hinted_divisions(loop_graph *loops, bool *out_changed)
{
    namer n = {.loops = loops};
    dim_name names[LOOP_MAX_VARS];
    *out_changed = false;
    if (loops->settings.ignore_work_division_hints) return NULL;
    n.names = arena_alloc(loops->memory, (loops->buffers.count + 1) * sizeof n.names[0]);
    TRY_ALLOC(n.names);
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (loops->buffers.items[b].kind == LOOP_INPUT) name_input(&n, b);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        *loops->at_node = loops->ops.items[i].node;
        name_loops(&n, &loops->ops.items[i], names);
        TRY(divide(&n, i, names, out_changed));
    }
    return NULL;
}
