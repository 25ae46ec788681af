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

// A view over larger sizes, to which its own broadcast.
static spyre_view spread(const spyre_view *x, const spyre_view *sizes)
{
    spyre_view view = *sizes;
    uint32_t shift = sizes->rank - x->rank;
    view.offset = x->offset;
    for (uint32_t i = 0; i < view.rank; i++)
        view.stride[i] = i < shift || x->size[i - shift] == 1 ? 0 : x->stride[i - shift];
    return view;
}

// The indices as one line each, of as many places as the sizes that they broadcast to have.
static spyre_status load_lines(rewriter *r, const tensor *table, indices *all, int64_t *out_count)
{
    spyre_view places = all->items[0].view;
    for (uint32_t i = 1; i < all->count; i++)
        TRY(broadcast_sizes(&places, &all->items[i].view, &places));
    *out_count = view_element_count(&places);
    for (uint32_t i = 0; i < all->count; i++) {
        tensor *index = &all->items[i];
        spyre_view view = spread(&index->view, &places);
        TRY(make_view(r, index, &view, NULL, index));
        TRY(make_reshape(r, index, out_count, 1, index));
        TRY(make_wrapped_index(r, index, table->view.size[all->dim[i]], index));
    }
    return NULL;
}

static uint32_t find_longest(const tensor *table, const indices *all)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < all->count; i++)
        if (table->view.size[all->dim[i]] > table->view.size[all->dim[longest]]) longest = i;
    return longest;
}

// Takes along one dim after the other. The line of places stands in the longest one, whose elements
// are taken first; of each other dim every place keeps one.
static spyre_status take_along_dims(rewriter *r, const tensor *table, indices *all,
                                    uint32_t *out_line, tensor *out)
{
    uint32_t longest = find_longest(table, all), line = all->dim[longest];
    int64_t count;
    TRY(load_lines(r, table, all, &count));
    *out = *table;
    *out_line = line;
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t k = i == 0 ? longest : i <= longest ? i - 1 : i;
        tensor column;
        TRY(make_column(r, &all->items[k], line, table->view.rank, &column));
        TRY(make_take(r, out, &column, all->dim[k], NULL, out));
    }
    return NULL;
}

// The result of that, whose line goes to dim `before` and has the indices' dims.
static spyre_status index_along_dims(rewriter *r, const tensor *table, indices *all,
                                     uint32_t before, const tensor *into)
{
    uint32_t order[SPYRE_MAX_RANK], count = 0, line, rank = table->view.rank;
    bool indexed[SPYRE_MAX_RANK] = {false};
    tensor taken;
    for (uint32_t i = 0; i < all->count; i++) indexed[all->dim[i]] = true;
    TRY(take_along_dims(r, table, all, &line, &taken));
    for (uint32_t i = 0; i < before; i++) order[count++] = i;
    order[count++] = line;
    for (uint32_t i = before; i < rank; i++)
        if (!indexed[i]) order[count++] = i;
    for (uint32_t i = 0; i < rank; i++)
        if (indexed[i] && i != line) order[count++] = i;
    spyre_view view = view_permute(&taken.view, order);
    TRY(make_view(r, &taken, &view, NULL, &taken));
    TRY(make_reshape(r, &taken, into->view.size, into->view.rank, &taken));
    return rewrite_finish(r, &taken, into);
}

// Whether that moves less than a copy of the table with its indexed dims in front.
static bool is_short_along_dims(const tensor *table, const indices *all)
{
    uint32_t longest = find_longest(table, all);
    int64_t places = 1;
    for (uint32_t i = 0; i < all->count; i++) {
        int64_t count = view_element_count(&all->items[i].view);
        places = count > places ? count : places;
    }
    return all->count == 1 || places <= table->view.size[all->dim[longest]] / 2;
}

// Gathers at indices of any dims. The dims of the index stand where the first indexed dim was, or
// in front of all when the indexed dims are apart.
static spyre_status index_dims(rewriter *r, const tensor *table, indices *all, const tensor *into)
{
    uint32_t order[SPYRE_MAX_RANK], count = 0, rank = table->view.rank;
    bool indexed[SPYRE_MAX_RANK] = {false};
    uint32_t first = all->dim[0], last = all->dim[all->count - 1];
    bool adjoining = last - first + 1 == all->count;
    uint32_t before = adjoining ? first : 0;
    tensor row, front, gathered, result;
    index_pair pair;
    if (indices_are_paired(r, table, all, &pair)) {
        TRY(make_paired_take(r, table, &pair, &result));
        return rewrite_finish(r, &result, into);
    }
    if (all->count > 1 && indices_choose_elements(table, all)) {
        TRY(make_gathered_elements(r, table, all, &result));
        return rewrite_finish(r, &result, into);
    }
    if ((!adjoining || first > 0) && is_short_along_dims(table, all))
        return index_along_dims(r, table, all, before, into);
    for (uint32_t i = 0; i < all->count; i++) indexed[order[count++] = all->dim[i]] = true;
    for (uint32_t i = 0; i < rank; i++)
        if (!indexed[i]) order[count++] = i;
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
