// SPDX-License-Identifier: Apache-2.0
//
// Shape ops that move data.
#include "graph/rewrite/rewrite.h"

enum { MOST_REPEATS = 64 };

// Tensors of the list at argument 0 in the result's dtype, those without elements left out.
static spyre_status load_list(rewriter *r, spyre_dtype dtype, tensor **out_items,
                              uint32_t *out_count)
{
    const spyre_arg *list = r->from->arg_count ? &r->from->args[0] : NULL;
    if (!list || list->kind != SPYRE_ARG_LIST || list->of.list.count == 0) {
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 0: expected a list of tensors");
    }
    tensor *items = ARENA_NEW(r->target->memory, tensor, list->of.list.count);
    TRY_ALLOC(items);
    *out_items = items;
    *out_count = 0;
    for (uint32_t i = 0; i < list->of.list.count; i++) {
        const spyre_arg *arg = &list->of.list.items[i];
        tensor given;
        spyre_view view;
        if (arg->kind != SPYRE_ARG_VALUE) {
            return status_new(SPYRE_INVALID_ARGUMENT, "argument 0: item %u is no tensor", i);
        }
        TRY(status_at(
            graph_view_constant(r->target, &r->target->values.items[arg->of.value].view, &view),
            "operand %u", i));
        if (view_element_count(&view) == 0) continue;
        TRY(status_at(rewrite_value(r, arg->of.value, &given), "operand %u", i));
        TRY(status_at(make_cast(r, &given, dtype, NULL, &items[(*out_count)++]), "operand %u", i));
    }
    return *out_count ? NULL : status_new(SPYRE_UNSUPPORTED, "no operand has elements");
}

static spyre_status join(rewriter *r, bool along_new_dim)
{
    tensor *items = NULL, into;
    uint32_t count = 0, dim;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_dim(r, 1, 0, into.view.rank, &dim));
    TRY(load_list(r, into.dtype, &items, &count));
    for (uint32_t i = 0; along_new_dim && i < count; i++)
        TRY(make_unsqueeze(r, &items[i], dim, &items[i]));
    if (count == 1 && !along_new_dim) return make_copy(r, &items[0], &into, NULL);
    return make_cat(r, items, count, dim, &into, NULL);
}

spyre_status rewrite_cat(rewriter *r)
{
    return join(r, false);
}

spyre_status rewrite_stack(rewriter *r)
{
    return join(r, true);
}

// What the arguments make of a dim must be what the result's type says of it.
static spyre_status check_size(const tensor *into, uint32_t rank, uint32_t dim, bool overflow,
                               int64_t size)
{
    if (into->view.rank == rank && !overflow && into->view.size[dim] == size) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: does not give the result's dim %u", dim);
}

spyre_status rewrite_pad(rewriter *r)
{
    tensor x, into;
    graph_number value;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(graph_arg_number(r->source, r->node, 2, 0, &value));
    value = number_in(r, value, x.dtype);
    const spyre_arg *list = r->from->arg_count > 1 ? &r->from->args[1] : NULL;
    uint32_t count = list && list->kind == SPYRE_ARG_LIST ? list->of.list.count : 0;
    if (count % 2 != 0 || count / 2 > x.view.rank) {
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: %u paddings for rank %u", count,
                          x.view.rank);
    }
    for (uint32_t i = 0; i < count; i += 2) {
        const spyre_arg *pair = &list->of.list.items[i];
        if (pair[0].kind != SPYRE_ARG_INT || pair[1].kind != SPYRE_ARG_INT) {
            return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: expected ints");
        }
        int64_t before = pair[0].of.integer, after = pair[1].of.integer, size;
        uint32_t dim = x.view.rank - 1 - i / 2;
        bool overflow = __builtin_add_overflow(x.view.size[dim], before, &size) ||
                        __builtin_add_overflow(size, after, &size) || before == INT64_MIN ||
                        after == INT64_MIN;
        TRY(check_size(&into, x.view.rank, dim, overflow, size));
        TRY(make_padded(r, &x, dim, before, after, &value));
    }
    return rewrite_finish(r, &x, &into);
}

// x with its part that begins at `start` of `dim` replaced.
static spyre_status replace_part(rewriter *r, const tensor *x, const tensor *part, uint32_t dim,
                                 int64_t start, const tensor *into, tensor *out)
{
    int64_t end = start + part->view.size[dim], size = x->view.size[dim];
    tensor items[3];
    uint32_t count = 0;
    if (start > 0) TRY(make_slice(r, x, dim, 0, start, &items[count++]));
    items[count++] = *part;
    if (end < size) TRY(make_slice(r, x, dim, end, size - end, &items[count++]));
    if (count == 1) return make_copy(r, part, into, out);
    return make_cat(r, items, count, dim, into, out);
}

// Whether all that becomes of operand 0 is that parts of it are replaced.
static bool is_only_written(const rewriter *r)
{
    const uint32_t value = r->from->args[0].of.value;
    return r->uses[value] == r->part_writes[value];
}

// The same of operand 0. Of a cat its items stay, so that of several writes one after the other
// none copies what others leave.
static spyre_status write_part(rewriter *r, const tensor *x, const tensor *part, uint32_t dim,
                               int64_t start, const tensor *into)
{
    const int64_t end = start + part->view.size[dim], size = x->view.size[dim];
    piece_list pieces = {.count = 0};
    tensor there = *x;
    there.view.offset += start * x->view.stride[dim];
    there.view.size[dim] = part->view.size[dim];
    if (rewrite_same_elements(r, &there, part)) return rewrite_finish(r, x, into);
    if (!is_only_written(r)) return replace_part(r, x, part, dim, start, into, NULL);
    TRY(make_pieces(r, x, (part_of_dim){dim, 0, start}, &pieces));
    pieces.items[pieces.count++] = *part;
    TRY(make_pieces(r, x, (part_of_dim){dim, end, size - end}, &pieces));
    if (pieces.count == 1) return make_copy(r, part, into, NULL);
    return make_cat(r, pieces.items, pieces.count, dim, into, NULL);
}

// One index of every `step` of a dim, from `start` on.
typedef struct {
    uint32_t dim;
    int64_t start, step;
    bool gathers;           // what stays between them is gathered
} slice_steps;

// Whether the tensor is a graph's input, or a view of one, which lies as it came.
static bool is_of_input(const rewriter *r, uint32_t value)
{
    const graph_value *v = &r->target->values.items[value];
    const graph_node *node = v->node == SPYRE_NO_ID ? NULL : &r->target->nodes.items[v->node];
    if (!node) return true;
    return node->op == ATEN_SPYRE_VIEW && is_of_input(r, node->args[0].of.value);
}

static spyre_status take_columns(rewriter *r, const tensor *rows, const slice_steps *s,
                                 part_of_dim part, tensor *out)
{
    TRY(make_slice(r, rows, part.dim, part.start, part.length, out));
    return s->gathers ? rewrite_gather_across(r, out) : NULL;
}

// `rows` of `step` indices each, of which index `start` is replaced by `column`.
static spyre_status replace_column(rewriter *r, const tensor *rows, const tensor *column,
                                   const slice_steps *s, tensor *out)
{
    const uint32_t dim = s->dim + 1;
    const part_of_dim before = {dim, 0, s->start};
    const part_of_dim behind = {dim, s->start + 1, s->step - s->start - 1};
    tensor items[3];
    uint32_t count = 0;
    if (before.length > 0) TRY(take_columns(r, rows, s, before, &items[count++]));
    items[count++] = *column;
    if (behind.length > 0) TRY(take_columns(r, rows, s, behind, &items[count++]));
    return make_cat(r, items, count, dim, NULL, out);
}

// x, whose dim is as many rows of `step` indices as the part has, with index `start` of each row
// replaced.
static spyre_status replace_in_rows(rewriter *r, const tensor *x, const tensor *part,
                                    const slice_steps *s, tensor *out)
{
    spyre_view rows = {.rank = x->view.rank + 1, .offset = x->view.offset};
    tensor grouped, column, whole;
    if (rows.rank > SPYRE_MAX_RANK)
        return status_new(SPYRE_UNSUPPORTED, "a slice of step %lld of rank %u", (long long)s->step,
                          x->view.rank);
    for (uint32_t i = 0; i < rows.rank; i++) {
        uint32_t from = i > s->dim ? i - 1 : i;
        rows.size[i] = i == s->dim       ? part->view.size[s->dim]
                       : i == s->dim + 1 ? s->step
                                         : x->view.size[from];
        rows.stride[i] = x->view.stride[from] * (i == s->dim ? s->step : 1);
    }
    TRY(make_view(r, x, &rows, NULL, &grouped));
    TRY(make_unsqueeze(r, part, s->dim + 1, &column));
    TRY(replace_column(r, &grouped, &column, s, &whole));
    return make_reshape(r, &whole, x->view.size, x->view.rank, out);
}

// x with these indices replaced. Rows of `step` indices may begin in front of the first one; where
// none fits around the last index, that one is replaced by itself. An input's rows that no number
// of steps fills have no loops of their own.
static spyre_status replace_every(rewriter *r, const tensor *x, const tensor *part, slice_steps s,
                                  const tensor *into)
{
    const int64_t step = s.step, start = s.start;
    int64_t count = part->view.size[s.dim], size = x->view.size[s.dim];
    int64_t first = start < step ? 0 : start - step + 1, last = size - count * step;
    bool all = first <= last;
    int64_t rows = all ? count : count - 1, begin = all && last < start ? last : start;
    tensor between, middle, head, whole, tail;
    s.start = start - begin;
    s.gathers = size % step != 0 && is_of_input(r, x->value);
    TRY(make_slice(r, x, s.dim, begin, rows * step, &between));
    TRY(make_slice(r, part, s.dim, 0, rows, &head));
    TRY(replace_in_rows(r, &between, &head, &s, &middle));
    if (rows * step == size) return rewrite_finish(r, &middle, into);
    if (all) return replace_part(r, x, &middle, s.dim, begin, into, NULL);
    TRY(replace_part(r, x, &middle, s.dim, begin, NULL, &whole));
    TRY(make_slice(r, part, s.dim, rows, 1, &tail));
    return replace_part(r, &whole, &tail, s.dim, start + rows * step, into, NULL);
}

// An end of a slice as PyTorch counts it: from the back when negative, cut to the dim.
static spyre_status slice_end(const rewriter *r, uint32_t index, int64_t fallback, int64_t size,
                              int64_t *out)
{
    TRY(graph_arg_int(r->source, r->node, index, fallback, out));
    if (*out < 0) *out += size;
    *out = *out < 0 ? 0 : *out > size ? size : *out;
    return NULL;
}

// The tensor whose part is replaced, and the dim of the part.
static spyre_status load_whole(rewriter *r, tensor *x, tensor *into, uint32_t *dim)
{
    TRY(rewrite_result(r, 0, into));
    TRY(rewrite_operand(r, 0, into->dtype, x));
    TRY(rewrite_dim(r, 2, 0, x->view.rank, dim));
    if (view_same_sizes(&x->view, &into->view)) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "operand 0: sizes that are not the result's");
}

spyre_status rewrite_slice_scatter(rewriter *r)
{
    tensor x, part, into;
    uint32_t dim;
    int64_t start, end, step;
    TRY(load_whole(r, &x, &into, &dim));
    int64_t size = x.view.size[dim];
    TRY(slice_end(r, 3, 0, size, &start));
    TRY(slice_end(r, 4, INT64_MAX, size, &end));
    TRY(graph_arg_int(r->source, r->node, 5, 1, &step));
    if (end <= start) return make_copy(r, &x, &into, NULL);
    TRY(rewrite_operand(r, 1, into.dtype, &part));
    if (part.view.rank != x.view.rank) {
        return status_new(SPYRE_INVALID_ARGUMENT, "operand 1: rank %u into rank %u", part.view.rank,
                          x.view.rank);
    }
    if (step < 1 || part.view.size[dim] != (end - start - 1) / step + 1) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "operand 1: %lld indices into a slice of %lld by step %lld",
                          (long long)part.view.size[dim], (long long)(end - start),
                          (long long)step);
    }
    if (part.view.size[dim] > 1 && step > 1)
        return replace_every(r, &x, &part, (slice_steps){dim, start, step, false}, &into);
    return write_part(r, &x, &part, dim, start, &into);
}

spyre_status rewrite_select_scatter(rewriter *r)
{
    tensor x, part, into;
    uint32_t dim;
    int64_t index;
    TRY(load_whole(r, &x, &into, &dim));
    int64_t size = x.view.size[dim];
    TRY(rewrite_operand(r, 1, into.dtype, &part));
    TRY(graph_arg_int(r->source, r->node, 3, 0, &index));
    if (index < -size || index >= size) {
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 3: index %lld of a dim of %lld",
                          (long long)index, (long long)size);
    }
    TRY(make_unsqueeze(r, &part, dim, &part));
    return write_part(r, &x, &part, dim, index < 0 ? index + size : index, &into);
}

// Along each dim from `dim` to the one before `end`: both parts of a dim are rolled along the later
// ones before they change places, so that each element is copied once.
static spyre_status roll_dims(rewriter *r, tensor *x, uint32_t dim, uint32_t end,
                              const int64_t *shifts)
{
    tensor parts[2];
    while (dim < end && shifts[dim] == 0) dim++;
    if (dim == end) return NULL;
    int64_t size = x->view.size[dim], shift = shifts[dim];
    TRY(make_slice(r, x, dim, size - shift, shift, &parts[0]));
    TRY(make_slice(r, x, dim, 0, size - shift, &parts[1]));
    for (uint32_t n = 0; n < 2; n++) TRY(roll_dims(r, &parts[n], dim + 1, end, shifts));
    return make_cat(r, parts, 2, dim, NULL, x);
}

// Over the first `count` dims as if they were one: a row takes its first elements from the row
// before the one that it takes the others from.
static spyre_status roll_rows(rewriter *r, tensor *x, uint32_t count, int64_t shift)
{
    if (count == 0) return NULL;
    uint32_t dim = count - 1;
    int64_t size = x->view.size[dim], rest = shift % size, rows = shift / size;
    if (rest < 0) rest += size, rows--;
    tensor parts[2];
    if (rest == 0) return roll_rows(r, x, dim, rows);
    TRY(make_slice(r, x, dim, size - rest, rest, &parts[0]));
    TRY(make_slice(r, x, dim, 0, size - rest, &parts[1]));
    for (uint32_t n = 0; n < 2; n++) TRY(roll_rows(r, &parts[n], dim, rows + 1 - n));
    return make_cat(r, parts, 2, dim, NULL, x);
}

// Without dims all elements are one dim.
spyre_status rewrite_roll(rewriter *r)
{
    tensor x, into;
    int64_t shifts[SPYRE_MAX_RANK], dims[SPYRE_MAX_RANK], along[SPYRE_MAX_RANK] = {0};
    uint32_t count, dim_count;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(graph_arg_ints(r->source, r->node, 1, shifts, &count));
    TRY(graph_arg_ints(r->source, r->node, 2, dims, &dim_count));
    if (dim_count == 0 && count == 1) {
        TRY(roll_rows(r, &x, x.view.rank, shifts[0]));
        return rewrite_finish(r, &x, &into);
    }
    if (count != dim_count) {
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: %u shifts for %u dims", count,
                          dim_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t d = dims[i] < 0 ? dims[i] + x.view.rank : dims[i];
        if (d < 0 || d >= x.view.rank) {
            return status_new(SPYRE_INVALID_ARGUMENT, "argument 2: dim %lld of rank %u",
                              (long long)dims[i], x.view.rank);
        }
        int64_t size = x.view.size[d];
        if (size) along[d] = ((along[d] + shifts[i] % size) % size + size) % size;
    }
    // The last dim, along which sticks may be cut, by itself.
    uint32_t last = x.view.rank ? x.view.rank - 1 : 0;
    TRY(roll_dims(r, &x, 0, last, along));
    TRY(roll_dims(r, &x, last, x.view.rank, along));
    return rewrite_finish(r, &x, &into);
}

// Along each dim what lies at the last, the one before it, ..
spyre_status rewrite_flip(rewriter *r)
{
    tensor x, into, count, last;
    int64_t dims[SPYRE_MAX_RANK];
    uint32_t dim_count;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_separate(r, 0, &x));
    TRY(graph_arg_ints(r->source, r->node, 1, dims, &dim_count));
    for (uint32_t i = 0; i < dim_count; i++) {
        const int64_t rank = x.view.rank ? x.view.rank : 1;     // a number has a dim 0
        int64_t d = dims[i] < 0 ? dims[i] + rank : dims[i];
        if (d < 0 || d >= rank)
            return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: dim %lld of rank %u",
                              (long long)dims[i], x.view.rank);
        int64_t size = x.view.rank ? x.view.size[d] : 1;
        if (size == 1) continue;
        TRY(make_count(r, size, &count));
        TRY(make_constant(r, (double)(size - 1), count.dtype, &last));
        TRY(make_binary(r, ATEN_SPYRE_SUB, &last, &count, NULL, &count));
        TRY(make_column(r, &count, (uint32_t)d, x.view.rank, &count));
        TRY(make_take(r, &x, &count, (uint32_t)d, NULL, &x));
    }
    return rewrite_finish(r, &x, &into);
}

// New leading dims and dims of size 1 repeat by stride 0; others are put behind one another.
spyre_status rewrite_repeat(rewriter *r)
{
    tensor x, into;
    int64_t repeats[SPYRE_MAX_RANK];
    uint32_t count;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_tensor(r, 0, &x));
    TRY(graph_arg_ints(r->source, r->node, 1, repeats, &count));
    if (count < x.view.rank) {
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: %u repeats for rank %u", count,
                          x.view.rank);
    }
    while (x.view.rank < count) TRY(make_unsqueeze(r, &x, 0, &x));
    for (uint32_t i = 0; i < count; i++) {
        tensor items[MOST_REPEATS];
        int64_t size;
        bool overflow = __builtin_mul_overflow(x.view.size[i], repeats[i], &size);
        TRY(check_size(&into, count, i, overflow, size));
        if (repeats[i] < 2) continue;
        if (x.view.size[i] == 1) {
            spyre_view view = x.view;
            view.size[i] = repeats[i];
            view.stride[i] = 0;
            TRY(make_view(r, &x, &view, NULL, &x));
            continue;
        }
        if (repeats[i] > MOST_REPEATS) {
            return status_new(SPYRE_UNSUPPORTED, "%lld repeats, at most %d are supported",
                              (long long)repeats[i], MOST_REPEATS);
        }
        for (int64_t k = 0; k < repeats[i]; k++) items[k] = x;
        TRY(make_cat(r, items, (uint32_t)repeats[i], i, NULL, &x));
    }
    return rewrite_finish(r, &x, &into);
}
