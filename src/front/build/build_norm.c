// SPDX-License-Identifier: Apache-2.0
//
// layer_norm as three ops: both moments of a row, its scale, and the normalised row.
#include "front/build/build.h"

#include <string.h>

// A buffer for one value (or, exx2, two moments) a row of x: x's sizes without the last.
static spyre_status add_row_statistic(const builder *b, const char *name, const space *x,
                                      spyre_dtype dtype, uint32_t *out)
{
    spyre_view view = {.rank = x->rank - 1};
    int64_t stride = 1;
    for (uint32_t d = x->rank - 1; d-- > 0;) {
        view.size[d] = x->size[d];
        view.stride[d] = stride;
        stride *= x->size[d];
    }
    return loop_add_local(b->loops, name, dtype, spyre_dtype_card_format(dtype), &view, out);
}

static void add_row_access(const builder *b, loop_op *op, const space *x, uint32_t buffer)
{
    const spyre_view *view = &b->loops->buffers.items[buffer].storage;
    int64_t strides[LOOP_MAX_VARS + 2] = {0};
    memcpy(strides, view->stride, view->rank * sizeof strides[0]);
    build_add_access(op, x, buffer, 0, strides);
}

// Weight or bias of layer_norm; a missing one next to a present one becomes a constant.
static spyre_status add_affine(builder *b, loop_op *op, const space *x, uint32_t index,
                               double missing, spyre_dtype dtype)
{
    uint32_t value, constant;
    TRY(graph_arg_value(b->graph, b->node, index, &value));
    if (value != SPYRE_NO_ID) return build_add_value(b, op, x, value, NULL);
    TRY(build_add_constant(b, missing, dtype, &constant));
    int64_t strides[LOOP_MAX_VARS + 2] = {0};
    build_add_access(op, x, constant, 0, strides);
    return NULL;
}

spyre_status build_layer_norm(builder *b)
{
    uint32_t source, weight, bias, part, moments, scale;
    space dims = {0};
    double eps;
    TRY(build_tensor_arg(b, 0, &source));
    TRY(graph_arg_value(b->graph, b->node, 1, &weight));
    TRY(graph_arg_value(b->graph, b->node, 2, &bias));
    TRY(graph_arg_real(b->graph, b->node, 3, 1e-5, &eps));
    TRY(graph_arg_value(b->graph, b->node, 4, &part));
    TRY(build_space(b, source, &dims));
    if (dims.rank < 1) return build_refuse(b, "layer_norm of a scalar");
    spyre_view view;
    TRY(build_view(b, source, &view));
    if (view.size[view.rank - 1] > 1 && !view.stride[view.rank - 1])
        return build_refuse(b, "layer_norm over repeats only");
    spyre_dtype dtype = b->graph->values.items[source].dtype;
    TRY(add_row_statistic(b, "moments", &dims, dtype, &moments));
    b->loops->buffers.items[moments].exx2 = true;
    TRY(add_row_statistic(b, "scale", &dims, dtype, &scale));

    loop_op exx2, rescale, norm;
    TRY(build_begin_op(b, OPFUNC_EXX2, &dims, &exx2));
    exx2.parameter[0] = part == SPYRE_NO_ID ? (float)(1.0 / (double)dims.size[dims.rank - 1]) : 1;
    TRY(build_add_value(b, &exx2, &dims, source, NULL));
    if (part != SPYRE_NO_ID) TRY(build_add_value(b, &exx2, &dims, part, NULL));
    add_row_access(b, &exx2, &dims, moments);
    TRY(build_finish_op(b, &exx2));

    space rows = dims;
    rows.rank--;
    TRY(build_begin_op(b, OPFUNC_LAYERNORMSCALE, &rows, &rescale));
    rescale.parameter[0] = (float)eps;
    add_row_access(b, &rescale, &rows, moments);
    add_row_access(b, &rescale, &rows, scale);
    TRY(build_finish_op(b, &rescale));

    TRY(build_begin_op(b, OPFUNC_LAYERNORMNORM, &dims, &norm));
    TRY(build_add_value(b, &norm, &dims, source, NULL));
    add_row_access(b, &norm, &dims, moments);
    add_row_access(b, &norm, &dims, scale);
    if (weight != SPYRE_NO_ID || bias != SPYRE_NO_ID) {
        TRY(add_affine(b, &norm, &dims, 1, 1.0, dtype));
        TRY(add_affine(b, &norm, &dims, 2, 0.0, dtype));
    }
    return build_finish_result(b, &norm, &dims, NULL);
}
