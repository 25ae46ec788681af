// SPDX-License-Identifier: Apache-2.0
//
// Where the largest and the smallest elements are. The card reduces values, not indices: every
// element that is the extreme stands for its position, every other for a number behind all
// positions, and the smallest of these is the first. Positions are float32, which is exact up to
// 2^24. NaN is the extreme wherever it is.
#include "graph/rewrite.h"

enum { MOST_POSITIONS = 1 << 24 };

// 0, 1, .. along `dim`, broadcasting over the other dims of x.
static spyre_status make_positions(rewriter *r, const tensor *x, uint32_t dim, tensor *out)
{
    TRY(make_count(r, x->view.size[dim], out));
    TRY(make_cast(r, out, SPYRE_DTYPE_F32, NULL, out));
    for (uint32_t i = dim + 1; i < x->view.rank; i++)
        TRY(make_unsqueeze(r, out, out->view.rank, out));
    return NULL;
}

// The first position along `dim` where x is `extreme`, which has size 1 there; int64.
static spyre_status make_first(rewriter *r, const tensor *x, const tensor *extreme, uint32_t dim,
                               tensor *out)
{
    tensor same, odd, found, missed, position;
    bool reduced[SPYRE_MAX_RANK] = {false};
    reduced[dim] = true;
    TRY(make_binary(r, ATEN_SPYRE_EQUAL, x, extreme, NULL, &same));
    TRY(make_binary(r, ATEN_SPYRE_NOTEQUAL, x, x, NULL, &odd));
    TRY(make_binary(r, ATEN_SPYRE_MAXIMUM, &same, &odd, NULL, &found));
    TRY(make_with(r, ATEN_SPYRE_EQUAL, &found, 0, NULL, &missed));
    TRY(make_cast(r, &missed, SPYRE_DTYPE_F32, NULL, &missed));
    TRY(make_with(r, ATEN_SPYRE_MUL, &missed, (double)x->view.size[dim], NULL, &missed));
    TRY(make_positions(r, x, dim, &position));
    TRY(make_binary(r, ATEN_SPYRE_ADD, &missed, &position, NULL, &position));
    TRY(make_reduction(r, ATEN_SPYRE_MIN, &position, reduced, true, NULL, out));
    return make_cast(r, out, SPYRE_DTYPE_I64, NULL, out);
}

// What positions can be found in, along `dim`.
static spyre_status check_table(const tensor *x, uint32_t dim)
{
    bool is_half = x->dtype == SPYRE_DTYPE_F16 || x->dtype == SPYRE_DTYPE_BF16;
    if (is_half && x->view.rank && x->view.size[dim] <= MOST_POSITIONS) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "positions in %s of rank %u, only in 16 bits, rank >= 1",
                      spyre_dtype_name(x->dtype), x->view.rank);
}

static spyre_status make_extreme(rewriter *r, const tensor *x, uint32_t dim, tensor *out)
{
    bool reduced[SPYRE_MAX_RANK] = {false};
    reduced[dim] = x->view.rank > 0;
    aten_op op = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    return make_reduction(r, op, x, reduced, true, NULL, out);
}

// max.dim, min.dim: values, and positions when they are used.
spyre_status rewrite_extreme(rewriter *r)
{
    tensor x, values, positions, into;
    uint32_t dim;
    bool with_positions = r->from->result_count > 1 && r->used[r->from->results[1]];
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    if (with_positions) TRY(check_table(&x, dim));
    TRY(make_extreme(r, &x, dim, &values));
    TRY(rewrite_finish(r, &values, &into));
    if (!with_positions) return NULL;
    TRY(make_first(r, &x, &values, dim, &positions));
    TRY(rewrite_result(r, 1, &into));
    return rewrite_finish(r, &positions, &into);
}

// argmax, argmin: without a dim, of all elements in order.
spyre_status rewrite_index_of(rewriter *r)
{
    tensor x, values, positions, into;
    uint32_t dim = 0;
    bool has_dim = r->from->arg_count > 1 && r->from->args[1].kind != SPYRE_ARG_NONE;
    TRY(rewrite_tensor(r, 0, &x));
    TRY(rewrite_result(r, 0, &into));
    if (has_dim) {
        TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    } else {
        int64_t count = view_element_count(&x.view);
        TRY(make_reshape(r, &x, &count, 1, &x));
    }
    TRY(check_table(&x, dim));
    TRY(make_extreme(r, &x, dim, &values));
    TRY(make_first(r, &x, &values, dim, &positions));
    return rewrite_finish(r, &positions, &into);
}
