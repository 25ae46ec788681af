// SPDX-License-Identifier: Apache-2.0
//
// Writing at indices of one dim, of rows or of single elements, by the card's scattered store,
// which costs what it writes; and adding there, in float32, one after the other.
#include "graph/rewrite/rewrite.h"

typedef struct {
    tensor whole, source; // as many dims; the source broadcasts
    tensor index;         // [K], negative ones already wrapped
    uint32_t dim;         // of `whole`
} scatter;

// The rows that an index names; of what is one number all over, that number.
static spyre_status make_named_rows(rewriter *r, const scatter *s, const tensor *index, tensor *out)
{
    const graph_value *whole = &r->target->values.items[s->whole.value];
    spyre_view sizes = s->whole.view;
    graph_number number;
    bool is_full = whole->node != SPYRE_NO_ID &&
                   r->target->nodes.items[whole->node].op == ATEN_SPYRE_FULL;
    if (!is_full) return make_take(r, &s->whole, index, s->dim, NULL, out);
    sizes.size[s->dim] = index->view.size[s->dim];
    TRY(graph_arg_number(r->target, whole->node, 0, 0, &number));
    return make_full_of(r, &number, s->whole.dtype, &sizes, NULL, out);
}

// Sums into few of many rows: those that are named are summed in float32 by themselves. Of equal
// indices the last one's row takes all sums, and is the one that stays.
static spyre_status add_few_rows(rewriter *r, const scatter *s, const tensor *into)
{
    int64_t size = s->whole.view.size[s->dim], count = s->index.view.size[0];
    spyre_view places = view_contiguous(&size, 1), column = {.rank = s->whole.view.rank};
    tensor number, last, rows, at = s->index;
    for (uint32_t i = 0; i < column.rank; i++) column.size[i] = 1;
    column.size[s->dim] = count;
    column.stride[s->dim] = at.view.stride[0];
    column.offset = at.view.offset;
    TRY(make_count(r, count, &number));
    TRY(make_full(r, 0, number.dtype, &places, NULL, &last));
    TRY(make_scatter(r, &last, &s->index, &number, 0, NULL, &last));
    TRY(make_take(r, &last, &s->index, 0, NULL, &last));
    TRY(make_view(r, &s->index, &column, NULL, &at));
    TRY(make_named_rows(r, s, &at, &rows));
    TRY(make_accumulated(r, &rows, &last, &s->source, s->dim, NULL, &rows));
    return make_scatter(r, &s->whole, &s->index, &rows, s->dim, into, NULL);
}

// A third: float32 of the whole is written and read again then.
static bool names_few(const scatter *s)
{
    int64_t size = s->whole.view.size[s->dim];
    bool of_rows = s->index.view.rank == 1 && view_element_count(&s->whole.view) > size;
    return of_rows && s->index.view.size[0] < size / 3;
}

static spyre_status write_rows(rewriter *r, const scatter *s, bool adds, const tensor *into)
{
    if (adds && names_few(s)) return add_few_rows(r, s, into);
    if (adds) return make_accumulated(r, &s->whole, &s->index, &s->source, s->dim, into, NULL);
    return make_scatter(r, &s->whole, &s->index, &s->source, s->dim, into, NULL);
}

// The dim of `whole` and the index into it.
static spyre_status load_index(rewriter *r, uint32_t value, scatter *s)
{
    TRY(rewrite_value(r, value, &s->index));
    if (s->whole.view.rank == 0 || s->index.view.rank == 0) {
        return status_new(SPYRE_UNSUPPORTED, "indices of rank %u into rank %u", s->index.view.rank,
                          s->whole.view.rank);
    }
    if (s->index.dtype == SPYRE_DTYPE_I64 || s->index.dtype == SPYRE_DTYPE_I32) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "an index of %s", spyre_dtype_name(s->index.dtype));
}

static spyre_status load_source(rewriter *r, uint32_t index, const tensor *into, scatter *s)
{
    const spyre_view *whole = &s->whole.view, *given = &s->source.view;
    TRY(rewrite_operand(r, index, into->dtype, &s->source));
    while (given->rank < whole->rank) TRY(make_unsqueeze(r, &s->source, 0, &s->source));
    bool fits = given->rank == whole->rank;
    for (uint32_t i = 0; fits && i < whole->rank; i++) {
        int64_t wanted = i == s->dim ? s->index.view.size[0] : whole->size[i];
        fits = given->size[i] == 1 || given->size[i] == wanted;
    }
    if (fits) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "operand %u: sizes that the places do not have",
                      index);
}

// The same of indices of any rank, whose dims stand where `dim` is; they become one.
static spyre_status load_joined_source(rewriter *r, uint32_t index, const tensor *into, scatter *s)
{
    const spyre_view *whole = &s->whole.view, *places = &s->index.view;
    int64_t joined[SPYRE_MAX_RANK], count = view_element_count(places);
    spyre_view view = {.rank = whole->rank - 1 + places->rank};
    TRY(rewrite_operand(r, index, into->dtype, &s->source));
    const spyre_view *given = &s->source.view;
    if (view.rank > SPYRE_MAX_RANK)
        return status_new(SPYRE_UNSUPPORTED, "a source of rank %u", view.rank);
    uint32_t shift = view.rank - given->rank;
    bool fits = given->rank <= view.rank;
    view.offset = given->offset;
    for (uint32_t i = 0; fits && i < view.rank; i++) {
        bool placed = i >= s->dim && i < s->dim + places->rank, has = i >= shift;
        int64_t size = has ? given->size[i - shift] : 1;
        view.size[i] = placed       ? places->size[i - s->dim]
                       : i < s->dim ? whole->size[i]
                                    : whole->size[i + 1 - places->rank];
        view.stride[i] = has && size != 1 ? given->stride[i - shift] : 0;
        fits = size == 1 || size == view.size[i];
    }
    if (!fits) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "operand %u: sizes that the places do not have", index);
    }
    for (uint32_t i = 0; i < whole->rank; i++) joined[i] = i == s->dim ? count : whole->size[i];
    TRY(make_view(r, &s->source, &view, NULL, &s->source));
    TRY(make_reshape(r, &s->source, joined, whole->rank, &s->source));
    return make_reshape(r, &s->index, &count, 1, &s->index);
}

// index_copy(x, dim, index, source)
spyre_status rewrite_index_copy(rewriter *r)
{
    scatter s;
    tensor into;
    uint32_t index;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &s.whole));
    TRY(rewrite_dim(r, 1, 0, s.whole.view.rank, &s.dim));
    TRY(graph_arg_value(r->source, r->node, 2, &index));
    if (index == SPYRE_NO_ID) return status_new(SPYRE_INVALID_ARGUMENT, "argument 2: no tensor");
    TRY(load_index(r, index, &s));
    if (s.index.view.rank != 1)
        return status_new(SPYRE_UNSUPPORTED, "an index of rank %u", s.index.view.rank);
    TRY(load_source(r, 3, &into, &s));
    return write_rows(r, &s, false, &into);
}

// index_put(x, [none, .., index], source, accumulate)
spyre_status rewrite_index_put(rewriter *r)
{
    scatter s;
    tensor into;
    bool accumulates, found = false;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &s.whole));
    TRY(graph_arg_bool(r->source, r->node, 3, false, &accumulates));
    const spyre_arg *list = r->from->arg_count > 1 ? &r->from->args[1] : NULL;
    if (!list || list->kind != SPYRE_ARG_LIST || list->of.list.count > s.whole.view.rank) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "argument 1: expected a list of at most %u tensors", s.whole.view.rank);
    }
    for (uint32_t i = 0; i < list->of.list.count; i++) {
        if (list->of.list.items[i].kind != SPYRE_ARG_VALUE) continue;
        if (found) return status_new(SPYRE_UNSUPPORTED, "indices of several dims");
        found = true;
        s.dim = i;
        TRY(load_index(r, list->of.list.items[i].of.value, &s));
    }
    if (!found) return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: no tensor");
    TRY(make_wrapped_index(r, &s.index, s.whole.view.size[s.dim], &s.index));
    if (!accumulates && s.index.view.rank == 1) {
        TRY(load_source(r, 2, &into, &s));
        return write_rows(r, &s, false, &into);
    }
    TRY(load_joined_source(r, 2, &into, &s));
    return write_rows(r, &s, accumulates, &into);
}

// --- An index for every element

// Of the whole's sizes but for `dim`; of dims along which all indices are the same one is left.
static spyre_status load_element_index(rewriter *r, const spyre_view *whole, uint32_t *out_dim,
                                       tensor *out)
{
    TRY(rewrite_tensor(r, 2, out));
    TRY(rewrite_dim(r, 1, 0, whole->rank, out_dim));
    spyre_view view = out->view;
    if (out->dtype != SPYRE_DTYPE_I64 && out->dtype != SPYRE_DTYPE_I32)
        return status_new(SPYRE_UNSUPPORTED, "an index of %s", spyre_dtype_name(out->dtype));
    if (whole->rank == 0 || view.rank != whole->rank) {
        return status_new(SPYRE_UNSUPPORTED, "indices of rank %u into rank %u", view.rank,
                          whole->rank);
    }
    for (uint32_t i = 0; i < whole->rank; i++) {
        if (i == *out_dim) continue;
        if (view.size[i] != whole->size[i]) {
            return status_new(SPYRE_UNSUPPORTED, "indices for %lld of %lld in dim %u",
                              (long long)view.size[i], (long long)whole->size[i], i);
        }
        if (view.stride[i] == 0) view.size[i] = 1;
    }
    return make_view(r, out, &view, NULL, out);
}

// What the indices write: as much of each dim as they have.
static spyre_status slice_source(rewriter *r, const spyre_view *whole, uint32_t dim, int64_t count,
                                 tensor *source)
{
    if (source->view.rank != whole->rank)
        return status_new(SPYRE_UNSUPPORTED, "a source of rank %u", source->view.rank);
    for (uint32_t i = 0; i < whole->rank; i++) {
        int64_t wanted = i == dim ? count : whole->size[i];
        if (source->view.size[i] < wanted) {
            return status_new(SPYRE_INVALID_ARGUMENT, "operand 3: %lld elements for %lld indices",
                              (long long)source->view.size[i], (long long)wanted);
        }
        if (source->view.size[i] > wanted) TRY(make_slice(r, source, i, 0, wanted, source));
    }
    return NULL;
}

// scatter(x, dim, index, source or number), scatter_add(x, dim, index, source)
spyre_status rewrite_scatter_elements(rewriter *r)
{
    scatter s;
    tensor into;
    bool adds = r->from->op == ATEN_SCATTER_ADD, is_number = r->from->op == ATEN_SCATTER_VALUE;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &s.whole));
    TRY(rewrite_stored(r, 3, into.dtype, &s.source));
    if (adds && (into.dtype == SPYRE_DTYPE_I64 || into.dtype == SPYRE_DTYPE_BOOL))
        return status_new(SPYRE_UNSUPPORTED, "sums of %s", spyre_dtype_name(into.dtype));
    TRY(load_element_index(r, &s.whole.view, &s.dim, &s.index));
    if (!is_number)
        TRY(slice_source(r, &s.whole.view, s.dim, s.index.view.size[s.dim], &s.source));
    return write_rows(r, &s, adds, &into);
}
