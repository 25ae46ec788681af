// SPDX-License-Identifier: Apache-2.0
//
// Makers of natives that read and write at indices.
#include "graph/rewrite/make_node.h"

spyre_status make_gather(rewriter *r, const tensor *table, const tensor *index, const tensor *into,
                         tensor *out)
{
    spyre_view view = index->view;
    tensor rows = *table;
    if (view.rank == SPYRE_MAX_RANK || table->view.rank != 2) {
        return status_new(SPYRE_UNSUPPORTED, "gather from rank %u by rank %u", table->view.rank,
                          index->view.rank);
    }
    // The card reads rows that lie apart.
    if (table->view.stride[0] == 0 || table->view.stride[1] == 0)
        TRY(make_copy(r, table, NULL, &rows));
    spyre_arg args[2] = {tensor_arg(&rows), tensor_arg(index)};
    view.size[view.rank++] = table->view.size[1];
    view_set_contiguous(&view);
    return make_node(r, ATEN_SPYRE_GATHER, args, 2, table->dtype, &view, into, out);
}

spyre_status make_take(rewriter *r, const tensor *x, const tensor *index, uint32_t dim,
                       const tensor *into, tensor *out)
{
    tensor whole = *x;
    spyre_view view = x->view.rank == 1 ? index->view : x->view;
    if (x->view.rank != 1 && index->view.rank == view.rank) view.size[dim] = index->view.size[dim];
    // The card reads rows that lie apart.
    if (x->view.size[dim] > 1 && x->view.stride[dim] == 0) TRY(make_copy(r, x, NULL, &whole));
    spyre_arg args[3] = {tensor_arg(&whole), tensor_arg(index), int_arg(dim)};
    view_set_contiguous(&view);
    return make_node(r, ATEN_SPYRE_TAKE, args, 3, x->dtype, &view, into, out);
}

spyre_status make_scatter(rewriter *r, const tensor *x, const tensor *index, const tensor *rows,
                          uint32_t dim, const tensor *into, tensor *out)
{
    spyre_view view = x->view;
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(index), tensor_arg(rows), int_arg(dim)};
    view_set_contiguous(&view);
    return make_node(r, ATEN_SPYRE_SCATTER, args, 4, x->dtype, &view, into, out);
}

// Sums and products of 16 bits are joined in float32; of bools they are any and all.
static aten_op joining_op(opfunc accumulator, spyre_dtype dtype)
{
    bool is_bool = dtype == SPYRE_DTYPE_BOOL;
    if (accumulator == OPFUNC_SUM) return is_bool ? ATEN_SPYRE_SCATTERMAX : ATEN_SPYRE_SCATTERSUM;
    if (accumulator == OPFUNC_PROD) return is_bool ? ATEN_SPYRE_SCATTERMIN : ATEN_SPYRE_SCATTERPROD;
    return accumulator == OPFUNC_MAX ? ATEN_SPYRE_SCATTERMAX : ATEN_SPYRE_SCATTERMIN;
}

bool accumulation_widens(opfunc accumulator, spyre_dtype dtype)
{
    bool is_half = dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16;
    return is_half && (accumulator == OPFUNC_SUM || accumulator == OPFUNC_PROD);
}

spyre_status make_accumulated(rewriter *r, opfunc accumulator, const tensor *x,
                              const tensor *index, const tensor *rows, uint32_t dim,
                              const tensor *into, tensor *out)
{
    spyre_view view = x->view;
    tensor sums;
    aten_op op = joining_op(accumulator, x->dtype);
    spyre_arg args[4] = {tensor_arg(x), tensor_arg(index), tensor_arg(rows), int_arg(dim)};
    view_set_contiguous(&view);
    if (!accumulation_widens(accumulator, x->dtype))
        return make_node(r, op, args, 4, x->dtype, &view, into, out);
    TRY(make_node(r, op, args, 4, SPYRE_DTYPE_F32, &view, NULL, &sums));
    return make_cast(r, &sums, x->dtype, into, out);
}
