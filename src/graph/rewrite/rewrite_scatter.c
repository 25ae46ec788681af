// SPDX-License-Identifier: Apache-2.0
//
// Writing at indices of one dim, of rows or of single elements, by the card's scattered store,
// which costs what it writes; and joining there what comes to what is there, one after the other.
#include <string.h>

#include "graph/rewrite/rewrite.h"

typedef struct {
    tensor whole, source; // as many dims; the source broadcasts
    tensor index;         // [K], negative ones already wrapped
    uint32_t dim;         // of `whole`
    opfunc accumulator;   // SUM, PROD, MAX or MIN; NONE: the source replaces
    bool forgets;         // what is there does not count where something comes
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

// What joins any number of the dtype without a change.
static double neutral_of(const scatter *s)
{
    bool is_integer = s->whole.dtype == SPYRE_DTYPE_I64 || s->whole.dtype == SPYRE_DTYPE_I32;
    if (s->whole.dtype == SPYRE_DTYPE_BOOL)
        return s->accumulator == OPFUNC_PROD || s->accumulator == OPFUNC_MIN;
    if (s->accumulator == OPFUNC_MAX && is_integer) return INT32_MIN;
    if (s->accumulator == OPFUNC_MIN && is_integer) return INT32_MAX;
    return (double)opfunc_reduction_identity(s->accumulator);
}

// The neutral number where something comes: all over the only place of a dim.
static spyre_status forget_named(rewriter *r, scatter *s)
{
    tensor neutral;
    if (!s->forgets) return NULL;
    s->forgets = false;
    if (s->whole.view.size[s->dim] == 1)
        return make_full(r, neutral_of(s), s->whole.dtype, &s->whole.view, NULL, &s->whole);
    TRY(make_constant(r, neutral_of(s), s->whole.dtype, &neutral));
    for (uint32_t i = 0; i < s->whole.view.rank; i++) TRY(make_unsqueeze(r, &neutral, 0, &neutral));
    return make_scatter(r, &s->whole, &s->index, &neutral, s->dim, NULL, &s->whole);
}

// rows = what each source row makes of the row that its last one takes, in the dtype that adds up.
static spyre_status join_apart(rewriter *r, const scatter *s, const tensor *last, tensor *rows)
{
    const spyre_dtype dtype = s->whole.dtype;
    tensor source = s->source;
    if (!aten_is_narrow(dtype))
        return make_accumulated(r, s->accumulator, rows, last, &source, s->dim, NULL, rows);
    TRY(make_cast(r, rows, SPYRE_DTYPE_I32, NULL, rows));
    TRY(make_cast(r, &source, SPYRE_DTYPE_I32, NULL, &source));
    TRY(make_accumulated(r, s->accumulator, rows, last, &source, s->dim, NULL, rows));
    return make_cast(r, rows, dtype, NULL, rows);
}

// Which of equal indices is the last one, for each.
static spyre_status make_last(rewriter *r, const scatter *s, tensor *out)
{
    int64_t size = s->whole.view.size[s->dim], count = s->index.view.size[0];
    spyre_view places = view_contiguous(&size, 1);
    tensor number;
    TRY(make_count(r, count, &number));
    TRY(make_full(r, 0, number.dtype, &places, NULL, out));
    TRY(make_scatter(r, out, &s->index, &number, 0, NULL, out));
    return make_take(r, out, &s->index, 0, NULL, out);
}

// Into few of many rows: those that are named are joined in float32, or int32, by themselves. Of
// equal indices the last one's row takes all, and is the one that stays.
static spyre_status join_few_rows(rewriter *r, const scatter *s, const tensor *into, tensor *out)
{
    const int64_t count = s->index.view.size[0];
    tensor last, rows, at;
    TRY(make_last(r, s, &last));
    TRY(make_column(r, &s->index, s->dim, s->whole.view.rank, &at));
    if (s->forgets) {
        spyre_view sizes = s->whole.view;
        sizes.size[s->dim] = count;
        TRY(make_full(r, neutral_of(s), s->whole.dtype, &sizes, NULL, &rows));
    } else {
        TRY(make_named_rows(r, s, &at, &rows));
    }
    TRY(join_apart(r, s, &last, &rows));
    return make_scatter(r, &s->whole, &s->index, &rows, s->dim, into, out);
}

// What adds up in another dtype than the whole has.
static bool joins_apart(const scatter *s)
{
    const bool adds = s->accumulator == OPFUNC_SUM || s->accumulator == OPFUNC_PROD;
    return accumulation_widens(s->accumulator, s->whole.dtype) ||
           (adds && aten_is_narrow(s->whole.dtype));
}

// Less than a third of a large whole; of more, all of it takes fewer kernels.
static bool are_few(const tensor *whole, uint32_t dim, int64_t rows)
{
    enum { LARGE = 1 << 16 };
    int64_t size = whole->view.size[dim], elements = view_element_count(&whole->view);
    return elements > size && elements >= LARGE && rows < size / 3;
}

static bool names_few(const scatter *s)
{
    return s->index.view.rank == 1 && are_few(&s->whole, s->dim, s->index.view.size[0]);
}

static spyre_status write_rows(rewriter *r, scatter *s, const tensor *into, tensor *out)
{
    if (s->accumulator == OPFUNC_NONE)
        return make_scatter(r, &s->whole, &s->index, &s->source, s->dim, into, out);
    if (joins_apart(s) && names_few(s)) return join_few_rows(r, s, into, out);
    TRY(forget_named(r, s));
    return make_accumulated(r, s->accumulator, &s->whole, &s->index, &s->source, s->dim, into, out);
}

// The dim of `whole` and the index into it.
static spyre_status load_index(rewriter *r, uint32_t value, scatter *s)
{
    TRY(rewrite_value(r, value, &s->index));
    if (s->whole.view.rank == 0) return status_new(SPYRE_UNSUPPORTED, "indices into rank 0");
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
    scatter s = {.accumulator = OPFUNC_NONE};
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
    return write_rows(r, &s, &into, NULL);
}

// Of index_put: the indices and their dims.
static spyre_status load_indices(rewriter *r, const scatter *s, indices *out)
{
    const spyre_arg *list = r->from->arg_count > 1 ? &r->from->args[1] : NULL;
    scatter one = *s;
    out->count = 0;
    if (!list || list->kind != SPYRE_ARG_LIST || list->of.list.count > s->whole.view.rank) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "argument 1: expected a list of at most %u tensors", s->whole.view.rank);
    }
    for (uint32_t i = 0; i < list->of.list.count; i++) {
        if (list->of.list.items[i].kind != SPYRE_ARG_VALUE) continue;
        TRY(load_index(r, list->of.list.items[i].of.value, &one));
        out->dim[out->count] = i;
        out->items[out->count++] = one.index;
    }
    if (out->count > 0) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: no tensor");
}

// The indexed dims of the whole side by side; those that are apart go to the front.
static spyre_status bring_together(rewriter *r, tensor *whole, indices *all, uint32_t *order)
{
    uint32_t count = 0, first = all->dim[0];
    bool indexed[SPYRE_MAX_RANK] = {false};
    bool adjoining = all->dim[all->count - 1] - first + 1 == all->count;
    for (uint32_t i = 0; i < all->count; i++) indexed[all->dim[i]] = true;
    for (uint32_t i = 0; adjoining && i < first; i++) order[count++] = i;
    for (uint32_t i = 0; i < all->count; i++) order[count++] = all->dim[i];
    for (uint32_t i = adjoining ? first : 0; i < whole->view.rank; i++)
        if (!indexed[i]) order[count++] = i;
    for (uint32_t i = 0; i < all->count; i++) all->dim[i] = (adjoining ? first : 0) + i;
    spyre_view view = view_permute(&whole->view, order);
    return make_view(r, whole, &view, NULL, whole);
}

// The whole with its indexed dims as one, of rows or of all elements, and one index into that.
static spyre_status join_dims(rewriter *r, const indices *all, scatter *s)
{
    const spyre_view view = s->whole.view;
    int64_t sizes[SPYRE_MAX_RANK], joined = 1;
    uint32_t first = all->dim[0], rank = view.rank - all->count + 1;
    s->dim = first;
    if (all->count == view.rank)
        return make_numbered_elements(r, &s->whole, all, &s->whole, &s->index);
    for (uint32_t i = 0; i < all->count; i++) joined *= view.size[first + i];
    for (uint32_t i = 0; i < rank; i++)
        sizes[i] = i == first ? joined : view.size[i < first ? i : i + all->count - 1];
    TRY(make_joined_index(r, all, &view, &s->index));
    return make_reshape(r, &s->whole, sizes, rank, &s->whole);
}

// The result of such a whole; lines of elements may be longer than those of `sizes` are.
static spyre_status split_dims(rewriter *r, const spyre_view *sizes, const uint32_t *order,
                               tensor *x)
{
    int64_t wide[SPYRE_MAX_RANK];
    uint32_t rank = sizes->rank, place[SPYRE_MAX_RANK];
    int64_t surplus = view_element_count(&x->view) - view_element_count(sizes);
    memcpy(wide, sizes->size, sizeof wide);
    wide[rank - 1] += surplus / (view_element_count(sizes) / wide[rank - 1]);
    TRY(make_reshape(r, x, wide, rank, x));
    if (surplus) TRY(make_slice(r, x, rank - 1, 0, sizes->size[rank - 1], x));
    for (uint32_t i = 0; i < rank; i++) place[order[i]] = i;
    spyre_view view = view_permute(&x->view, place);
    return make_view(r, x, &view, NULL, x);
}

// Indices of several dims: those dims become one. `s` is of the whole with all dims.
static spyre_status put_joined(rewriter *r, scatter *s, indices *all, const tensor *into,
                               tensor *out)
{
    uint32_t order[SPYRE_MAX_RANK];
    TRY(bring_together(r, &s->whole, all, order));
    const spyre_view sizes = s->whole.view;
    TRY(join_dims(r, all, s));
    TRY(load_joined_source(r, 2, into, s));
    TRY(write_rows(r, s, NULL, out));
    return split_dims(r, &sizes, order, out);
}

// An index that names few of its dim's rows; as many as there are indices: none does.
static uint32_t find_few(const tensor *whole, const indices *all)
{
    uint32_t n = 0;
    while (n < all->count &&
           !are_few(whole, all->dim[n], view_element_count(&all->items[n].view)))
        n++;
    return n;
}

// The rows that index `n` names are written by themselves, and come back: of equal ones the last
// one's row takes all. So a write costs what there is of these rows, not of the whole.
static spyre_status put_into_rows(rewriter *r, const scatter *s, indices *all, uint32_t n,
                                  const tensor *into)
{
    scatter named = *s, rows = *s;
    tensor *index = &all->items[n], at, written;
    const spyre_view sizes = index->view;
    const int64_t count = view_element_count(&sizes);
    named.dim = all->dim[n];
    TRY(make_wrapped_index(r, index, s->whole.view.size[named.dim], index));
    TRY(make_reshape(r, index, &count, 1, &named.index));
    TRY(make_last(r, &named, index));
    TRY(make_reshape(r, index, sizes.size, sizes.rank, index));
    TRY(make_column(r, &named.index, named.dim, s->whole.view.rank, &at));
    TRY(make_named_rows(r, &named, &at, &rows.whole));
    TRY(put_joined(r, &rows, all, into, &written));
    return make_scatter(r, &s->whole, &named.index, &written, named.dim, into, NULL);
}

// index_put(x, [none, .., index, ..], source, accumulate)
spyre_status rewrite_index_put(rewriter *r)
{
    scatter s = {.accumulator = OPFUNC_NONE};
    indices all;
    index_pair pair;
    tensor into, written;
    bool accumulates;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &s.whole));
    TRY(graph_arg_bool(r->source, r->node, 3, false, &accumulates));
    if (accumulates) s.accumulator = OPFUNC_SUM;
    TRY(load_indices(r, &s, &all));
    if (all.count == 1) {
        TRY(make_joined_index(r, &all, &s.whole.view, &s.index));
        s.dim = all.dim[0];
        TRY(load_joined_source(r, 2, &into, &s));
        return write_rows(r, &s, &into, NULL);
    }
    if (indices_are_paired(r, &s.whole, &all, &pair)) {
        s.dim = pair.chosen;
        TRY(rewrite_operand(r, 2, into.dtype, &s.source));
        TRY(make_paired_rows(r, &s.whole, &pair, &s.source, &s.index));
        return write_rows(r, &s, &into, NULL);
    }
    const uint32_t few = find_few(&s.whole, &all);
    if (few < all.count) return put_into_rows(r, &s, &all, few, &into);
    TRY(put_joined(r, &s, &all, &into, &written));
    return rewrite_finish(r, &written, &into);
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
    TRY(make_view(r, out, &view, NULL, out));
    int64_t count = view.size[*out_dim];
    if (view_element_count(&view) > count || whole->rank == 1) return NULL;
    return make_reshape(r, out, &count, 1, out);
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

static spyre_status load_elements(rewriter *r, const tensor *into, scatter *s)
{
    TRY(rewrite_operand(r, 0, into->dtype, &s->whole));
    TRY(rewrite_stored(r, 3, into->dtype, &s->source));
    TRY(load_element_index(r, &s->whole.view, &s->dim, &s->index));
    if (r->from->op == ATEN_SCATTER_VALUE) return NULL;
    int64_t count = s->index.view.size[s->index.view.rank == 1 ? 0 : s->dim];
    return slice_source(r, &s->whole.view, s->dim, count, &s->source);
}

// scatter(x, dim, index, source or number), scatter_add(x, dim, index, source)
spyre_status rewrite_scatter_elements(rewriter *r)
{
    scatter s = {.accumulator = OPFUNC_NONE};
    tensor into;
    TRY(rewrite_result(r, 0, &into));
    if (r->from->op == ATEN_SCATTER_ADD) s.accumulator = OPFUNC_SUM;
    TRY(load_elements(r, &into, &s));
    return write_rows(r, &s, &into, NULL);
}

// How many there are at each place, what was there included unless it is forgotten: 1 elsewhere.
// As large as the whole, or of rows a number each.
static spyre_status count_joined(rewriter *r, const scatter *s, spyre_dtype dtype, tensor *out)
{
    scatter counts = *s;
    spyre_view sizes = s->whole.view;
    bool of_rows = s->index.view.rank == 1;
    if (sizes.size[s->dim] == 1) {
        int64_t count = s->index.view.size[of_rows ? 0 : s->dim];
        return make_constant(r, (double)(s->forgets ? count : count + 1), dtype, out);
    }
    if (of_rows)
        sizes = view_contiguous(&s->whole.view.size[s->dim], 1), counts.dim = 0;
    counts.accumulator = OPFUNC_SUM;
    TRY(make_full(r, 1, dtype, &sizes, NULL, &counts.whole));
    TRY(make_constant(r, 1, dtype, &counts.source));
    for (uint32_t i = 0; i < sizes.rank; i++)
        TRY(make_unsqueeze(r, &counts.source, 0, &counts.source));
    TRY(forget_named(r, &counts));
    TRY(make_accumulated(r, OPFUNC_SUM, &counts.whole, &counts.index, &counts.source, counts.dim,
                         NULL, out));
    return of_rows ? make_column(r, out, s->dim, s->whole.view.rank, out) : NULL;
}

// Sums in float32 over counts; of integers the floor of the quotient.
static spyre_status write_means(rewriter *r, scatter *s, const tensor *into)
{
    tensor counts, sums;
    bool is_integer = s->whole.dtype == SPYRE_DTYPE_I64 || s->whole.dtype == SPYRE_DTYPE_I32;
    spyre_dtype dtype = is_integer ? s->whole.dtype : SPYRE_DTYPE_F32;
    if (r->widens || aten_is_narrow(into->dtype) || into->dtype == SPYRE_DTYPE_BOOL)
        return status_new(SPYRE_UNSUPPORTED, "means of %s", spyre_dtype_name(into->dtype));
    TRY(count_joined(r, s, dtype, &counts));
    TRY(make_cast(r, &s->whole, dtype, NULL, &s->whole));
    TRY(make_cast(r, &s->source, dtype, NULL, &s->source));
    TRY(forget_named(r, s));
    TRY(make_accumulated(r, OPFUNC_SUM, &s->whole, &s->index, &s->source, s->dim, NULL, &sums));
    if (is_integer) return make_binary(r, ATEN_SPYRE_FLOORDIV, &sums, &counts, into, NULL);
    if (into->dtype == dtype)
        return make_binary(r, ATEN_SPYRE_REALDIV, &sums, &counts, into, NULL);
    TRY(make_binary(r, ATEN_SPYRE_REALDIV, &sums, &counts, NULL, &sums));
    return make_cast(r, &sums, into->dtype, into, NULL);
}

static spyre_status load_accumulator(const rewriter *r, uint32_t index, opfunc *out, bool *out_mean)
{
    static const struct {
        const char *name;
        opfunc accumulator;
    } names[] = {{"sum", OPFUNC_SUM},  {"mean", OPFUNC_SUM}, {"prod", OPFUNC_PROD},
                 {"amax", OPFUNC_MAX}, {"amin", OPFUNC_MIN}};
    const spyre_arg *arg = r->from->arg_count > index ? &r->from->args[index] : NULL;
    if (!arg || arg->kind != SPYRE_ARG_STRING)
        return status_new(SPYRE_INVALID_ARGUMENT, "argument %u: expected a string", index);
    *out_mean = strcmp(arg->of.string, "mean") == 0;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        *out = names[i].accumulator;
        if (strcmp(arg->of.string, names[i].name) == 0) return NULL;
    }
    return status_new(SPYRE_UNSUPPORTED, "a reduction '%s'", arg->of.string);
}

// scatter_reduce(x, dim, index, source, reduce, include_self)
spyre_status rewrite_scatter_reduce(rewriter *r)
{
    scatter s = {.accumulator = OPFUNC_NONE};
    tensor into;
    bool includes, is_mean = false;
    TRY(rewrite_result(r, 0, &into));
    TRY(load_accumulator(r, 4, &s.accumulator, &is_mean));
    TRY(graph_arg_bool(r->source, r->node, 5, true, &includes));
    s.forgets = !includes;
    TRY(load_elements(r, &into, &s));
    return is_mean ? write_means(r, &s, &into) : write_rows(r, &s, &into, NULL);
}
