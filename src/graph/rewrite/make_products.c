// SPDX-License-Identifier: Apache-2.0
//
// Makers of natives that reduce: sums and extremes, rankings, matrix products, windows, layer norm.
#include "graph/rewrite/make_node.h"

// A copy of x where the elements along the given dims are all one: the front has no loop for these.
static spyre_status make_unrepeated(rewriter *r, const tensor *x, const bool *dims, tensor *out)
{
    bool repeats = false, moves = false;
    for (uint32_t i = 0; i < x->view.rank; i++) {
        if (!dims[i] || x->view.size[i] == 1) continue;
        if (x->view.stride[i]) moves = true;
        else repeats = true;
    }
    *out = *x;
    return repeats && !moves ? make_copy(r, x, NULL, out) : NULL;
}

// What a cast to float32 reads, else x: sums of it are the same in float32, and it is half as long.
static spyre_status uncast(const rewriter *r, const tensor *x, tensor *out)
{
    const spyre_graph *graph = r->target;
    const graph_value *value = &graph->values.items[x->value];
    spyre_view made;
    *out = *x;
    if (x->dtype != SPYRE_DTYPE_F32 || value->node == SPYRE_NO_ID) return NULL;
    const graph_node *node = &graph->nodes.items[value->node];
    if (node->op != ATEN_SPYRE_CAST) return NULL;
    TRY(graph_view_constant(graph, &value->view, &made));
    uint32_t of = node->args[0].of.value;
    const graph_value *from = &graph->values.items[of];
    bool narrow = from->dtype == SPYRE_DTYPE_F16 || from->dtype == SPYRE_DTYPE_BF16;
    if (!narrow || !view_same(&x->view, &made)) return NULL;
    *out = (tensor){.value = of, .dtype = from->dtype};
    return graph_view_constant(graph, &from->view, &out->view);
}

spyre_status make_reduction(rewriter *r, aten_op op, const tensor *x, const bool *reduced,
                            bool keepdim, const tensor *into, tensor *out)
{
    spyre_arg dims[SPYRE_MAX_RANK];
    spyre_view view = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->view.rank; i++) {
        if (reduced[i]) dims[count++] = int_arg(i);
        if (reduced[i] && !keepdim) continue;
        view.size[view.rank++] = reduced[i] ? 1 : x->view.size[i];
    }
    if (count == 0 && into) return make_copy(r, x, into, out);
    if (count == 0) {
        *out = *x;
        return NULL;
    }
    view_set_contiguous(&view);
    tensor narrow, whole;
    TRY(uncast(r, x, &narrow));
    TRY(make_unrepeated(r, &narrow, reduced, &whole));
    spyre_arg args[3] = {tensor_arg(&whole),
                         {.kind = SPYRE_ARG_LIST, .of.list = {dims, count}},
                         {.kind = SPYRE_ARG_BOOL, .of.boolean = keepdim}};
    return make_node(r, op, args, 3, x->dtype, &view, into, out);
}

spyre_status make_rank(rewriter *r, aten_op op, const tensor *x, int64_t k, uint32_t dim,
                       const tensor *into, tensor *out)
{
    spyre_arg args[3] = {tensor_arg(x), int_arg(k), int_arg(dim)};
    spyre_view view = x->view;
    view.size[dim] = k;
    view_set_contiguous(&view);
    bool positions = opfunc_gives_positions(aten_describe(op)->opfunc);
    spyre_dtype dtype = positions ? SPYRE_DTYPE_I64 : x->dtype;
    return make_node(r, op, args, 3, dtype, &view, into, out);
}

spyre_status make_scan(rewriter *r, aten_op op, const tensor *x, uint32_t dim, const tensor *into,
                       tensor *out)
{
    spyre_arg args[2] = {tensor_arg(x), int_arg(dim)};
    spyre_view view = x->view;
    view_set_contiguous(&view);
    bool positions = opfunc_gives_positions(aten_describe(op)->opfunc);
    spyre_dtype dtype = positions ? SPYRE_DTYPE_I64 : x->dtype;
    return make_node(r, op, args, 2, dtype, &view, into, out);
}

// The 16-bit dtype that a tensor was widened to float32 from and holds numbers of; else its own.
static spyre_dtype narrow_dtype(const rewriter *r, const tensor *x)
{
    const spyre_graph *graph = r->target;
    for (uint32_t value = x->value; graph->values.items[value].node != SPYRE_NO_ID;) {
        const graph_node *node = &graph->nodes.items[graph->values.items[value].node];
        bool moves = node->layer == GRAPH_LAYER_VIEW || node->op == ATEN_SPYRE_IDENTITY;
        if (!moves && node->op != ATEN_SPYRE_CAST) break;
        value = node->args[0].of.value;
        spyre_dtype dtype = graph->values.items[value].dtype;
        if (dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16) return dtype;
        if (dtype != SPYRE_DTYPE_F32) break;
    }
    return x->dtype;
}

// Products of 16 bits are exact in float32, in which they are added.
static spyre_status narrow_factors(rewriter *r, tensor *x, tensor *y)
{
    spyre_dtype dtype = narrow_dtype(r, x);
    if (x->dtype != SPYRE_DTYPE_F32 || dtype == x->dtype || dtype != narrow_dtype(r, y) ||
        aten_takes(ATEN_SPYRE_BATCHMATMUL, x->dtype, r->rules.extended))
        return NULL;
    TRY(make_cast(r, x, dtype, NULL, x));
    return make_cast(r, y, dtype, NULL, y);
}

// Sums of int32; where int8 is wanted they wrap as they are cast.
static spyre_status multiply_int8(rewriter *r, const spyre_arg *args, const spyre_view *view,
                                  const tensor *into, tensor *out)
{
    tensor sums;
    const aten_op op = ATEN_SPYRE_BATCHMATMULINT8;
    if (into && into->dtype != SPYRE_DTYPE_I8)
        return make_node(r, op, args, 2, SPYRE_DTYPE_I32, view, into, out);
    TRY(make_node(r, op, args, 2, SPYRE_DTYPE_I32, view, NULL, &sums));
    return make_cast(r, &sums, SPYRE_DTYPE_I8, into, out);
}

spyre_status make_matmul(rewriter *r, const tensor *first, const tensor *second,
                         const tensor *into, tensor *out)
{
    bool along_k[SPYRE_MAX_RANK] = {false};
    tensor whole, factors[2] = {*first, *second}, *x = &factors[0], *y = &factors[1];
    spyre_dtype dtype = first->dtype;
    TRY(narrow_factors(r, x, y));
    along_k[x->view.rank - 1] = true;
    TRY(make_unrepeated(r, x, along_k, &whole));
    spyre_arg args[2] = {tensor_arg(&whole), tensor_arg(y)};
    spyre_view view = x->view;
    view.size[view.rank - 1] = y->view.size[y->view.rank - 1];
    view_set_contiguous(&view);
    if (x->dtype == SPYRE_DTYPE_F8_E4M3)
        return make_node(r, ATEN_SPYRE_BATCHMATMULFP8, args, 2, SPYRE_DTYPE_F32, &view, into, out);
    if (x->dtype == SPYRE_DTYPE_I8) return multiply_int8(r, args, &view, into, out);
    return make_node(r, ATEN_SPYRE_BATCHMATMUL, args, 2, dtype, &view, into, out);
}

// The list lives in the graph's memory.
static spyre_status ints_arg(rewriter *r, const int64_t *values, uint32_t count, spyre_arg *out)
{
    spyre_arg *items = ARENA_NEW(r->target->memory, spyre_arg, count);
    TRY_ALLOC(items);
    for (uint32_t i = 0; i < count; i++) items[i] = int_arg(values[i]);
    *out = (spyre_arg){.kind = SPYRE_ARG_LIST, .of.list = {.items = items, .count = count}};
    return NULL;
}

spyre_status make_windows(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                          const window_steps *steps, const spyre_view *result, tensor *out)
{
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(y)};
    TRY(ints_arg(r, steps->stride, steps->count, &args[2]));
    TRY(ints_arg(r, steps->dilation, steps->count, &args[3]));
    return make_node(r, op, args, 4, x->dtype, result, NULL, out);
}

spyre_status make_layer_norm(rewriter *r, const tensor *x, const norm_parameters *p,
                             const tensor *into, tensor *out)
{
    spyre_arg args[5] = {tensor_arg(x), tensor_arg(p->weight), tensor_arg(p->bias),
                         real_arg(p->eps), tensor_arg(p->part)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return make_node(r, ATEN_SPYRE_LAYER_NORM, args, p->part ? 5 : 4, x->dtype, &view, into, out);
}
