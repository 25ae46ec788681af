// SPDX-License-Identifier: Apache-2.0
//
// Softmax and its logarithm.
#include <float.h>

#include "graph/rewrite/rewrite.h"

// x - max(x) over the dims that are marked. A safe shift keeps the largest value finite, so that
// -inf minus it stays -inf.
static spyre_status shift(rewriter *r, const tensor *x, const bool *reduced, bool safe,
                          tensor *shifted)
{
    // Near the lowest finite values of SEN169_FP16 and float32.
    double lowest = x->dtype == SPYRE_DTYPE_F32 ? -(double)FLT_MAX : -8e9;
    tensor largest;
    TRY(make_reduction(r, ATEN_SPYRE_MAX, x, reduced, true, NULL, &largest));
    if (safe) TRY(make_with(r, ATEN_SPYRE_MAXIMUM, &largest, lowest, NULL, &largest));
    return make_binary(r, ATEN_SPYRE_SUB, x, &largest, NULL, shifted);
}

// A safe softmax keeps the sum away from 0: a row of -inf only gives 0 / 0.5. Any other row has a
// sum of 1 at least.
spyre_status make_softmax(rewriter *r, const tensor *x, uint32_t dim, bool safe, const tensor *into,
                          tensor *out)
{
    tensor shifted, power, sum;
    bool reduced[SPYRE_MAX_RANK] = {false};
    reduced[dim] = x->view.rank > 0;
    TRY(shift(r, x, reduced, safe, &shifted));
    TRY(make_unary(r, ATEN_SPYRE_EXP, &shifted, NULL, &power));
    TRY(make_reduction(r, ATEN_SPYRE_SUM, &power, reduced, true, NULL, &sum));
    if (safe) TRY(make_with(r, ATEN_SPYRE_MAXIMUM, &sum, 0.5, NULL, &sum));
    return make_binary(r, ATEN_SPYRE_REALDIV, &power, &sum, into, out);
}

// The result, x in its dtype, and the dim at argument 1.
static spyre_status load_softmax(rewriter *r, tensor *x, uint32_t *dim, tensor *into)
{
    TRY(rewrite_result(r, 0, into));
    TRY(rewrite_operand(r, 0, into->dtype, x));
    return rewrite_dim(r, 1, -1, x->view.rank, dim);
}

spyre_status rewrite_softmax(rewriter *r)
{
    tensor x, into;
    uint32_t dim;
    TRY(load_softmax(r, &x, &dim, &into));
    return make_softmax(r, &x, dim, false, &into, NULL);
}

spyre_status rewrite_safe_softmax(rewriter *r)
{
    tensor x, into;
    uint32_t dim;
    TRY(load_softmax(r, &x, &dim, &into));
    return make_softmax(r, &x, dim, true, &into, NULL);
}

spyre_status rewrite_log_softmax(rewriter *r)
{
    tensor x, into, shifted, power, sum, logarithm;
    uint32_t dim;
    bool reduced[SPYRE_MAX_RANK] = {false};
    TRY(load_softmax(r, &x, &dim, &into));
    reduced[dim] = x.view.rank > 0;
    TRY(shift(r, &x, reduced, false, &shifted));
    TRY(make_unary(r, ATEN_SPYRE_EXP, &shifted, NULL, &power));
    TRY(make_reduction(r, ATEN_SPYRE_SUM, &power, reduced, true, NULL, &sum));
    TRY(make_unary(r, ATEN_SPYRE_LOG, &sum, NULL, &logarithm));
    return make_binary(r, ATEN_SPYRE_SUB, &shifted, &logarithm, &into, NULL);
}
