// SPDX-License-Identifier: Apache-2.0
//
// named_dims: the user's names of dims become names of loops. An input names its dims; loops that
// walk a named dim from end to end take its name, several when views have cut the dim, and give it
// to the dim of the result that they walk. Loops are what hints are about, so names of views, of
// reshapes and of layouts need no rules of their own. Source of the rule that names belong to
// storage, not to views: torch-spyre, docs/source/compiler/working_set_reduction.md, "Dimensions
// vs. named dimensions".
#include "front/tile/named_dims.h"

#include <string.h>

#include "base/log.h"
#include "front/front.h"
#include "front/ir/dim_names.h"
#include "front/tile/tiling.h"
#include "graph/hint.h"

// `extent` steps of `stride` host elements of a buffer.
typedef struct {
    uint16_t name;            // as in loop_op.dim_name
    int64_t extent, stride;
} range;

typedef struct {
    uint32_t count;
    range item[LOOP_MAX_DIMS];
} ranges;

typedef struct {
    loop_graph *loops;
    ranges *of;       // by buffer
    bool has_layouts; // loops may be parted, and a second name for a loop is worth a warning
} namer;

static void add_range(ranges *r, uint16_t name, int64_t extent, int64_t stride)
{
    if (extent < 2 || stride < 1 || r->count == LOOP_MAX_DIMS) return;
    r->item[r->count++] = (range){name, extent, stride};
}

// --- Names that the user gave

// The factors of one dim of `extent` steps of `stride`; false when their sizes do not fit.
static spyre_status name_dim(const namer *n, const hint_entry *entry, int64_t extent,
                             int64_t stride, ranges *out)
{
    hint_factor factor;
    const char *at = entry->name;
    int64_t left = extent;
    while (hint_next_factor(&at, entry, &factor)) {
        int64_t size = factor.size ? factor.size : extent;
        const char *name = arena_strndup(n->loops->memory, factor.name, factor.length);
        uint16_t number;
        TRY_ALLOC(name);
        TRY(dim_names_number(n->loops, name, &number));
        if (left % size) break;
        left /= size;
        add_range(out, number, size, stride * left);
    }
    if (left == 1 || entry->length == 0) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "dims '%.*s': their sizes do not make up the dim of %lld",
                      (int)entry->length, entry->name, (long long)extent);
}

static spyre_status name_view(const namer *n, const char *names, const spyre_view *view,
                              ranges *out)
{
    hint_entry entry;
    for (uint32_t d = 0; d < view->rank && hint_next_name(&names, &entry); d++)
        TRY(name_dim(n, &entry, view->size[d], view->stride[d], out));
    return NULL;
}

static spyre_status name_input(const namer *n, uint32_t id)
{
    const spyre_graph *graph = n->loops->graph;
    const graph_input *input = &graph->inputs.items[n->loops->buffers.items[id].index];
    const graph_value *value = &graph->values.items[input->value];
    spyre_view view;
    if (!input->dims) return NULL;
    TRY(graph_view_constant(graph, &value->view, &view));
    if (n->loops->shrunk) view = n->loops->buffers.items[id].storage;
    *n->loops->at_node = SPYRE_NO_ID;
    return status_at(name_view(n, graph->locations.items[input->dims], &view, &n->of[id]),
                     "input %s", value->name);
}

// An op without tensors has the names that its node says.
static spyre_status name_source(const namer *n, loop_op *op)
{
    const spyre_graph *graph = n->loops->graph;
    const graph_node *node = &graph->nodes.items[op->node];
    spyre_view view;
    if (!node->hint.dims) return NULL;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        if (loop_operand_buffer(n->loops, op, k)->kind != LOOP_CONSTANT) return NULL;
    TRY(graph_view_constant(graph, &graph->values.items[node->results[0]].view, &view));
    if (n->loops->shrunk) view = n->loops->buffers.items[loop_output_of(op)->buffer].storage;
    return name_view(n, graph->locations.items[node->hint.dims], &view,
                     &n->of[loop_output_of(op)->buffer]);
}

// --- From dims to loops and back

// The loops that together walk the range from end to end, in *out as bits; false when none do.
static bool find_walk(const loop_op *op, const loop_access *access, const range *r, uint32_t *out)
{
    int64_t step = r->stride, end = r->stride * r->extent;
    *out = 0;
    if (access->offset % end / r->stride) return false;
    while (step < end) {
        uint32_t v = 0;
        while (v < op->var_count && (*out >> v & 1 || access->stride[v] != step)) v++;
        if (v == op->var_count) return false;
        *out |= 1u << v;
        step *= op->extent[v];
    }
    return step == end;
}

// A loop that runs over a range and the one outside of it becomes two, when layouts allow; a scope
// of tiles may ask for either.
static spyre_status part_loop(const namer *n, loop_op *op, uint32_t k, uint32_t v,
                              bool *out_parted)
{
    const ranges *of = &n->of[op->operand[k].buffer];
    *out_parted = false;
    for (uint32_t i = 0; i < of->count; i++) {
        const range *inner = &of->item[i];
        int64_t end = inner->stride * inner->extent;
        bool outer = false, fits = op->var_count < LOOP_MAX_VARS;
        for (uint32_t j = 0; j < of->count; j++) outer |= of->item[j].stride == end;
        if (!outer || !fits || op->operand[k].stride[v] != inner->stride) continue;
        if (op->extent[v] <= inner->extent || op->extent[v] % inner->extent) continue;
        loop_op parted = *op;
        TRY(loop_split_var(n->loops, &parted, v, inner->extent));
        for (uint32_t other = 0; other < op->operand_count; other++) {
            loop_location place;
            fits = fits && !loop_locate(n->loops, &parted, &parted.operand[other], &place);
        }
        if (fits) *op = parted;
        *out_parted = fits;
        return NULL;
    }
    return NULL;
}

static spyre_status part_loops(const namer *n, loop_op *op)
{
    if (!n->loops->graph->nodes.items[op->node].hint.tiles) return NULL;
    for (uint32_t k = 0; k < op->operand_count; k++)
        for (uint32_t v = 0; v < op->var_count; v++)
            for (bool parted = true; parted;) TRY(part_loop(n, op, k, v, &parted));
    return NULL;
}

// True when a loop outside of `walk` has the name: x @ x.t() has two loops over one dim.
static bool is_taken(const loop_op *op, uint16_t name, uint32_t walk)
{
    for (uint32_t v = 0; v < op->var_count; v++)
        if (!(walk >> v & 1) && op->dim_name[v] == name) return true;
    return false;
}

static void take_names(const namer *n, uint32_t index, uint32_t k)
{
    loop_op *op = &n->loops->ops.items[index];
    const ranges *of = &n->of[op->operand[k].buffer];
    for (uint32_t i = 0; i < of->count; i++) {
        uint32_t walk;
        if (!find_walk(op, &op->operand[k], &of->item[i], &walk)) continue;
        if (is_taken(op, of->item[i].name, walk)) continue;
        for (uint32_t v = 0; v < op->var_count; v++) {
            if (!(walk >> v & 1)) continue;
            const char *name = n->loops->dim_names.items[of->item[i].name - 1];
            const char *old = dim_names_of(n->loops, op, v);
            if (!old)
                op->dim_name[v] = of->item[i].name;
            else if (op->dim_name[v] != of->item[i].name && n->has_layouts)
                log_warn("%s: one loop walks dims named %s and %s; it has the second name",
                         loop_op_place(n->loops, index), name, old);
        }
    }
}

// Loops of one name that lie behind each other in the result name that part of it.
static void give_names(const namer *n, const loop_op *op)
{
    const loop_access *result = loop_result(op);
    ranges *to = &n->of[result->buffer];
    bool known = to->count > 0;
    for (uint32_t v = 0; v < op->var_count && !known; v++) {
        uint16_t name = op->dim_name[v];
        bool inner = false;
        for (uint32_t u = v + 1; name && u < op->var_count; u++)
            inner |= op->dim_name[u] == name;
        if (!name || inner || !result->stride[v]) continue;
        int64_t extent = op->extent[v];
        for (uint32_t u = v; u-- > 0 && extent;) {
            if (op->dim_name[u] != name) continue;
            bool behind = result->stride[u] == result->stride[v] * extent;
            extent = behind ? extent * op->extent[u] : 0;
        }
        add_range(to, name, extent, result->stride[v]);
    }
}

static bool any_names(const loop_graph *loops)
{
    const spyre_graph *graph = loops->graph;
    bool any = false;
    for (uint32_t i = 0; i < graph->inputs.count; i++) any |= graph->inputs.items[i].dims != 0;
    for (uint32_t i = 0; i < graph->nodes.count; i++) any |= graph->nodes.items[i].hint.dims != 0;
    return any;
}

static spyre_status name_all(namer *n)
{
    loop_graph *loops = n->loops;
    TRY_NEW(loop_scratch(loops), n->of, loops->buffers.count);
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (loops->buffers.items[b].kind == LOOP_INPUT) TRY(name_input(n, b));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        *loops->at_node = op->node;
        TRY(name_source(n, op));
        if (n->has_layouts) TRY(part_loops(n, op));
        for (uint32_t k = 0; k < op->operand_count; k++) take_names(n, i, k);
        give_names(n, op);
    }
    return NULL;
}

spyre_status pass_named_dims(loop_graph *loops, bool *out_changed)
{
    namer n = {.loops = loops, .has_layouts = true};
    *out_changed = any_names(loops);
    return *out_changed ? name_all(&n) : NULL;
}

// --- Before layouts

// True when an input of the graph comes with its stick along the loop: tiles of parts of sticks are
// then refused, not paid for with copies.
static bool has_given_stick(const loop_graph *loops, const loop_op *op, uint32_t v)
{
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        const loop_buffer *b = loop_operand_buffer(loops, op, k);
        int64_t stride = op->operand[k].stride[v];
        if (b->kind == LOOP_INPUT && b->has_layout && stride && loop_dim_at(b, stride) == b->stick)
            return true;
    }
    return false;
}

// Loops of the op that tiles leave with parts of sticks, should a stick run along them.
static uint8_t cut_sticks_of(const loop_graph *loops, const loop_op *op)
{
    int64_t left[LOOP_MAX_VARS], lanes = 1;
    uint8_t cut = 0;
    const char *at = tile_scopes_of(loops, op);
    hint_tiles hint;
    memcpy(left, op->extent, sizeof left);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        int64_t of_operand = loop_lanes(loop_operand_buffer(loops, op, k));
        if (of_operand > lanes) lanes = of_operand;
    }
    while (hint_next_tiles(&at, &hint)) {
        for (uint32_t v = 0; !hint_is_step(&hint) && v < op->var_count; v++) {
            const char *name = dim_names_of(loops, op, v);
            if (left[v] < 2 || !hint_is_name(name, hint.name, hint.length)) continue;
            left[v] /= hint.count;
            if (left[v] % lanes && !has_given_stick(loops, op, v)) cut |= (uint8_t)(1u << v);
            break;
        }
    }
    return cut;
}

static bool any_tiles(const loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (loops->graph->nodes.items[loops->ops.items[i].node].hint.tiles) return true;
    return false;
}

spyre_status named_dims_find_cut_sticks(loop_graph *loops)
{
    namer n = {.loops = loops};
    if (front_skips(&loops->settings, "named_dims") || !any_names(loops) || !any_tiles(loops))
        return NULL;
    TRY(name_all(&n));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        op->cut_sticks = cut_sticks_of(loops, op);
        memset(op->dim_name, 0, sizeof op->dim_name); // loops may be parted before they are named
    }
    return NULL;
}
