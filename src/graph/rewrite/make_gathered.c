// SPDX-License-Identifier: Apache-2.0
//
// Rows and single elements of tables. The card gathers rows of a table of rank 2, so several
// indices become the number of a row, or of an element of all. An index that is out of its dim
// must stay one that is out of the table: the card faults there, and a sum of indices could hide
// it.
#include "base/integer.h"
#include "graph/rewrite/rewrite.h"

// Integers are multiplied through float32, which has each of these.
enum { MOST_ROWS = 1 << 24 };

enum { STICK = 64 };

spyre_status make_wrapped_index(rewriter *r, const tensor *index, int64_t rows, tensor *out)
{
    tensor step;
    TRY(make_with(r, ATEN_SPYRE_SHIFTRIGHT, index, 31, NULL, &step)); // all bits or none
    TRY(make_with(r, ATEN_SPYRE_BITAND, &step, (double)rows, NULL, &step));
    return make_binary(r, ATEN_SPYRE_ADD, index, &step, NULL, out);
}

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

spyre_status make_joined_index(rewriter *r, const indices *all, const spyre_view *table,
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

// Of each line of `lines`, one more dim than `index`, the element at the index.
static spyre_status take_of_lines(rewriter *r, const tensor *lines, const tensor *index,
                                  tensor *out)
{
    uint32_t rank = index->view.rank;
    int64_t sizes[SPYRE_MAX_RANK];
    tensor column;
    for (uint32_t i = 0; i < rank; i++) sizes[i] = index->view.size[i];
    sizes[rank] = 1;
    TRY(make_reshape(r, index, sizes, rank + 1, &column));
    TRY(make_take(r, lines, &column, rank, NULL, out));
    return make_reshape(r, out, sizes, rank, out);
}

// All lines of the elements are gathered first, from which each takes its own.
static spyre_status gather_lines(rewriter *r, const tensor *table, const indices *all, tensor *out)
{
    uint32_t last = all->count - 1;
    indices leading = *all;
    tensor row, lines, place = all->items[last];
    leading.count = last;
    TRY(make_joined_index(r, &leading, &table->view, &row));
    TRY(make_gathered_rows(r, table, last, &row, &lines));
    if (all->wraps) TRY(make_wrapped_index(r, &place, table->view.size[last], &place));
    return take_of_lines(r, &lines, &place, out);
}

// Lines of sticks follow each other in memory, so each element of them all has a number.
static spyre_status gather_numbered(rewriter *r, const tensor *table, const indices *all,
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
    lines.size[0] = divide_up(length, STICK);
    TRY(line_up_sticks(r, table, &elements));
    TRY(split_index(r, &index, length, &sticks.items[0], &place));
    TRY(make_joined_index(r, &sticks, &lines, &row));
    TRY(make_with(r, ATEN_SPYRE_MUL, &row, STICK, NULL, &row));
    TRY(make_binary(r, ATEN_SPYRE_ADD, &row, &place, NULL, &row));
    return make_take(r, &elements, &row, 0, NULL, out);
}

// Whether the lines of the elements are less to move than the table with a stick for each element,
// which an element by its number is looked up in.
static bool lines_are_less(const tensor *table, const indices *all)
{
    const spyre_view *place = &all->items[all->count - 1].view;
    int64_t length = table->view.size[all->count - 1];
    if (all->count < 2 || length == 1 || place->rank + 1 > SPYRE_MAX_RANK) return false;
    for (uint32_t i = 0; i + 1 < all->count; i++)
        if (!view_same_sizes(&all->items[i].view, place)) return false;
    return view_element_count(place) < view_element_count(&table->view) / length * STICK;
}

spyre_status make_gathered_elements(rewriter *r, const tensor *table, const indices *all,
                                    tensor *out)
{
    if (lines_are_less(table, all)) return gather_lines(r, table, all, out);
    return gather_numbered(r, table, all, out);
}

bool indices_choose_elements(const tensor *table, const indices *all)
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
