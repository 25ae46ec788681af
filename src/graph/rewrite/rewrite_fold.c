// SPDX-License-Identifier: Apache-2.0
//
// Reductions that want more than an opfunc: products, whose factors are widened; maxima of windows,
// as element-wise ops over parts of a dim.
#include <math.h>

#include "graph/rewrite/rewrite.h"

enum { LONGEST_WINDOW = 64 };

// prod(x) and prod(x, dim, keepdim): 16-bit factors are multiplied in float32, as PyTorch does;
// integers modulo 2^32, so that the product is right where it fits, whatever its parts are; of
// bools it is whether all are true.
spyre_status rewrite_product(rewriter *r)
{
    tensor x, into;
    uint32_t dim = 0;
    TRY(rewrite_result(r, 0, &into));
    bool is_half = into.dtype == SPYRE_DTYPE_F16 || into.dtype == SPYRE_DTYPE_BF16;
    TRY(rewrite_operand(r, 0, is_half ? SPYRE_DTYPE_F32 : into.dtype, &x));
    bool has_dim = r->from->op == ATEN_PROD_DIM;
    if (has_dim) TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    bool reduced[SPYRE_MAX_RANK] = {false}, repeats = false;
    for (uint32_t i = 0; i < x.view.rank; i++) {
        reduced[i] = !has_dim || i == dim;
        repeats |= reduced[i] && x.view.stride[i] == 0 && x.view.size[i] > 1;
    }
    if (repeats) TRY(make_copy(r, &x, NULL, &x));
    aten_op op = into.dtype == SPYRE_DTYPE_BOOL ? ATEN_SPYRE_MIN : ATEN_SPYRE_PROD;
    TRY(make_reduction(r, op, &x, reduced, true, NULL, &x));
    TRY(make_cast(r, &x, into.dtype, NULL, &x));
    return rewrite_finish(r, &x, &into);
}

// --- Windows

typedef struct {
    int64_t kernel, stride, padding, dilation;
} window;

// An argument of one number or one for each of two dims; none where `fallback` is 0 or more.
static spyre_status load_pair(rewriter *r, uint32_t index, int64_t fallback, int64_t *out)
{
    int64_t list[SPYRE_MAX_RANK];
    uint32_t count = 0;
    if (index < r->from->arg_count && r->from->args[index].kind != SPYRE_ARG_NONE)
        TRY(graph_arg_ints(r->source, r->node, index, list, &count));
    if (count > 2 || (count == 0 && fallback < 0))
        return status_new(SPYRE_INVALID_ARGUMENT, "argument %u: expected one or two ints", index);
    out[0] = count ? list[0] : fallback;
    out[1] = count ? list[count - 1] : fallback;
    return NULL;
}

static spyre_status load_windows(rewriter *r, window *out)
{
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    TRY(load_pair(r, 1, -1, kernel));
    TRY(load_pair(r, 2, 0, stride));
    TRY(load_pair(r, 3, 0, padding));
    TRY(load_pair(r, 4, 1, dilation));
    for (uint32_t i = 0; i < 2; i++) {
        out[i] = (window){kernel[i], stride[i] ? stride[i] : kernel[i], padding[i], dilation[i]};
        const window *w = &out[i];
        if (w->kernel < 1 || w->stride < 1 || w->dilation < 1 || w->padding < 0 ||
            w->padding > w->kernel / 2)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "a window of %lld, stride %lld, padding %lld, dilation %lld",
                              (long long)w->kernel, (long long)w->stride, (long long)w->padding,
                              (long long)w->dilation);
        if (w->kernel > LONGEST_WINDOW || w->stride > INT32_MAX || w->dilation > INT32_MAX)
            return status_new(SPYRE_UNSUPPORTED, "windows of %lld elements",
                              (long long)w->kernel);
    }
    return NULL;
}

// The maxima of `count` windows of a dim: of as many views as a window has elements.
static spyre_status slide(rewriter *r, tensor *x, uint32_t dim, const window *w, int64_t count)
{
    int64_t reach = (count - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
    int64_t missing = reach - w->padding - x->view.size[dim];
    tensor largest, part;
    TRY(make_padded(r, x, dim, w->padding, missing > 0 ? missing : 0,
                    &(graph_number){.value = -HUGE_VAL}));
    for (int64_t k = 0; k < w->kernel; k++) {
        spyre_view view = x->view;
        view.size[dim] = count;
        view.stride[dim] *= w->stride;
        view.offset += k * w->dilation * x->view.stride[dim];
        TRY(make_view(r, x, &view, NULL, &part));
        if (k == 0)
            largest = part;
        else
            TRY(make_binary(r, ATEN_SPYRE_MAXIMUM, &largest, &part, NULL, &largest));
    }
    *x = largest;
    return NULL;
}

// max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil_mode), whose last is said by
// the result's sizes.
spyre_status rewrite_max_pool(rewriter *r)
{
    tensor x, into;
    window windows[2];
    TRY(rewrite_only_result(r, 0));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(load_windows(r, windows));
    uint32_t rank = x.view.rank;
    if (rank < 3 || into.view.rank != rank)
        return status_new(SPYRE_INVALID_ARGUMENT, "windows of rank %u", rank);
    if (into.dtype == SPYRE_DTYPE_I64 || into.dtype == SPYRE_DTYPE_I32)
        return status_new(SPYRE_UNSUPPORTED, "windows of integers, which have no -inf");
    TRY(slide(r, &x, rank - 1, &windows[1], into.view.size[rank - 1]));
    TRY(slide(r, &x, rank - 2, &windows[0], into.view.size[rank - 2]));
    return rewrite_finish(r, &x, &into);
}
