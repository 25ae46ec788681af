// SPDX-License-Identifier: Apache-2.0
//
// normalize_loops: makes every access move within one dim of its buffer. Two kinds of cuts spread
// until nothing changes: a variable that runs over several dims of a buffer is split at their
// boundaries (in all operands of its op), and a dim of a local buffer that a variable steps through
// in strides is split at that stride. x(50,10,200).flatten(0,1) + y(500,200) ends as loops of
// (50, 10, 200). Local dims are cut because their layout is still free; dims of inputs are not.
//
// The columns of a matrix product stay whole where a cut would leave parts of sticks: heads of 32
// would make every product over them twice as wide. Their readers change the stick instead
// (relayout.c), which costs a copy of the result.
//
// The obvious shortcut, to keep the host's dims and materialise every view, costs a copy per view.
#include "front/front.h"

enum { MOST_SWEEPS = 64 };

static uint32_t dim_of_stride(const loop_buffer *buffer, int64_t stride)
{
    uint32_t d = 0;
    while (d + 1 < buffer->dim_count && buffer->dim[d + 1].stride <= stride) d++;
    return d;
}

static spyre_status refuse(const loop_graph *loops, uint32_t op, const char *why)
{
    return status_new(SPYRE_UNSUPPORTED, "%s: %s", loop_op_place(loops, op), why);
}

// Splits variable v into an outer one and an inner one of extent `inner`.
static spyre_status split_variable(loop_graph *loops, uint32_t index, uint32_t v, int64_t inner)
{
    loop_op *op = &loops->ops.items[index];
    if (op->var_count == LOOP_MAX_VARS) return refuse(loops, index, "views need more than 8 loops");
    loop_split_var(op, v, inner);
    return NULL;
}

// Splits dim d of a local buffer into an inner dim of extent `inner` and an outer one.
static spyre_status split_dim(loop_graph *loops, uint32_t index, loop_buffer *buffer, uint32_t d,
                              int64_t inner)
{
    if (buffer->dim_count == LOOP_MAX_DIMS)
        return refuse(loops, index, "views cut a tensor into more than 10 dims");
    for (uint32_t e = buffer->dim_count; e > d; e--) buffer->dim[e] = buffer->dim[e - 1];
    buffer->dim_count++;
    buffer->dim[d + 1].stride = buffer->dim[d].stride * inner;
    buffer->dim[d + 1].extent = buffer->dim[d].extent / inner;
    buffer->dim[d].extent = inner;
    return NULL;
}

// Index of the first element of the access along dim d.
static int64_t first_index(const loop_buffer *buffer, const loop_access *access, uint32_t d)
{
    return access->offset / buffer->dim[d].stride % buffer->dim[d].extent;
}

// True for a dim that ought not be cut at `step`: columns of a product, and parts of sticks.
static bool keeps_columns(const loop_graph *loops, const bool *product, uint32_t buffer, uint32_t d,
                          int64_t step)
{
    const loop_buffer *b = &loops->buffers.items[buffer];
    return product[buffer] && b->dim[d].stride == 1 && step % loop_lanes(b) != 0;
}

// Marks results of products and what is computed from them element by element.
static const bool *mark_products(const loop_graph *loops)
{
    bool *product = ARENA_NEW(loops->memory, bool, loops->buffers.count);
    for (uint32_t i = 0; product && i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        opfunc_kind kind = opfunc_describe(op->op)->kind;
        bool is = kind == OPFUNC_KIND_MATMUL;
        bool passes = kind == OPFUNC_KIND_UNARY || kind == OPFUNC_KIND_BINARY;
        for (uint32_t k = 0; passes && k + 1 < op->operand_count; k++)
            is |= product[op->operand[k].buffer];
        product[op->operand[op->operand_count - 1].buffer] |= is;
    }
    return product;
}

// Applies the first cut that variable v of this operand needs; *out_cut tells whether there was
// one.
static spyre_status cut(loop_graph *loops, const bool *product, uint32_t index, uint32_t operand,
                        uint32_t v, bool *out_cut)
{
    loop_op *op = &loops->ops.items[index];
    const loop_access *access = &op->operand[operand];
    loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t stride = access->stride[v];
    *out_cut = false;
    if (stride == 0) return NULL;
    if (stride < 0 || buffer->dim_count == 0)
        return refuse(loops, index, "an operand moves outside its storage");
    uint32_t d = dim_of_stride(buffer, stride);
    int64_t step = stride / buffer->dim[d].stride, extent = buffer->dim[d].extent;
    if (stride % buffer->dim[d].stride)
        return refuse(loops, index, "a view steps across the dims of its storage");
    int64_t first = first_index(buffer, access, d);
    bool inside = first + step * (op->extent[v] - 1) < extent;
    bool whole = inside && keeps_columns(loops, product, access->buffer, d, step);
    if (step > 1 && buffer->kind == LOOP_LOCAL && extent % step == 0 && !whole) {
        *out_cut = true;
        return split_dim(loops, index, buffer, d, step);
    }
    if (inside) return NULL;
    int64_t inner = extent / step;
    if (first || extent % step || op->extent[v] % inner || inner < 2)
        return refuse(loops, index, "a view joins parts of dims that do not fit together");
    *out_cut = true;
    return split_variable(loops, index, v, inner);
}

static spyre_status normalize_op(loop_graph *loops, const bool *product, uint32_t index,
                                 bool *changed)
{
    const loop_op *op = &loops->ops.items[index];
    *loops->at_node = op->node;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        for (uint32_t v = 0; v < op->var_count; v++) {
            bool did_cut = true;
            while (did_cut) {
                TRY(cut(loops, product, index, k, v, &did_cut));
                *changed |= did_cut;
            }
        }
    }
    return NULL;
}

spyre_status pass_normalize_loops(loop_graph *loops, bool *out_changed)
{
    bool changed = true;
    const bool *product = mark_products(loops);
    TRY_ALLOC(product);
    *out_changed = false;
    for (uint32_t sweep = 0; changed; sweep++) {
        if (sweep == MOST_SWEEPS)
            return status_new(SPYRE_UNSUPPORTED, "views did not settle after %d sweeps",
                              MOST_SWEEPS);
        changed = false;
        for (uint32_t i = 0; i < loops->ops.count; i++) {
            // Cuts travel with the data and against it: sweep in both directions in turn.
            uint32_t index = sweep % 2 ? loops->ops.count - 1 - i : i;
            TRY(normalize_op(loops, product, index, &changed));
        }
        *out_changed |= changed;
    }
    return NULL;
}
