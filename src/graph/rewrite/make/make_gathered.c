// SPDX-License-Identifier: Apache-2.0
//
// Rows and single elements of tables. The card gathers rows of a table of rank 2, so several
// indices become the number of a row, or of an element of all. An index that is out of its dim
// must stay one that is out of the table: the card faults there, and a sum of indices could hide
// it.
#include "base/integer.h"
#include "graph/rewrite/make/make_node.h"
#include "tensor/joined_index.h"

enum { STICK = 64 };

// row * size + index by joinindex: below 0 where the index is out of the dim.
static spyre_status add_index(rewriter *r, const tensor *row, const tensor *index, int64_t size,
                              tensor *out)
{
    tensor sizes;
    spyre_view broadcast;
    TRY(make_constant(r, (double)size, index->dtype, &sizes));
    TRY(broadcast_sizes(&row->view, &index->view, &broadcast));
    spyre_arg args[3] = {tensor_arg(row), tensor_arg(index), tensor_arg(&sizes)};
    return make_node(r, ATEN_SPYRE_JOININDEX, args, 3, index->dtype, &broadcast, NULL, out);
}

spyre_status make_wrapped_index(rewriter *r, const tensor *index, int64_t rows, tensor *out)
{
    tensor first;
    TRY(make_constant(r, 0, index->dtype, &first));
    return add_index(r, &first, index, rows, out);
}

spyre_status make_joined_index(rewriter *r, const indices *all, const spyre_view *table,
                               tensor *out)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < all->count; i++) rows *= table->size[all->dim[i]];
    if (rows > JOINED_MOST_ROWS) {
        return status_new(SPYRE_UNSUPPORTED, "%u indices into %lld rows, at most %d are supported",
                          all->count, (long long)rows, JOINED_MOST_ROWS);
    }
    TRY(make_wrapped_index(r, &all->items[0], table->size[all->dim[0]], out));
    for (uint32_t i = 1; i < all->count; i++) {
        tensor index;
        TRY(make_cast(r, &all->items[i], out->dtype, NULL, &index));
        TRY(add_index(r, out, &index, table->size[all->dim[i]], out));
    }
    return NULL;
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
    TRY(make_wrapped_index(r, &place, table->view.size[last], &place));
    return take_of_lines(r, &lines, &place, out);
}

spyre_status make_numbered_elements(rewriter *r, const tensor *table, const indices *all,
                                    tensor *out_elements, tensor *out_number)
{
    const graph_number zero = {.value = 0};
    indices within = *all;
    uint32_t last = table->view.rank - 1;
    tensor filled = *table;
    spyre_view lines = table->view;
    if (last > 0) lines.size[last] = round_up(lines.size[last], STICK);
    int64_t missing = lines.size[last] - table->view.size[last];
    int64_t elements = view_element_count(&lines);
    if (missing)
        TRY(make_wrapped_index(r, &all->items[last], table->view.size[last], &within.items[last]));
    TRY(make_padded(r, &filled, last, 0, missing, &zero));
    TRY(make_reshape(r, &filled, &elements, 1, out_elements));
    return make_joined_index(r, &within, &lines, out_number);
}

// Whether the lines of the elements are less to move than the table, whose sticks are lined up for
// elements to be looked up in by their numbers.
static bool lines_are_less(const tensor *table, const indices *all)
{
    const spyre_view *place = &all->items[all->count - 1].view;
    int64_t length = table->view.size[all->count - 1];
    if (all->count < 2 || length == 1 || place->rank + 1 > SPYRE_MAX_RANK) return false;
    for (uint32_t i = 0; i + 1 < all->count; i++)
        if (!view_same_sizes(&all->items[i].view, place)) return false;
    return view_element_count(place) < view_element_count(&table->view) / length;
}

spyre_status make_gathered_elements(rewriter *r, const tensor *table, const indices *all,
                                    tensor *out)
{
    tensor elements, number;
    if (lines_are_less(table, all)) return gather_lines(r, table, all, out);
    TRY(make_numbered_elements(r, table, all, &elements, &number));
    return make_take(r, &elements, &number, 0, NULL, out);
}

bool indices_choose_elements(const tensor *table, const indices *all)
{
    bool fits = table->view.rank < SPYRE_MAX_RANK;
    int64_t length = table->view.rank ? table->view.size[table->view.rank - 1] : 0;
    for (uint32_t i = 0; i < all->count; i++) fits &= all->items[i].view.rank < SPYRE_MAX_RANK;
    return fits && all->count == table->view.rank && length <= JOINED_MOST_ROWS;
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
