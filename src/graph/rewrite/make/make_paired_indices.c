// SPDX-License-Identifier: Apache-2.0
//
// Two indices, one of which counts its dim off, as a batch does beside the positions of its lines:
//
//     x[arange(n), j] = y             ->    scatter(x, j [n, 1, ..], y [n, 1, ..], 1)
//     x[arange(n)[:, None], j] = y    ->    scatter(x, j [n, k, ..], y [n, k, ..], 1)
//
// The other one is then an index, or a line of them, for each of the counted dim, which a take or a
// scatter has as it is: rows that are joined over both dims would be those of a copy, where the
// table does not lie row by row.
#include "graph/rewrite/make/make_node.h"

// The node that made what the value is a view of; SPYRE_NO_ID for an input.
static uint32_t owner_of(const spyre_graph *graph, uint32_t value)
{
    uint32_t id = graph->values.items[value].node;
    while (id != SPYRE_NO_ID && graph->nodes.items[id].layer == GRAPH_LAYER_VIEW)
        id = graph->values.items[graph->nodes.items[id].args[0].of.value].node;
    return id;
}

// All elements of a vector of so many, which may have further dims of one.
static bool is_vector(const spyre_view *view, int64_t size)
{
    bool fits = view->rank > 0 && view->size[0] == size && view->stride[0] == 1 && !view->offset;
    for (uint32_t i = 1; i < view->rank; i++) fits = fits && view->size[i] == 1;
    return fits;
}

// True for the numbers of all of a dim of so many, from 0 on, and copies of them.
static bool counts_off(const rewriter *r, uint32_t value, int64_t size)
{
    const spyre_graph *graph = r->target;
    spyre_view view;
    for (;;) {
        spyre_status status = graph_view_constant(graph, &graph->values.items[value].view, &view);
        const bool known = !status;
        spyre_status_free(status);
        if (!known || !is_vector(&view, size)) return false;
        const uint32_t id = owner_of(graph, value);
        if (id == SPYRE_NO_ID) return false;
        const graph_node *node = &graph->nodes.items[id];
        if (node->op == ATEN_SPYRE_COUNTS)
            return node->args[0].of.integer == 0 && node->args[1].of.integer == 1;
        if (node->op != ATEN_SPYRE_IDENTITY) return false;
        value = node->args[0].of.value;
    }
}

bool indices_are_paired(const rewriter *r, const tensor *table, const indices *all,
                        index_pair *out)
{
    if (all->count != 2) return false;
    for (uint32_t n = 0; n < 2; n++) {
        const tensor *counted = &all->items[n], *other = &all->items[1 - n];
        const int64_t size = table->view.size[all->dim[n]];
        const uint32_t rank = other->view.rank;
        if (size == 1 || rank == 0 || rank > 2 || other->view.size[0] != size ||
            counted->view.rank != rank || !counts_off(r, counted->value, size))
            continue;
        *out = (index_pair){.counted = all->dim[n], .chosen = all->dim[1 - n], .index = *other};
        return true;
    }
    return false;
}

// The table's dims in the order of what the indices choose, in which `chosen` is none where there
// is one index for each of the counted dim.
static uint32_t order_of(const index_pair *pair, uint32_t rank, uint32_t *out)
{
    const uint32_t first = pair->counted < pair->chosen ? pair->counted : pair->chosen;
    const bool adjoining = pair->counted + pair->chosen == 2 * first + 1;
    const uint32_t before = adjoining ? first : 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < before; i++) out[count++] = i;
    out[count++] = pair->counted;
    if (pair->index.view.rank == 2) out[count++] = pair->chosen;
    for (uint32_t i = before; i < rank; i++)
        if (i != pair->counted && i != pair->chosen) out[count++] = i;
    return count;
}

// The index with as many dims as the table.
static spyre_status make_own_index(rewriter *r, const tensor *table, const index_pair *pair,
                                   tensor *out)
{
    TRY(make_wrapped_index(r, &pair->index, table->view.size[pair->chosen], out));
    spyre_view view = {.rank = table->view.rank, .offset = out->view.offset};
    for (uint32_t i = 0; i < view.rank; i++) view.size[i] = 1;
    for (uint32_t i = 0; i < out->view.rank; i++) {
        const uint32_t dim = i == 0 ? pair->counted : pair->chosen;
        view.size[dim] = out->view.size[i];
        view.stride[dim] = out->view.size[i] == 1 ? 0 : out->view.stride[i];
    }
    return make_view(r, out, &view, NULL, out);
}

spyre_status make_paired_take(rewriter *r, const tensor *table, const index_pair *pair,
                              tensor *out)
{
    uint32_t order[SPYRE_MAX_RANK];
    tensor index;
    TRY(make_own_index(r, table, pair, &index));
    TRY(make_take(r, table, &index, pair->chosen, NULL, out));
    spyre_view view = {.rank = order_of(pair, table->view.rank, order),
                       .offset = out->view.offset};
    for (uint32_t i = 0; i < view.rank; i++) {
        view.size[i] = out->view.size[order[i]];
        view.stride[i] = out->view.stride[order[i]];
    }
    return make_view(r, out, &view, NULL, out);
}

spyre_status make_paired_rows(rewriter *r, const tensor *table, const index_pair *pair,
                              tensor *source, tensor *out_index)
{
    uint32_t order[SPYRE_MAX_RANK];
    const spyre_view given = source->view;
    const uint32_t rank = order_of(pair, table->view.rank, order);
    spyre_view view = table->view;
    bool fits = given.rank <= rank;
    view.offset = given.offset;
    view.size[pair->chosen] = pair->index.view.rank == 2 ? pair->index.view.size[1] : 1;
    view.stride[pair->chosen] = 0;
    for (uint32_t i = 0; i < rank && fits; i++) {
        const uint32_t dim = order[i], shift = rank - given.rank;
        const int64_t size = i < shift ? 1 : given.size[i - shift];
        fits = size == 1 || size == view.size[dim];
        view.stride[dim] = size == 1 ? 0 : given.stride[i - shift];
    }
    if (!fits)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "operand 2: sizes that the places do not have");
    TRY(make_view(r, source, &view, NULL, source));
    return make_own_index(r, table, pair, out_index);
}
