// SPDX-License-Identifier: Apache-2.0
//
// The ops of one node: one a native (layer_norm: three), none a view.
#include "front/build/build.h"

#include <string.h>

#include "graph/aten.h"

// Inputs of a node: of a PARAMETRIC opfunc one alone, or one for each parameter, too.
static uint32_t count_inputs(const builder *b, const opfunc_info *info)
{
    const graph_node *node = build_node_of(b);
    bool more = node->arg_count > 1 && node->args[1].kind == SPYRE_ARG_VALUE;
    return more ? info->most_inputs : info->least_inputs;
}

static spyre_status build_pointwise(builder *b, opfunc func)
{
    const opfunc_info *info = opfunc_describe(func);
    uint32_t inputs = count_inputs(b, info);
    space dims = {0};
    loop_op op;
    bool is_count;
    TRY(build_count_result(b, func, &is_count));
    if (is_count) return NULL;
    TRY(build_space(b, build_node_of(b)->results[0], &dims));
    TRY(build_begin_op(b, func, &dims, &op));
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t value;
        TRY(build_tensor_arg(b, i, &value));
        TRY(build_add_value(b, &op, &dims, value, NULL));
    }
    for (uint32_t i = 0; i < opfunc_constant_count(func, inputs); i++) {
        double parameter;
        TRY(graph_arg_real(b->graph, b->node, inputs + i, 0, &parameter));
        op.parameter[i] = (float)parameter;
    }
    return build_finish_result(b, &op, &dims, NULL);
}

static spyre_status build_cast(builder *b)
{
    uint32_t source;
    TRY(build_tensor_arg(b, 0, &source));
    spyre_format from = spyre_dtype_card_format(b->graph->values.items[source].dtype);
    spyre_format to =
        spyre_dtype_card_format(b->graph->values.items[build_node_of(b)->results[0]].dtype);
    if (from == SPYRE_FORMAT_SEN169_FP16 && to == SPYRE_FORMAT_IEEE_FP32)
        return build_pointwise(b, OPFUNC_DL16TOFP32);
    if (from == SPYRE_FORMAT_IEEE_FP32 && to == SPYRE_FORMAT_SEN169_FP16)
        return build_pointwise(b, OPFUNC_FP32TODL16);
    if (from == SPYRE_FORMAT_SEN169_FP16 && to == SPYRE_FORMAT_SEN143_FP8)
        return build_pointwise(b, OPFUNC_QFP8CH);
    if (from == SPYRE_FORMAT_SEN143_FP8 && to == SPYRE_FORMAT_SEN169_FP16)
        return build_pointwise(b, OPFUNC_FP8TODL16);
    return build_pointwise(b, OPFUNC_IDENTITY);
}

// Dims that only repeat the operand's elements (stride 0) leave the loops; a sum is scaled instead.
static spyre_status build_reduction(builder *b, opfunc func)
{
    uint32_t source, count, map[SPYRE_MAX_RANK], rank = 0;
    int64_t reduced[SPYRE_MAX_RANK], elements = 1, repeats = 1;
    bool keep, gone[SPYRE_MAX_RANK] = {false};
    spyre_view view;
    space dims = {0};
    loop_op op;
    TRY(build_tensor_arg(b, 0, &source));
    TRY(graph_arg_ints(b->graph, b->node, 1, reduced, &count));
    TRY(graph_arg_bool(b->graph, b->node, 2, false, &keep));
    TRY(build_view(b, source, &view));
    TRY(build_space(b, source, &dims));
    for (uint32_t i = 0; i < count; i++) {
        if (reduced[i] < 0 || reduced[i] >= dims.rank)
            return build_refuse(b, "a reduced dim outside the operand");
        gone[reduced[i]] = true;
        int64_t *size = &dims.size[reduced[i]];
        if (view.stride[reduced[i]])
            elements *= *size;
        else
            repeats *= *size, *size = 1;
    }
    bool sums = opfunc_describe(func)->accumulator == OPFUNC_SUM;
    if (repeats > 1 && !sums && !opfunc_reduces_exactly(func))
        return build_refuse(b, "a reduction of repeats");
    if (func == OPFUNC_SUM && repeats > 1)
        func = OPFUNC_MEAN, elements = 1;
    else
        repeats = 1;
    for (uint32_t d = 0; d < dims.rank; d++)
        if (keep || !gone[d]) map[rank++] = d;
    TRY(build_begin_op(b, func, &dims, &op));
    if (func == OPFUNC_MEAN) op.parameter[0] = (float)((double)repeats / (double)elements);
    TRY(build_add_value(b, &op, &dims, source, NULL));
    return build_finish_result(b, &op, &dims, map);
}

// The ranks take the place of the dim; the candidates are the innermost loop.
static spyre_status build_rank(builder *b, opfunc func)
{
    uint32_t source, map[SPYRE_MAX_RANK];
    int64_t k, dim;
    space dims = {0};
    loop_op op;
    TRY(build_tensor_arg(b, 0, &source));
    TRY(graph_arg_int(b->graph, b->node, 1, 1, &k));
    TRY(graph_arg_int(b->graph, b->node, 2, 0, &dim));
    TRY(build_space(b, source, &dims));
    if (dim < 0 || dim >= dims.rank) return build_refuse(b, "a ranked dim outside the operand");
    for (uint32_t d = 0; d < dims.rank; d++) map[d] = d;
    map[dim] = dims.rank;
    dims.size[dims.rank++] = dims.size[dim];
    dims.size[dim] = k;
    TRY(build_begin_op(b, func, &dims, &op));
    TRY(build_add_value(b, &op, &dims, source, map));
    map[dim] = (uint32_t)dim;
    return build_finish_result(b, &op, &dims, map);
}

static spyre_status build_scan(builder *b, opfunc func)
{
    uint32_t source, count = 0;
    int64_t dim;
    space dims = {0};
    loop_op op;
    TRY(build_tensor_arg(b, 0, &source));
    TRY(graph_arg_int(b->graph, b->node, 1, 0, &dim));
    TRY(build_space(b, source, &dims));
    if (dim < 0 || dim >= dims.rank) return build_refuse(b, "a scanned dim outside the operand");
    for (int64_t d = 0; d < dim; d++) count += dims.size[d] > 1;
    TRY(build_begin_op(b, func, &dims, &op));
    if (dims.size[dim] > 1) op.scanned = (uint8_t)(1u << count);
    TRY(build_add_value(b, &op, &dims, source, NULL));
    return build_finish_result(b, &op, &dims, NULL);
}

// a [batch.., M, K] by b [batch.., K, N], or by a rank-2 b that all batches share.
static spyre_status build_matmul(builder *b, opfunc func)
{
    uint32_t left, right;
    spyre_view a, w;
    TRY(build_tensor_arg(b, 0, &left));
    TRY(build_tensor_arg(b, 1, &right));
    TRY(build_view(b, left, &a));
    TRY(build_view(b, right, &w));
    if (a.rank < 2 || w.rank < 2 || w.rank > a.rank)
        return build_refuse(b, "ranks other than 2 and up");
    if (a.size[a.rank - 1] > 1 && !a.stride[a.rank - 1] && !w.stride[w.rank - 2])
        return build_refuse(b, "a contraction over repeats only");
    uint32_t batch = a.rank - 2, m = batch, n = batch + 1, k = batch + 2;
    space dims = {.rank = a.rank + 1};
    memcpy(dims.size, a.size, batch * sizeof dims.size[0]);
    dims.size[m] = a.size[a.rank - 2];
    dims.size[n] = w.size[w.rank - 1];
    dims.size[k] = a.size[a.rank - 1];
    uint32_t left_map[SPYRE_MAX_RANK], right_map[SPYRE_MAX_RANK], out_map[SPYRE_MAX_RANK];
    for (uint32_t d = 0; d < batch; d++) left_map[d] = out_map[d] = d;
    for (uint32_t d = 0; d + 2 < w.rank; d++) right_map[d] = batch - (w.rank - 2) + d;
    left_map[batch] = m, left_map[batch + 1] = k;
    right_map[w.rank - 2] = k, right_map[w.rank - 1] = n;
    out_map[batch] = m, out_map[batch + 1] = n;
    loop_op op;
    TRY(build_begin_op(b, func, &dims, &op));
    TRY(build_add_value(b, &op, &dims, left, left_map));
    TRY(build_add_value(b, &op, &dims, right, right_map));
    return build_finish_result(b, &op, &dims, out_map);
}

// Windows of x [batch.., extent.., K] by y [batch.., taps.., K, N], whose batch dims are the last
// of x's, or by y [taps.., K]. The loop over windows and that over a window's taps walk one dim of
// x.
static spyre_status build_windows(builder *b, opfunc func)
{
    bool contracts = func == OPFUNC_CONV2D;
    uint32_t left, right, count, dilations, result = build_node_of(b)->results[0];
    int64_t stride[SPYRE_MAX_RANK], dilation[SPYRE_MAX_RANK];
    spyre_view x, y;
    space dims = {0};
    TRY(build_tensor_arg(b, 0, &left));
    TRY(build_settle_count(b, left));
    TRY(build_tensor_arg(b, 1, &right));
    TRY(graph_arg_ints(b->graph, b->node, 2, stride, &count));
    TRY(graph_arg_ints(b->graph, b->node, 3, dilation, &dilations));
    TRY(build_view(b, left, &x));
    TRY(build_view(b, right, &y));
    TRY(build_space(b, result, &dims));
    uint32_t batch = x.rank - 1 - count, last = x.rank - 1, taps = x.rank;
    uint32_t k = contracts ? taps + count : last, shared = y.rank - count - (contracts ? 2 : 1);
    dims.rank = taps + count + contracts;
    if (dims.rank > LOOP_MAX_VARS + 2) return build_refuse(b, "windows of too many dims");
    memcpy(&dims.size[taps], &y.size[shared], count * sizeof dims.size[0]);
    dims.size[k] = x.size[last];
    int64_t strides[LOOP_MAX_VARS + 2] = {0};
    memcpy(strides, x.stride, batch * sizeof strides[0]);
    for (uint32_t i = 0; i < count; i++) {
        strides[batch + i] = x.stride[batch + i] * stride[i];
        strides[taps + i] = x.stride[batch + i] * dilation[i];
    }
    strides[k] = x.stride[last];
    uint32_t map[SPYRE_MAX_RANK];
    for (uint32_t d = 0; d < shared; d++) map[d] = batch - shared + d;
    for (uint32_t i = 0; i < count; i++) map[shared + i] = taps + i;
    map[shared + count] = k;
    map[y.rank - 1] = last;
    loop_op op;
    TRY(build_begin_op(b, func, &dims, &op));
    build_add_access(&op, &dims, b->buffer_of[left], x.offset, strides);
    TRY(build_add_value(b, &op, &dims, right, map));
    for (uint32_t d = 0; d <= last; d++) map[d] = d;
    return build_finish_result(b, &op, &dims, map);
}

static spyre_status build_gather(builder *b)
{
    uint32_t table, index;
    spyre_view rows;
    space dims = {0};
    TRY(build_tensor_arg(b, 0, &table));
    TRY(build_settle_count(b, table));
    TRY(build_tensor_arg(b, 1, &index));
    TRY(build_view(b, table, &rows));
    TRY(build_space(b, index, &dims));
    if (rows.rank != 2) return build_refuse(b, "a gather from a table of a rank other than 2");
    if (rows.size[0] > 1 && !rows.stride[0]) return build_refuse(b, "a table of repeated rows");
    dims.size[dims.rank++] = rows.size[1];
    uint32_t index_map[SPYRE_MAX_RANK];
    for (uint32_t d = 0; d < SPYRE_MAX_RANK; d++) index_map[d] = d;
    loop_op op;
    TRY(build_begin_op(b, OPFUNC_IDENTITY, &dims, &op));
    op.table = 1;
    op.row_stride = rows.stride[0];
    op.row_count = rows.size[0];
    TRY(build_add_value(b, &op, &dims, index, index_map));
    int64_t strides[LOOP_MAX_VARS + 2] = {0};
    strides[dims.rank - 1] = rows.stride[1];
    build_add_access(&op, &dims, b->buffer_of[table], rows.offset, strides);
    return build_finish_result(b, &op, &dims, NULL);
}

// The access of a table whose dim `dim` an index walks.
static void add_table(loop_op *op, const space *dims, uint32_t buffer, spyre_view view, int64_t dim)
{
    op->row_stride = view.stride[dim];
    op->row_count = view.size[dim];
    view.stride[dim] = 0;
    for (uint32_t d = 0; d < view.rank; d++)
        if (view.size[d] == 1) view.stride[d] = 0;
    int64_t strides[LOOP_MAX_VARS + 2] = {0};
    memcpy(strides, view.stride, view.rank * sizeof strides[0]);
    build_add_access(op, dims, buffer, view.offset, strides);
}

static spyre_status build_take(builder *b)
{
    uint32_t x, index;
    int64_t dim;
    spyre_view view;
    space dims = {0};
    loop_op op;
    TRY(build_tensor_arg(b, 0, &x));
    TRY(build_settle_count(b, x));
    TRY(build_tensor_arg(b, 1, &index));
    TRY(graph_arg_int(b->graph, b->node, 2, 0, &dim));
    TRY(build_space(b, build_node_of(b)->results[0], &dims));
    TRY(build_view(b, x, &view));
    if (dim < 0 || dim >= view.rank) return build_refuse(b, "an indexed dim outside the operand");
    TRY(build_begin_op(b, OPFUNC_IDENTITY, &dims, &op));
    op.table = 1;
    TRY(build_add_value(b, &op, &dims, index, NULL));
    add_table(&op, &dims, b->buffer_of[x], view, dim);
    if (op.row_count > 1 && !op.row_stride) return build_refuse(b, "a table of repeated rows");
    return build_finish_result(b, &op, &dims, NULL);
}

// A copy of the whole, whose rows are then replaced or joined to in the index's order
// (write_in_place elides the copy where the result replaces the whole).
static spyre_status build_scatter(builder *b)
{
    uint32_t whole, index, rows, result = build_node_of(b)->results[0];
    uint32_t map[SPYRE_MAX_RANK];
    int64_t dim;
    spyre_view view;
    space dims = {0};
    loop_op op;
    TRY(build_tensor_arg(b, 0, &whole));
    TRY(build_tensor_arg(b, 1, &index));
    TRY(build_tensor_arg(b, 2, &rows));
    TRY(graph_arg_int(b->graph, b->node, 3, 0, &dim));
    TRY(build_space(b, result, &dims));
    opfunc accumulator = aten_describe((aten_op)build_node_of(b)->op)->opfunc;
    bool widens =
        b->graph->values.items[whole].dtype != b->graph->values.items[result].dtype;
    TRY(build_begin_op(b, widens ? OPFUNC_DL16TOFP32 : OPFUNC_IDENTITY, &dims, &op));
    TRY(build_add_value(b, &op, &dims, whole, NULL));
    TRY(build_finish_result(b, &op, &dims, NULL));

    spyre_view places;
    TRY(build_view(b, index, &places));
    TRY(build_view(b, result, &view));
    if (dim < 0 || dim >= view.rank) return build_refuse(b, "an indexed dim outside the operand");
    bool of_rows = places.rank == 1;
    map[0] = (uint32_t)dim;
    dims.size[dim] = places.size[of_rows ? 0 : dim];
    TRY(build_begin_op(b, OPFUNC_IDENTITY, &dims, &op));
    op.table = 2;
    if (accumulator != OPFUNC_NONE) op.accumulator = accumulator;
    TRY(build_add_value(b, &op, &dims, index, of_rows ? map : NULL));
    TRY(build_add_value(b, &op, &dims, rows, NULL));
    view.offset = 0;
    add_table(&op, &dims, b->buffer_of[result], view, dim);
    return build_finish_op(b, &op);
}

static spyre_status build_full(builder *b)
{
    uint32_t value = build_node_of(b)->results[0], constant;
    graph_number fill;
    space dims = {0};
    loop_op op;
    TRY(graph_arg_number(b->graph, b->node, 0, 0, &fill));
    TRY(build_space(b, value, &dims));
    TRY(build_add_number(b, &fill, b->graph->values.items[value].dtype, &constant));
    TRY(build_begin_op(b, OPFUNC_IDENTITY, &dims, &op));
    int64_t strides[LOOP_MAX_VARS + 2] = {0};
    build_add_access(&op, &dims, constant, 0, strides);
    return build_finish_result(b, &op, &dims, NULL);
}

static spyre_status build_constant(builder *b)
{
    uint32_t value = build_node_of(b)->results[0];
    graph_number number;
    TRY(graph_arg_number(b->graph, b->node, 0, 0, &number));
    return build_add_number(b, &number, b->graph->values.items[value].dtype,
                            &b->buffer_of[value]);
}

static spyre_status build_piece(builder *b, uint32_t value, uint32_t result, int64_t offset)
{
    space dims = {0};
    loop_op op;
    spyre_view whole;
    TRY(build_space(b, value, &dims));
    TRY(build_view(b, result, &whole));
    TRY(build_begin_op(b, OPFUNC_IDENTITY, &dims, &op));
    TRY(build_add_value(b, &op, &dims, value, NULL));
    build_add_access(&op, &dims, b->buffer_of[result], offset, whole.stride);
    return build_finish_op(b, &op);
}

static spyre_status build_cat(builder *b)
{
    const graph_node *node = build_node_of(b);
    uint32_t result = node->results[0];
    const graph_value *info = &b->graph->values.items[result];
    int64_t dim, start = 0;
    spyre_view whole;
    TRY(graph_arg_int(b->graph, b->node, 1, 0, &dim));
    TRY(build_view(b, result, &whole));
    if (node->arg_count < 1 || node->args[0].kind != SPYRE_ARG_LIST || dim < 0 || dim >= whole.rank)
        return build_refuse(b, "cat needs a list of tensors and a dim of the result");
    TRY(loop_add_local(b->loops, info->name, info->dtype, spyre_dtype_card_format(info->dtype),
                       &whole, &b->buffer_of[result]));
    for (uint32_t i = 0; i < node->args[0].of.list.count; i++) {
        uint32_t value = node->args[0].of.list.items[i].of.value;
        spyre_view piece;
        TRY(build_view(b, value, &piece));
        TRY(build_piece(b, value, result, start * whole.stride[dim]));
        start += piece.size[dim];
    }
    return NULL;
}

spyre_status build_node(builder *b)
{
    const graph_node *node = build_node_of(b);
    *b->loops->at_node = b->node;
    if (node->layer == GRAPH_LAYER_VIEW) {
        uint32_t base;
        TRY(build_tensor_arg(b, 0, &base));
        for (uint32_t i = 0; i < node->result_count; i++) {
            b->buffer_of[node->results[i]] = b->buffer_of[base];
            b->counts[node->results[i]] = b->counts[base];
        }
        return NULL;
    }
    const char *name = node->op_name;
    if (strncmp(name, "spyre.", 6) != 0) return build_refuse(b, "an op that is not native");
    name += 6;
    if (strcmp(name, "constant") == 0) return build_constant(b);
    if (strcmp(name, "counts") == 0) return build_counts(b);
    if (strcmp(name, "cast") == 0) return build_cast(b);
    if (strcmp(name, "full") == 0) return build_full(b);
    if (strcmp(name, "cat") == 0) return build_cat(b);
    if (strcmp(name, "gather") == 0) return build_gather(b);
    if (strcmp(name, "take") == 0) return build_take(b);
    if (aten_describe((aten_op)node->op)->kind == ATEN_KIND_SCATTER) return build_scatter(b);
    if (strcmp(name, "layer_norm") == 0) return build_layer_norm(b);
    opfunc func = opfunc_named(name);
    if (func == OPFUNC_NONE) return build_refuse(b, "no opfunc of that name");
    switch (opfunc_describe(func)->kind) {
    case OPFUNC_KIND_REDUCTION: return build_reduction(b, func);
    case OPFUNC_KIND_MATMUL:
        return func == OPFUNC_CONV2D ? build_windows(b, func) : build_matmul(b, func);
    case OPFUNC_KIND_RANK: return build_rank(b, func);
    case OPFUNC_KIND_SCAN: return build_scan(b, func);
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC:
    case OPFUNC_KIND_COPY: return build_pointwise(b, func);
    case OPFUNC_KIND_POOL:
        if (func == OPFUNC_DEPTHWISECONV2D) return build_windows(b, func);
        break;
    case OPFUNC_KIND_NORM:
    case OPFUNC_KIND_MASK: break;
    }
    return build_refuse(b, "an opfunc that no graph op maps to");
}
