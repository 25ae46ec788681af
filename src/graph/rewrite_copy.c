// SPDX-License-Identifier: Apache-2.0
//
// Copies, casts, creation and gathers.
#include "graph/rewrite.h"

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

static spyre_status fill(rewriter *r, double value)
{
    tensor into;
    TRY(rewrite_result(r, 0, &into));
    return make_full(r, value, into.dtype, &into.view, &into, NULL);
}

static spyre_status fill_from(rewriter *r, uint32_t index)
{
    double value;
    TRY(graph_arg_real(r->source, r->node, index, 0, &value));
    return fill(r, value);
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
    return fill(r, 1);
}

spyre_status rewrite_zeros(rewriter *r)
{
    return fill(r, 0);
}

// Rows of a table along its dim 0; the other dims are joined into one for the native.
static spyre_status gather_rows(rewriter *r, const tensor *table, const tensor *index,
                                const tensor *into)
{
    tensor rows, result;
    if (table->view.rank == 0) return status_new(SPYRE_UNSUPPORTED, "operand 0: rank 0");
    if (table->view.rank == 2) return make_gather(r, table, index, into, NULL);
    int64_t sizes[2] = {table->view.size[0], view_element_count(&table->view)};
    sizes[1] /= sizes[0];
    TRY(make_reshape(r, table, sizes, 2, &rows));
    TRY(make_gather(r, &rows, index, NULL, &result));
    return rewrite_finish(r, &result, into);
}

spyre_status rewrite_embedding(rewriter *r)
{
    tensor table, index, into;
    TRY(rewrite_tensor(r, 0, &table));
    TRY(rewrite_tensor(r, 1, &index));
    TRY(rewrite_result(r, 0, &into));
    return gather_rows(r, &table, &index, &into);
}

spyre_status rewrite_index_select(rewriter *r)
{
    tensor table, index, into;
    uint32_t dim;
    TRY(rewrite_tensor(r, 0, &table));
    TRY(rewrite_tensor(r, 2, &index));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_dim(r, 1, 0, table.view.rank, &dim));
    if (dim == 0 && index.view.rank == 1) return gather_rows(r, &table, &index, &into);
    return status_new(SPYRE_UNSUPPORTED, "indices of rank %u on dim %u, only a vector on dim 0",
                      index.view.rank, dim);
}

// index < 0 ? index + rows : index, exact in integers.
static spyre_status wrap_index(rewriter *r, const tensor *index, int64_t rows, tensor *out)
{
    tensor below, sign, step;
    TRY(make_with(r, ATEN_SPYRE_MINIMUM, index, 0, NULL, &below));
    TRY(make_with(r, ATEN_SPYRE_MAXIMUM, &below, -1, NULL, &sign));
    TRY(make_with(r, ATEN_SPYRE_MUL, &sign, (double)rows, NULL, &step));
    return make_binary(r, ATEN_SPYRE_SUB, index, &step, NULL, out);
}

spyre_status rewrite_index_tensor(rewriter *r)
{
    tensor table, index, wrapped, into;
    TRY(rewrite_tensor(r, 0, &table));
    TRY(rewrite_result(r, 0, &into));
    const spyre_arg *list = r->from->arg_count > 1 ? &r->from->args[1] : NULL;
    if (!list || list->kind != SPYRE_ARG_LIST || list->of.list.count == 0) {
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: expected a list of tensors");
    }
    for (uint32_t i = 0; i < list->of.list.count; i++) {
        bool present = list->of.list.items[i].kind == SPYRE_ARG_VALUE;
        if (present == (i == 0)) continue;
        return status_new(SPYRE_UNSUPPORTED, "indices other than one on dim 0");
    }
    TRY(status_at(rewrite_value(r, list->of.list.items[0].of.value, &index), "operand 1"));
    if (index.dtype != SPYRE_DTYPE_I64 && index.dtype != SPYRE_DTYPE_I32) {
        return status_new(SPYRE_UNSUPPORTED, "operand 1: an index of %s",
                          spyre_dtype_name(index.dtype));
    }
    if (table.view.rank == 0) return status_new(SPYRE_UNSUPPORTED, "operand 0: rank 0");
    TRY(wrap_index(r, &index, table.view.size[0], &wrapped));
    return gather_rows(r, &table, &wrapped, &into);
}
