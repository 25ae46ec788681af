// SPDX-License-Identifier: Apache-2.0
//
// Copies, casts and creation.
#include "graph/rewrite/rewrite.h"

// Becomes another name of operand 0 when PyTorch says so: the view is the same.
static spyre_status alias_or_copy(rewriter *r, const tensor *x, const tensor *into)
{
    if (x->dtype == into->dtype && view_same(&x->view, &into->view)) {
        return make_view(r, x, &into->view, into, NULL);
    }
    return make_cast(r, x, into->dtype, into, NULL);
}

spyre_status rewrite_copy(rewriter *r)
{
    tensor x, into;
    TRY(rewrite_tensor(r, 0, &x));
    TRY(rewrite_result(r, 0, &into));
    if (r->from->op == ATEN_TO_DTYPE) {
        bool copies;
        TRY(graph_arg_bool(r->source, r->node, 3, false, &copies));
        if (!copies) return alias_or_copy(r, &x, &into);
    }
    TRY(rewrite_separate(r, 0, &x));
    return make_cast(r, &x, into.dtype, &into, NULL);
}

spyre_status rewrite_contiguous(rewriter *r)
{
    tensor x, same_sizes, into;
    spyre_view view;
    TRY(rewrite_tensor(r, 0, &x));
    TRY(rewrite_result(r, 0, &into));
    bool is_view = view_reshape(&x.view, into.view.size, into.view.rank, &view);
    if (is_view && view_same(&view, &into.view)) return make_view(r, &x, &into.view, &into, NULL);
    TRY(rewrite_separate(r, 0, &x));
    TRY(make_reshape(r, &x, into.view.size, into.view.rank, &same_sizes));
    return rewrite_finish(r, &same_sizes, &into);
}

spyre_status rewrite_dropout(rewriter *r)
{
    tensor x, into;
    double probability;
    bool trains;
    TRY(rewrite_tensor(r, 0, &x));
    TRY(rewrite_result(r, 0, &into));
    TRY(graph_arg_real(r->source, r->node, 1, 0.5, &probability));
    TRY(graph_arg_bool(r->source, r->node, 2, true, &trains));
    if (!trains || probability == 0) return alias_or_copy(r, &x, &into);
    return status_new(SPYRE_UNSUPPORTED, "dropout in training, the card has no random numbers");
}

spyre_status rewrite_copy_from(rewriter *r)
{
    tensor x, cast, into;
    TRY(rewrite_tensor(r, 1, &x));
    TRY(rewrite_result(r, 0, &into));
    if (x.dtype == into.dtype) return make_copy(r, &x, &into, NULL);
    if (view_same_sizes(&x.view, &into.view)) return make_cast(r, &x, into.dtype, &into, NULL);
    TRY(make_cast(r, &x, into.dtype, NULL, &cast));
    return make_copy(r, &cast, &into, NULL);
}

static spyre_status fill(rewriter *r, graph_number number)
{
    tensor into;
    TRY(rewrite_result(r, 0, &into));
    number = number_in(r, number, into.dtype);
    return make_full_of(r, &number, into.dtype, &into.view, &into, NULL);
}

static spyre_status fill_from(rewriter *r, uint32_t index)
{
    graph_number number;
    TRY(graph_arg_number(r->source, r->node, index, 0, &number));
    return fill(r, number);
}

spyre_status rewrite_full(rewriter *r)
{
    return fill_from(r, 1);
}

spyre_status rewrite_new_full(rewriter *r)
{
    return fill_from(r, 2);
}

spyre_status rewrite_scalar_tensor(rewriter *r)
{
    return fill_from(r, 0);
}

spyre_status rewrite_ones(rewriter *r)
{
    return fill(r, (graph_number){.value = 1});
}

spyre_status rewrite_zeros(rewriter *r)
{
    return fill(r, (graph_number){.value = 0});
}
