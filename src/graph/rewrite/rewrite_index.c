// SPDX-License-Identifier: Apache-2.0
//
// Reading at indices. Along one dim an element each is taken (spyre.take). For rows of a table
// (make_gathered.c) several dims that are indexed go to the front and become one, and so do the
// others.
#include "graph/rewrite/rewrite.h"

// Rows of a table into the node's result; those of a table of rank 2 are gathered as they are.
static spyre_status gather_all(rewriter *r, const tensor *table, const tensor *index,
                               const tensor *into)
{
    tensor result;
    if (table->view.rank == 0) return status_new(SPYRE_UNSUPPORTED, "operand 0: rank 0");
    if (table->view.rank == 2 && table->view.size[1] > 1)
        return make_gather(r, table, index, into, NULL);
    TRY(make_gathered_rows(r, table, 1, index, &result));
    return rewrite_finish(r, &result, into);
}

spyre_status rewrite_embedding(rewriter *r)
{
    tensor table, index, into;
    TRY(rewrite_tensor(r, 0, &table));
    TRY(rewrite_tensor(r, 1, &index));
    TRY(rewrite_result(r, 0, &into));
    return gather_all(r, &table, &index, &into);
}

// Gathers at indices of any dims. The dims of the index stand where the first indexed dim was, or
// in front of all when the indexed dims are apart.
static spyre_status index_dims(rewriter *r, const tensor *table, const indices *all,
                               const tensor *into)
{
    uint32_t order[SPYRE_MAX_RANK], count = 0, rank = table->view.rank;
    bool indexed[SPYRE_MAX_RANK] = {false};
    for (uint32_t i = 0; i < all->count; i++) indexed[order[count++] = all->dim[i]] = true;
    for (uint32_t i = 0; i < rank; i++) {
        if (!indexed[i]) order[count++] = i;
    }
    uint32_t first = all->dim[0], last = all->dim[all->count - 1];
    uint32_t before = last - first + 1 == all->count ? first : 0;
    tensor row, front, gathered, result;
    if (all->count > 1 && indices_choose_elements(table, all)) {
        TRY(make_gathered_elements(r, table, all, &result));
        return rewrite_finish(r, &result, into);
    }
    spyre_view view = view_permute(&table->view, order);
    TRY(make_joined_index(r, all, &table->view, &row));
    if (before == 0 && all->count == 1) return gather_all(r, table, &row, into);
    TRY(make_view(r, table, &view, NULL, &front));
    TRY(make_gathered_rows(r, &front, all->count, &row, &gathered));
    if (before == 0) return rewrite_finish(r, &gathered, into);
    for (uint32_t i = 0; i < gathered.view.rank; i++) {
        uint32_t of_index = row.view.rank;
        order[i] = i < before ? of_index + i : i < before + of_index ? i - before : i;
    }
    view = view_permute(&gathered.view, order);
    TRY(make_view(r, &gathered, &view, NULL, &result));
    return rewrite_finish(r, &result, into);
}

static spyre_status expect_integers(const tensor *index)
{
    if (index->dtype == SPYRE_DTYPE_I64 || index->dtype == SPYRE_DTYPE_I32) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "operand 1: an index of %s",
                      spyre_dtype_name(index->dtype));
}

spyre_status rewrite_index_select(rewriter *r)
{
    tensor table, into;
    indices all = {.count = 1};
    TRY(rewrite_tensor(r, 0, &table));
    TRY(rewrite_tensor(r, 2, &all.items[0]));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_dim(r, 1, 0, table.view.rank, &all.dim[0]));
    if (table.view.rank == 0 || all.items[0].view.rank != 1) {
        return status_new(SPYRE_UNSUPPORTED, "indices of rank %u into rank %u",
                          all.items[0].view.rank, table.view.rank);
    }
    if (all.dim[0] == 0) return gather_all(r, &table, &all.items[0], &into);
    TRY(expect_integers(&all.items[0]));
    TRY(make_column(r, &all.items[0], all.dim[0], table.view.rank, &all.items[0]));
    return make_take(r, &table, &all.items[0], all.dim[0], &into, NULL);
}

spyre_status rewrite_index_tensor(rewriter *r)
{
    tensor table, into;
    indices all = {0};
    TRY(rewrite_tensor(r, 0, &table));
    TRY(rewrite_result(r, 0, &into));
    const spyre_arg *list = r->from->arg_count > 1 ? &r->from->args[1] : NULL;
    if (!list || list->kind != SPYRE_ARG_LIST || list->of.list.count > table.view.rank) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "argument 1: expected a list of at most %u tensors", table.view.rank);
    }
    for (uint32_t i = 0; i < list->of.list.count; i++) {
        tensor *index = &all.items[all.count];
        if (list->of.list.items[i].kind != SPYRE_ARG_VALUE) continue;
        TRY(status_at(rewrite_value(r, list->of.list.items[i].of.value, index), "operand 1"));
        TRY(expect_integers(index));
        all.dim[all.count++] = i;
    }
    if (all.count == 0) return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: no tensor");
    return index_dims(r, &table, &all, &into);
}

// Of dims along which all indices are the same one is left.
static spyre_status narrow_index(rewriter *r, tensor *index, uint32_t dim)
{
    spyre_view view = index->view;
    for (uint32_t i = 0; i < view.rank; i++)
        if (i != dim && view.stride[i] == 0) view.size[i] = 1;
    return make_view(r, index, &view, NULL, index);
}

spyre_status rewrite_gather(rewriter *r)
{
    tensor x, index, into;
    uint32_t dim;
    TRY(rewrite_separate(r, 0, &x));
    TRY(rewrite_tensor(r, 2, &index));
    TRY(expect_integers(&index));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    if (x.view.rank == 0 || index.view.rank != x.view.rank) {
        return status_new(SPYRE_UNSUPPORTED, "an index of rank %u into rank %u", index.view.rank,
                          x.view.rank);
    }
    for (uint32_t i = 0; i < x.view.rank; i++)
        if (i != dim && index.view.size[i] < x.view.size[i])
            TRY(make_slice(r, &x, i, 0, index.view.size[i], &x));
    TRY(narrow_index(r, &index, dim));
    return make_take(r, &x, &index, dim, &into, NULL);
}
