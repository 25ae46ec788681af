// SPDX-License-Identifier: Apache-2.0
//
// Reading at indices. Along one dim an element each is taken (spyre.take). The card gathers rows of
// a table of rank 2, so several dims that are indexed go to the front and become one, and so do the
// others; several indices become the number of a row, or of an element of all. An
// index that is out of its dim must stay one that is out of the table: the card faults there, and a
// sum of indices could hide it.
#include "graph/rewrite/rewrite.h"

// Integers are multiplied through float32, which has each of these.
enum { MOST_ROWS = 1 << 24 };

enum { STICK = 64 };

spyre_status make_wrapped_index(rewriter *r, const tensor *index, int64_t rows, tensor *out)
{
    tensor below, sign, step;
    TRY(make_with(r, ATEN_SPYRE_MINIMUM, index, 0, NULL, &below));
    TRY(make_with(r, ATEN_SPYRE_MAXIMUM, &below, -1, NULL, &sign));
    TRY(make_with(r, ATEN_SPYRE_MUL, &sign, (double)rows, NULL, &step));
    return make_binary(r, ATEN_SPYRE_SUB, index, &step, NULL, out);
}

// One index a dim of the table.
typedef struct {
    tensor items[SPYRE_MAX_RANK];
    uint32_t count;
    uint32_t dim[SPYRE_MAX_RANK]; // of the table, ascending
    bool wraps;                   // negative ones count from the end
} indices;

// row * size + index; where the index is not in [0, size) a number beyond all `rows`.
static spyre_status add_index(rewriter *r, const tensor *row, const tensor *index, int64_t size,
                              int64_t rows, tensor *out)
{
    tensor raised, inside, over, under, outside, flag, penalty, scaled, sum;
    TRY(make_with(r, ATEN_SPYRE_MAXIMUM, index, 0, NULL, &raised));
    TRY(make_with(r, ATEN_SPYRE_MINIMUM, &raised, (double)(size - 1), NULL, &inside));
    TRY(make_binary(r, ATEN_SPYRE_SUB, index, &inside, NULL, &over));
    TRY(make_binary(r, ATEN_SPYRE_SUB, &inside, index, NULL, &under));
    TRY(make_binary(r, ATEN_SPYRE_MAXIMUM, &over, &under, NULL, &outside));
    TRY(make_with(r, ATEN_SPYRE_MINIMUM, &outside, 1, NULL, &flag));
    TRY(make_with(r, ATEN_SPYRE_MUL, &flag, (double)rows, NULL, &penalty));
    TRY(make_with(r, ATEN_SPYRE_MUL, row, (double)size, NULL, &scaled));
    TRY(make_binary(r, ATEN_SPYRE_ADD, &inside, &penalty, NULL, &sum));
    return make_binary(r, ATEN_SPYRE_ADD, &scaled, &sum, NULL, out);
}

// The number of a row of the table whose indexed dims are in front and joined.
static spyre_status join_indices(rewriter *r, const indices *all, const spyre_view *table,
                                 tensor *out)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < all->count; i++) rows *= table->size[all->dim[i]];
    if (all->count > 1 && rows > MOST_ROWS) {
        return status_new(SPYRE_UNSUPPORTED, "%u indices into %lld rows, at most %d are supported",
                          all->count, (long long)rows, MOST_ROWS);
    }
    for (uint32_t i = 0; i < all->count; i++) {
        int64_t size = table->size[all->dim[i]];
        tensor index = all->items[i];
        if (i > 0) TRY(make_cast(r, &index, out->dtype, NULL, &index));
        if (all->wraps) TRY(make_wrapped_index(r, &index, size, &index));
        if (i == 0)
            *out = index;
        else
            TRY(add_index(r, out, &index, size, rows, out));
    }
    return NULL;
}

// The stick of a line that an index is in and its place there: floor(index / 64) and the rest. An
// index beyond a line of `count` elements gives a stick beyond the line's.
static spyre_status split_index(rewriter *r, const tensor *index, int64_t count, tensor *stick,
                                tensor *place)
{
    tensor number = *index, beyond, flag, penalty, wide, whole, first;
    if (count % STICK != 0) {
        TRY(make_with(r, ATEN_SPYRE_SUB, index, (double)(count - 1), NULL, &beyond));
        TRY(make_with(r, ATEN_SPYRE_MAXIMUM, &beyond, 0, NULL, &beyond));
        TRY(make_with(r, ATEN_SPYRE_MINIMUM, &beyond, 1, NULL, &flag));
        TRY(make_with(r, ATEN_SPYRE_MUL, &flag, STICK, NULL, &penalty));
        TRY(make_binary(r, ATEN_SPYRE_ADD, index, &penalty, NULL, &number));
    }
    TRY(make_cast(r, &number, SPYRE_DTYPE_F32, NULL, &wide));
    TRY(make_with(r, ATEN_SPYRE_MUL, &wide, 1.0 / STICK, NULL, &wide));
    TRY(make_unary(r, ATEN_SPYRE_FLOOR, &wide, NULL, &whole));
    TRY(make_cast(r, &whole, index->dtype, NULL, stick));
    TRY(make_with(r, ATEN_SPYRE_MUL, stick, STICK, NULL, &first));
    return make_binary(r, ATEN_SPYRE_SUB, &number, &first, NULL, place);
}

// The sticks of the table's lines as one vector: all first sticks, then all second ones, which is
// how they lie on the card.
static spyre_status line_up_sticks(rewriter *r, const tensor *table, tensor *out)
{
    const graph_number zero = {.value = 0};
    tensor filled = *table;
    uint32_t last = table->view.rank - 1;
    int64_t missing = (STICK - table->view.size[last] % STICK) % STICK;
    TRY(make_padded(r, &filled, last, 0, missing, &zero));
    spyre_view sticks = filled.view;
    sticks.rank++;
    for (uint32_t i = 0; i < last; i++) {
        sticks.size[i + 1] = filled.view.size[i];
        sticks.stride[i + 1] = filled.view.stride[i];
    }
    sticks.size[0] = filled.view.size[last] / STICK;
    sticks.stride[0] = filled.view.stride[last] * STICK;
    sticks.size[last + 1] = STICK;
    sticks.stride[last + 1] = filled.view.stride[last];
    const int64_t elements = view_element_count(&sticks);
    TRY(make_view(r, &filled, &sticks, NULL, out));
    TRY(make_copy(r, out, NULL, out));
    return make_reshape(r, out, &elements, 1, out);
}

// Single elements, an index a dim; the result has the sizes of the indices. Lines of sticks follow
// each other in memory, so each element of them all has a number.
static spyre_status gather_elements(rewriter *r, const tensor *table, const indices *all,
                                    tensor *out)
{
    uint32_t rank = table->view.rank, last = rank - 1;
    int64_t length = table->view.size[last];
    indices sticks = {.count = rank};
    tensor elements, place, index, row;
    spyre_view lines = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        index = all->items[i];
        if (all->wraps) TRY(make_wrapped_index(r, &index, table->view.size[i], &index));
        uint32_t to = (i + 1) % rank;
        sticks.items[to] = index;
        sticks.dim[to] = to;
        lines.size[to] = table->view.size[i];
    }
    if (rank == 1) return make_take(r, table, &index, 0, NULL, out);
    lines.size[0] = (length + STICK - 1) / STICK;
    TRY(line_up_sticks(r, table, &elements));
    TRY(split_index(r, &index, length, &sticks.items[0], &place));
    TRY(join_indices(r, &sticks, &lines, &row));
    TRY(make_with(r, ATEN_SPYRE_MUL, &row, STICK, NULL, &row));
    TRY(make_binary(r, ATEN_SPYRE_ADD, &row, &place, NULL, &row));
    return make_take(r, &elements, &row, 0, NULL, out);
}

spyre_status make_gathered_elements(rewriter *r, const tensor *table, const tensor *index,
                                    tensor *out)
{
    indices all = {.count = table->view.rank};
    for (uint32_t i = 0; i < all.count; i++) {
        all.items[i] = index[i];
        all.dim[i] = i;
    }
    return gather_elements(r, table, &all, out);
}

// Whether gather_elements() takes the table, whose dims all have an index.
static bool has_elements(const tensor *table, const indices *all)
{
    bool fits = table->view.rank < SPYRE_MAX_RANK;
    int64_t length = table->view.rank ? table->view.size[table->view.rank - 1] : 0;
    for (uint32_t i = 0; i < all->count; i++) fits &= all->items[i].view.rank < SPYRE_MAX_RANK;
    return fits && all->count == table->view.rank && length <= MOST_ROWS;
}

spyre_status make_gathered_rows(rewriter *r, const tensor *table, uint32_t dims,
                                const tensor *index, tensor *out)
{
    tensor rows, result;
    int64_t sizes[2] = {1, 1}, wanted[2 * SPYRE_MAX_RANK];
    uint32_t rank = index->view.rank;
    for (uint32_t i = 0; i < rank; i++) wanted[i] = index->view.size[i];
    for (uint32_t i = 0; i < table->view.rank; i++) {
        sizes[i >= dims] *= table->view.size[i];
        if (i >= dims) wanted[rank++] = table->view.size[i];
    }
    if (rank > SPYRE_MAX_RANK) return status_new(SPYRE_UNSUPPORTED, "a result of rank %u", rank);
    TRY(make_reshape(r, table, sizes, 2, &rows));
    if (sizes[1] == 1) {
        TRY(make_reshape(r, &rows, sizes, 1, &rows));
        TRY(make_take(r, &rows, index, 0, NULL, &result));
    } else {
        TRY(make_gather(r, &rows, index, NULL, &result));
    }
    return make_reshape(r, &result, wanted, rank, out);
}

// The same into the node's result; rows of a table of rank 2 are gathered as they are.
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
    if (all->count > 1 && has_elements(table, all)) {
        TRY(gather_elements(r, table, all, &result));
        return rewrite_finish(r, &result, into);
    }
    spyre_view view = view_permute(&table->view, order);
    TRY(join_indices(r, all, &table->view, &row));
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

// A vector as one of `rank` dims, of which `dim` is its own.
static spyre_status make_column(rewriter *r, const tensor *vector, uint32_t dim, uint32_t rank,
                                tensor *out)
{
    spyre_view view = {.rank = rank, .offset = vector->view.offset};
    for (uint32_t i = 0; i < rank; i++) view.size[i] = 1;
    view.size[dim] = vector->view.size[0];
    view.stride[dim] = vector->view.stride[0];
    return make_view(r, vector, &view, NULL, out);
}

spyre_status rewrite_flip(rewriter *r)
{
    tensor x, into, count, last;
    int64_t dims[SPYRE_MAX_RANK];
    uint32_t dim_count;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_separate(r, 0, &x));
    TRY(graph_arg_ints(r->source, r->node, 1, dims, &dim_count));
    for (uint32_t i = 0; i < dim_count; i++) {
        int64_t d = dims[i] < 0 ? dims[i] + x.view.rank : dims[i];
        if (d < 0 || d >= x.view.rank)
            return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: dim %lld of rank %u",
                              (long long)dims[i], x.view.rank);
        int64_t size = x.view.size[d];
        if (size == 1) continue;
        TRY(make_count(r, size, &count));
        TRY(make_constant(r, (double)(size - 1), count.dtype, &last));
        TRY(make_binary(r, ATEN_SPYRE_SUB, &last, &count, NULL, &count));
        TRY(make_column(r, &count, (uint32_t)d, x.view.rank, &count));
        TRY(make_take(r, &x, &count, (uint32_t)d, NULL, &x));
    }
    return rewrite_finish(r, &x, &into);
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
    indices all = {.wraps = true};
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
