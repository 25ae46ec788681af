// SPDX-License-Identifier: Apache-2.0
//
// Writing at indices of one dim: rows by the card's scattered store, which costs what it writes.
// Single elements share sticks, which it cannot: every place of the dim looks for the last index
// that names it, [size, indices] comparisons, and what it finds is gathered from the source.
#include <math.h>

#include "graph/rewrite/rewrite.h"

enum { MOST_COMPARISONS = 1 << 22, MOST_PASSES = 16, MOST_ADDED = 1 << 24 };
// Of a sum of rows, which multiplies.
#define MOST_PRODUCTS (INT64_C(1) << 32)

typedef struct {
    tensor whole, source; // as many dims; the source broadcasts
    tensor index;         // [K], int64, negative ones already wrapped
    uint32_t dim;         // of `whole`
} scatter;

// [size, K]: whether place n is index k. An index outside the dim is a fault of the gather.
static spyre_status make_hits(rewriter *r, const scatter *s, tensor *out)
{
    int64_t size = s->whole.view.size[s->dim];
    spyre_view ones = view_contiguous((int64_t[]){size, 2}, 2);
    tensor places, table, inside;
    TRY(make_full(r, 1, SPYRE_DTYPE_BOOL, &ones, NULL, &table));
    TRY(make_gather(r, &table, &s->index, NULL, &inside));
    TRY(make_slice(r, &inside, 1, 0, 1, &inside));
    TRY(make_transpose(r, &inside, 0, 1, &inside));
    TRY(make_count(r, size, &places));
    TRY(make_unsqueeze(r, &places, 1, &places));
    TRY(make_binary(r, ATEN_SPYRE_EQUAL, &places, &s->index, NULL, out));
    return make_binary(r, ATEN_SPYRE_MUL, out, &inside, NULL, out);
}

// The source as rows [K, R], its dim in front.
static spyre_status rows_of(rewriter *r, const scatter *s, tensor *out)
{
    uint32_t rank = s->source.view.rank, order[SPYRE_MAX_RANK] = {0};
    int64_t rows[2] = {s->index.view.size[0], 1};
    tensor front;
    for (uint32_t i = 0; i < rank; i++) order[i] = i == 0 ? s->dim : i <= s->dim ? i - 1 : i;
    spyre_view view = view_permute(&s->source.view, order);
    for (uint32_t i = 1; i < rank; i++) rows[1] *= view.size[i];
    TRY(make_view(r, &s->source, &view, NULL, &front));
    return make_reshape(r, &front, rows, 2, out);
}

// Rows [size, R] as the source, with `size` places along its dim.
static spyre_status rows_back(rewriter *r, const scatter *s, const tensor *rows, tensor *out)
{
    uint32_t rank = s->source.view.rank, back[SPYRE_MAX_RANK] = {0};
    int64_t sizes[SPYRE_MAX_RANK];
    tensor front;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t from = i == 0 ? s->dim : i <= s->dim ? i - 1 : i;
        back[from] = i;
        sizes[i] = i ? s->source.view.size[from] : s->whole.view.size[s->dim];
    }
    TRY(make_reshape(r, rows, sizes, rank, &front));
    spyre_view view = view_permute(&front.view, back);
    return make_view(r, &front, &view, NULL, out);
}

// The source with a row for every place of the dim: that of the last index which is the place.
static spyre_status spread_source(rewriter *r, const scatter *s, const tensor *hits, tensor *out)
{
    bool reduced[2] = {false, true};
    tensor number, found, row, rows;
    TRY(make_count(r, s->index.view.size[0], &number));
    TRY(make_cast(r, &number, SPYRE_DTYPE_F32, NULL, &number));
    TRY(make_cast(r, hits, SPYRE_DTYPE_F32, NULL, &found));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &found, &number, NULL, &found));
    TRY(make_reduction(r, ATEN_SPYRE_MAX, &found, reduced, false, NULL, &row));
    TRY(make_cast(r, &row, SPYRE_DTYPE_I64, NULL, &row));
    TRY(rows_of(r, s, &rows));
    TRY(make_gather(r, &rows, &row, NULL, &rows));
    return rows_back(r, s, &rows, out);
}

// x where it is not `value`, else `instead`.
static spyre_status replace(rewriter *r, const tensor *x, double value, double instead,
                            const tensor *otherwise, tensor *out)
{
    tensor is_it, constant;
    TRY(make_with(r, ATEN_SPYRE_EQUAL, x, value, NULL, &is_it));
    TRY(make_constant(r, instead, otherwise->dtype, &constant));
    return make_where(r, &is_it, &constant, otherwise, NULL, out);
}

// hits [size, K] times rows [K, R], which are summed in float32. An infinity of a row, times a
// miss, would be no number. So infinities are left out and counted in a product of their own, the
// negative ones as so little less than nothing that one positive outweighs them: a sum of both is a
// NaN, which is infinity in 16 bits.
static spyre_status sum_hits(rewriter *r, const tensor *hits, const tensor *rows, tensor *out)
{
    const double little = -0x1p-20;
    tensor finite, kinds, counts, side, infinite, none;
    TRY(replace(r, rows, INFINITY, 0, rows, &finite));
    TRY(replace(r, rows, -INFINITY, 0, &finite, &finite));
    TRY(make_with(r, ATEN_SPYRE_MUL, &finite, 0, NULL, &none));
    TRY(replace(r, rows, INFINITY, 1, &none, &kinds));
    TRY(replace(r, rows, -INFINITY, little, &kinds, &kinds));
    TRY(make_matmul(r, hits, &finite, NULL, out));
    TRY(make_matmul(r, hits, &kinds, NULL, &counts));
    TRY(make_constant(r, INFINITY, out->dtype, &infinite));
    TRY(make_with(r, ATEN_SPYRE_GREATERTHAN, &counts, 0, NULL, &side));
    TRY(make_where(r, &side, &infinite, out, NULL, out));
    TRY(make_constant(r, -INFINITY, out->dtype, &infinite));
    TRY(make_with(r, ATEN_SPYRE_LESSERTHAN, &counts, 0, NULL, &side));
    return make_where(r, &side, &infinite, out, NULL, out);
}

// The whole plus the rows of the source at their places.
static spyre_status add_rows(rewriter *r, const scatter *s, const tensor *into)
{
    int64_t size = s->whole.view.size[s->dim], count = s->index.view.size[0];
    int64_t others = view_element_count(&s->whole.view) / (size ? size : 1);
    tensor hits, rows, sums;
    if (!rewrite_takes(r, ATEN_SPYRE_BATCHMATMUL, into->dtype))
        return status_new(SPYRE_UNSUPPORTED, "indices that add %s", spyre_dtype_name(into->dtype));
    if (size * count > MOST_ADDED || size * count > MOST_PRODUCTS / others) {
        return status_new(SPYRE_UNSUPPORTED, "%lld indices that add into a dim of %lld",
                          (long long)count, (long long)size);
    }
    TRY(make_hits(r, s, &hits));
    TRY(make_cast(r, &hits, into->dtype, NULL, &hits));
    TRY(rows_of(r, s, &rows));
    if (s->whole.view.rank > 2) TRY(make_copy(r, &rows, NULL, &rows));
    TRY(sum_hits(r, &hits, &rows, &sums));
    if (s->whole.view.rank > 2) TRY(make_copy(r, &sums, NULL, &sums));
    TRY(rows_back(r, s, &sums, &sums));
    return make_binary(r, ATEN_SPYRE_ADD, &s->whole, &sums, into, NULL);
}

static spyre_status write_rows(rewriter *r, const scatter *s, const tensor *into)
{
    int64_t size = s->whole.view.size[s->dim], count = s->index.view.size[0];
    tensor hits, hit, source = s->source;
    bool reduced[2] = {false, true};
    if (size && count && view_element_count(&s->whole.view) > size)
        return make_scatter(r, &s->whole, &s->index, &source, s->dim, into, NULL);
    if (size * count > MOST_COMPARISONS) {
        return status_new(SPYRE_UNSUPPORTED, "%lld indices into a dim of %lld", (long long)count,
                          (long long)size);
    }
    TRY(make_hits(r, s, &hits));
    if (source.view.size[s->dim] > 1) TRY(spread_source(r, s, &hits, &source));
    TRY(make_reduction(r, ATEN_SPYRE_MAX, &hits, reduced, false, NULL, &hit));
    for (uint32_t i = s->dim + 1; i < s->whole.view.rank; i++)
        TRY(make_unsqueeze(r, &hit, hit.view.rank, &hit));
    return make_where(r, &hit, &source, &s->whole, into, NULL);
}

// The dim of `whole` and the index into it.
static spyre_status load_index(rewriter *r, uint32_t value, scatter *s)
{
    TRY(rewrite_value(r, value, &s->index));
    if (s->whole.view.rank == 0 || s->index.view.rank == 0) {
        return status_new(SPYRE_UNSUPPORTED, "indices of rank %u into rank %u", s->index.view.rank,
                          s->whole.view.rank);
    }
    if (s->index.dtype != SPYRE_DTYPE_I64 && s->index.dtype != SPYRE_DTYPE_I32)
        return status_new(SPYRE_UNSUPPORTED, "an index of %s", spyre_dtype_name(s->index.dtype));
    return make_cast(r, &s->index, SPYRE_DTYPE_I64, NULL, &s->index);
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
    return write_rows(r, &s, &into);
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
        return write_rows(r, &s, &into);
    }
    TRY(load_joined_source(r, 2, &into, &s));
    return accumulates ? add_rows(r, &s, &into) : write_rows(r, &s, &into);
}

// --- An index for every element: the elements of a line are written one after the other

typedef struct {
    tensor index;  // of the whole's sizes, but for `dim`
    tensor inside; // of its sizes: true; outside of the dim a fault of the gather
    tensor places; // [size, 1, ..]: 0, 1, 2, .. along `dim`
    uint32_t dim;
} element_index;

static spyre_status load_element_index(rewriter *r, const spyre_view *whole, element_index *e)
{
    TRY(rewrite_tensor(r, 2, &e->index));
    TRY(rewrite_dim(r, 1, 0, whole->rank, &e->dim));
    const spyre_view *given = &e->index.view;
    if (e->index.dtype != SPYRE_DTYPE_I64 && e->index.dtype != SPYRE_DTYPE_I32)
        return status_new(SPYRE_UNSUPPORTED, "an index of %s", spyre_dtype_name(e->index.dtype));
    if (whole->rank == 0 || given->rank != whole->rank) {
        return status_new(SPYRE_UNSUPPORTED, "indices of rank %u into rank %u", given->rank,
                          whole->rank);
    }
    return NULL;
}

// Elements one after the other: of each line, and few of them.
static spyre_status check_passes(const spyre_view *whole, const element_index *e)
{
    const spyre_view *given = &e->index.view;
    for (uint32_t i = 0; i < whole->rank; i++) {
        if (i == e->dim || given->size[i] == whole->size[i]) continue;
        return status_new(SPYRE_UNSUPPORTED, "indices for %lld of %lld in dim %u",
                          (long long)given->size[i], (long long)whole->size[i], i);
    }
    if (given->size[e->dim] <= MOST_PASSES) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "%lld indices a line, at most %d are supported",
                      (long long)given->size[e->dim], MOST_PASSES);
}

static spyre_status prepare_hits(rewriter *r, const spyre_view *whole, element_index *e)
{
    int64_t size = whole->size[e->dim];
    spyre_view ones = view_contiguous((int64_t[]){size, 2}, 2);
    tensor table, pairs;
    TRY(make_cast(r, &e->index, SPYRE_DTYPE_I64, NULL, &e->index));
    TRY(make_full(r, 1, SPYRE_DTYPE_BOOL, &ones, NULL, &table));
    TRY(make_gather(r, &table, &e->index, NULL, &pairs));
    TRY(make_slice(r, &pairs, whole->rank, 0, 1, &pairs));
    TRY(make_reshape(r, &pairs, e->index.view.size, whole->rank, &e->inside));
    TRY(make_count(r, size, &e->places));
    for (uint32_t i = e->dim + 1; i < whole->rank; i++)
        TRY(make_unsqueeze(r, &e->places, e->places.view.rank, &e->places));
    return NULL;
}

// Of the sizes of the whole: whether the index at `pass` of a line is the place.
static spyre_status hits_of(rewriter *r, const element_index *e, int64_t pass, tensor *out)
{
    tensor index, inside;
    TRY(make_slice(r, &e->index, e->dim, pass, 1, &index));
    TRY(make_slice(r, &e->inside, e->dim, pass, 1, &inside));
    TRY(make_binary(r, ATEN_SPYRE_EQUAL, &e->places, &index, NULL, out));
    return make_binary(r, ATEN_SPYRE_MUL, out, &inside, NULL, out);
}

static spyre_status slice_source(rewriter *r, const tensor *source, uint32_t dim, int64_t start,
                                 int64_t count, tensor *out)
{
    if (start + count <= source->view.size[dim])
        return make_slice(r, source, dim, start, count, out);
    return status_new(SPYRE_INVALID_ARGUMENT, "operand 3: %lld elements for %lld indices",
                      (long long)source->view.size[dim], (long long)(start + count));
}

// The elements of the source that the indices at `pass` write: [.., 1, ..].
static spyre_status source_of(rewriter *r, const element_index *e, const tensor *source,
                              int64_t pass, tensor *out)
{
    const spyre_view *index = &e->index.view;
    *out = *source;
    for (uint32_t i = 0; i < index->rank; i++) {
        bool along = i == e->dim;
        TRY(slice_source(r, out, i, along ? pass : 0, along ? 1 : index->size[i], out));
    }
    return NULL;
}

// Whether each index stands for a whole row: it is the same all along the other dims, of which it
// leaves out no place.
static bool has_rows(const spyre_view *index, const spyre_view *whole, uint32_t dim)
{
    if (index->rank != whole->rank || view_element_count(whole) == whole->size[dim]) return false;
    for (uint32_t i = 0; i < index->rank; i++) {
        bool same = index->size[i] == whole->size[i] && (index->size[i] == 1 || !index->stride[i]);
        if (i != dim && !same) return false;
    }
    return true;
}

// The rows that such an index writes.
static spyre_status scatter_rows(rewriter *r, const tensor *x, const tensor *source,
                                 const element_index *e, const tensor *into)
{
    scatter s = {.whole = *x, .source = *source, .index = e->index, .dim = e->dim};
    const spyre_view *index = &e->index.view;
    bool is_number = source->view.rank == 0;
    for (uint32_t i = 0; i < index->rank; i++) {
        if (i != e->dim) TRY(make_slice(r, &s.index, i, 0, 1, &s.index));
        if (is_number) TRY(make_unsqueeze(r, &s.source, 0, &s.source));
        else TRY(slice_source(r, &s.source, i, 0, index->size[i], &s.source));
    }
    TRY(make_reshape(r, &s.index, &index->size[e->dim], 1, &s.index));
    TRY(make_cast(r, &s.index, SPYRE_DTYPE_I64, NULL, &s.index));
    return write_rows(r, &s, into);
}

// scatter(x, dim, index, source or number), scatter_add(x, dim, index, source)
spyre_status rewrite_scatter_elements(rewriter *r)
{
    element_index e;
    tensor x, source, into, hits, written;
    bool adds = r->from->op == ATEN_SCATTER_ADD, is_number = r->from->op == ATEN_SCATTER_VALUE;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_stored(r, 3, into.dtype, &source));
    if (adds && (into.dtype == SPYRE_DTYPE_I64 || into.dtype == SPYRE_DTYPE_BOOL))
        return status_new(SPYRE_UNSUPPORTED, "sums of %s", spyre_dtype_name(into.dtype));
    TRY(load_element_index(r, &x.view, &e));
    if (!is_number && source.view.rank != x.view.rank)
        return status_new(SPYRE_UNSUPPORTED, "a source of rank %u", source.view.rank);
    if (!adds && has_rows(&e.index.view, &x.view, e.dim))
        return scatter_rows(r, &x, &source, &e, &into);
    TRY(check_passes(&x.view, &e));
    TRY(prepare_hits(r, &x.view, &e));
    for (int64_t pass = 0; pass < e.index.view.size[e.dim]; pass++) {
        TRY(hits_of(r, &e, pass, &hits));
        written = source;
        if (!is_number) TRY(source_of(r, &e, &source, pass, &written));
        if (adds) TRY(make_binary(r, ATEN_SPYRE_ADD, &x, &written, NULL, &written));
        TRY(make_where(r, &hits, &written, &x, NULL, &x));
    }
    return rewrite_finish(r, &x, &into);
}
