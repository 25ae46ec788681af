// SPDX-License-Identifier: Apache-2.0
//
// Activations that are no opfunc of the card, out of those that are; each computes in the dtype of
// its result.
#include "graph/rewrite/rewrite.h"

static spyre_status load(rewriter *r, tensor *x, tensor *into)
{
    TRY(rewrite_result(r, 0, into));
    return rewrite_operand(r, 0, into->dtype, x);
}

// relu(x) and min(x, 0).
static spyre_status make_halves(rewriter *r, const tensor *x, tensor *above, tensor *below)
{
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, x, NULL, above));
    return make_with(r, ATEN_SPYRE_MINIMUM, x, 0, NULL, below);
}

spyre_status rewrite_leaky_relu(rewriter *r)
{
    tensor x, above, below, scaled, into;
    double slope;
    TRY(load(r, &x, &into));
    TRY(graph_arg_real(r->source, r->node, 1, 0.01, &slope));
    TRY(make_halves(r, &x, &above, &below));
    TRY(make_with(r, ATEN_SPYRE_MUL, &below, slope, NULL, &scaled));
    return make_binary(r, ATEN_SPYRE_ADD, &above, &scaled, &into, NULL);
}

spyre_status rewrite_prelu(rewriter *r)
{
    tensor x, weight, above, below, scaled, into;
    TRY(load(r, &x, &into));
    TRY(rewrite_operand(r, 1, into.dtype, &weight));
    TRY(make_halves(r, &x, &above, &below));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &below, &weight, NULL, &scaled));
    return make_binary(r, ATEN_SPYRE_ADD, &above, &scaled, &into, NULL);
}

// (x, alpha, scale, input_scale)
spyre_status rewrite_elu(rewriter *r)
{
    tensor x, above, below, power, negative, into;
    double alpha, scale, input_scale;
    TRY(load(r, &x, &into));
    TRY(graph_arg_real(r->source, r->node, 1, 1, &alpha));
    TRY(graph_arg_real(r->source, r->node, 2, 1, &scale));
    TRY(graph_arg_real(r->source, r->node, 3, 1, &input_scale));
    TRY(make_halves(r, &x, &above, &below));
    if (input_scale != 1) TRY(make_with(r, ATEN_SPYRE_MUL, &below, input_scale, NULL, &below));
    TRY(make_unary(r, ATEN_SPYRE_EXP, &below, NULL, &power));
    TRY(make_with(r, ATEN_SPYRE_SUB, &power, 1, NULL, &negative));
    if (alpha != 1) TRY(make_with(r, ATEN_SPYRE_MUL, &negative, alpha, NULL, &negative));
    if (scale == 1) return make_binary(r, ATEN_SPYRE_ADD, &above, &negative, &into, NULL);
    TRY(make_binary(r, ATEN_SPYRE_ADD, &above, &negative, NULL, &above));
    return make_with(r, ATEN_SPYRE_MUL, &above, scale, &into, NULL);
}

// clamp(x + 3, 0, 6) / 6
static spyre_status make_gate(rewriter *r, const tensor *x, const tensor *into, tensor *gate)
{
    tensor shifted, raised, cut;
    TRY(make_with(r, ATEN_SPYRE_ADD, x, 3, NULL, &shifted));
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, &shifted, NULL, &raised));
    TRY(make_with(r, ATEN_SPYRE_MINIMUM, &raised, 6, NULL, &cut));
    return make_with(r, ATEN_SPYRE_REALDIV, &cut, 6, into, gate);
}

spyre_status rewrite_hardsigmoid(rewriter *r)
{
    tensor x, into;
    TRY(load(r, &x, &into));
    return make_gate(r, &x, &into, NULL);
}

spyre_status rewrite_hardswish(rewriter *r)
{
    tensor x, gate, into;
    TRY(load(r, &x, &into));
    TRY(make_gate(r, &x, NULL, &gate));
    return make_binary(r, ATEN_SPYRE_MUL, &x, &gate, &into, NULL);
}

spyre_status rewrite_glu(rewriter *r)
{
    tensor x, first, second, gate, into;
    uint32_t dim;
    TRY(load(r, &x, &into));
    TRY(rewrite_dim(r, 1, -1, x.view.rank, &dim));
    if (x.view.rank == 0 || x.view.size[dim] % 2 != 0) {
        return status_new(SPYRE_INVALID_ARGUMENT, "operand 0: an odd dim %u has no halves", dim);
    }
    int64_t half = x.view.size[dim] / 2;
    TRY(make_slice(r, &x, dim, 0, half, &first));
    TRY(make_slice(r, &x, dim, half, half, &second));
    TRY(make_unary(r, ATEN_SPYRE_SIGMOID, &second, NULL, &gate));
    return make_binary(r, ATEN_SPYRE_MUL, &first, &gate, &into, NULL);
}
