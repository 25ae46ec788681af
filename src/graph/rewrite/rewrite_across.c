// SPDX-License-Identifier: Apache-2.0
//
// Operands that step across the dims of their storage: a diagonal, every second of an odd number of
// rows. Loops follow dims, so front and back may find no way to read such a view. The node that
// they refused is rewritten once more then, with the operand gathered: its rows, or where steps
// leave the rows its elements, are at places that are known: sums of multiples of counts.
#include "graph/rewrite/rewrite.h"

// Places are multiplied through float32, which has each of these.
enum { MOST_PLACES = 1 << 24 };

static bool is_step(const spyre_view *view, uint32_t d)
{
    return view->size[d] > 1 && view->stride[d] != 0;
}

static bool has_stride(const spyre_view *storage, int64_t stride)
{
    for (uint32_t d = 0; d < storage->rank; d++)
        if (is_step(storage, d) && storage->stride[d] == stride) return true;
    return false;
}

static spyre_status storage_of(const spyre_graph *graph, uint32_t base, spyre_view *out)
{
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.items[i].value == base)
            return graph_view_constant(graph, &graph->inputs.items[i].storage, out);
    return graph_view_constant(graph, &graph->values.items[base].view, out);
}

// Whether the view of the value has a stride that is none of its storage's, and that storage.
static bool steps_across(const spyre_graph *graph, uint32_t value, spyre_view *out_storage)
{
    spyre_view view;
    spyre_status status = graph_view_constant(graph, &graph->values.items[value].view, &view);
    if (!status) status = storage_of(graph, graph_value_base(graph, value), out_storage);
    bool is_known = !status && view_is_dense(out_storage), across = false;
    spyre_status_free(status);
    for (uint32_t d = 0; is_known && d < view.rank; d++)
        across |= is_step(&view, d) && !has_stride(out_storage, view.stride[d]);
    return across;
}

static bool any_steps_across(const spyre_graph *graph, const spyre_arg *args, uint32_t count)
{
    spyre_view ignored;
    bool any = false;
    for (uint32_t i = 0; i < count && !any; i++) {
        if (args[i].kind == SPYRE_ARG_VALUE) any = steps_across(graph, args[i].of.value, &ignored);
        if (args[i].kind == SPYRE_ARG_LIST)
            any = any_steps_across(graph, args[i].of.list.items, args[i].of.list.count);
    }
    return any;
}

bool graph_steps_across(const spyre_graph *graph, uint32_t node)
{
    const graph_node *n = &graph->nodes.items[node];
    return n->layer != GRAPH_LAYER_VIEW && any_steps_across(graph, n->args, n->arg_count);
}

// The length of the storage's rows where what the view reads lies within rows that are multiples of
// them apart, else 1.
static int64_t row_length(const spyre_view *view, const spyre_view *storage)
{
    int64_t row = view_element_count(storage);
    for (uint32_t d = 0; d < storage->rank; d++)
        if (is_step(storage, d) && storage->stride[d] > 1 && storage->stride[d] < row)
            row = storage->stride[d];
    int64_t last = view->offset % row;
    for (uint32_t d = 0; d < view->rank; d++) {
        if (!is_step(view, d)) continue;
        if (view->stride[d] < row) last += (view->size[d] - 1) * view->stride[d];
        else if (view->stride[d] % row) return 1;
    }
    return last < row ? row : 1;
}

// Adds multiples of 0, 1, .. along a new last dim.
static spyre_status add_places(rewriter *r, int64_t count, int64_t step, tensor *places)
{
    tensor steps, wide;
    TRY(make_count(r, count, &steps));
    TRY(make_with(r, ATEN_SPYRE_MUL, &steps, (double)step, NULL, &steps));
    TRY(make_unsqueeze(r, places, places->view.rank, &wide));
    return make_binary(r, ATEN_SPYRE_ADD, &wide, &steps, NULL, places);
}

// The storage's dims, the innermost last; those of one element are left out.
static spyre_view sorted_dims(const spyre_view *storage)
{
    spyre_view sorted = {.rank = 0};
    for (uint32_t d = 0; d < storage->rank; d++) {
        if (storage->size[d] == 1) continue;
        uint32_t at = sorted.rank++;
        for (; at > 0 && sorted.stride[at - 1] < storage->stride[d]; at--) {
            sorted.size[at] = sorted.size[at - 1];
            sorted.stride[at] = sorted.stride[at - 1];
        }
        sorted.size[at] = storage->size[d];
        sorted.stride[at] = storage->stride[d];
    }
    return sorted;
}

// Elements at places of the storage: each place becomes an index a dim.
static spyre_status gather_elements(rewriter *r, const spyre_view *dims, const tensor *table,
                                    const tensor *places, tensor *out)
{
    tensor lines, index[SPYRE_MAX_RANK];
    TRY(make_view(r, table, dims, NULL, &lines));
    for (uint32_t d = 0; d < dims->rank; d++) {
        index[d] = *places;
        if (dims->stride[d] > 1)
            TRY(make_with(r, ATEN_SPYRE_FLOORDIV, &index[d], (double)dims->stride[d], NULL,
                          &index[d]));
        if (d > 0)
            TRY(make_with(r, ATEN_SPYRE_REMAINDER, &index[d], (double)dims->size[d], NULL,
                          &index[d]));
    }
    return make_gathered_elements(r, &lines, index, out);
}

static spyre_status gather(rewriter *r, const spyre_view *storage, tensor *x)
{
    const int64_t row = row_length(&x->view, storage);
    const int64_t sizes[2] = {view_element_count(storage) / row, row};
    const tensor table = {.value = graph_value_base(r->target, x->value), .dtype = x->dtype};
    const spyre_view dims = sorted_dims(storage), one = {.rank = 0};
    spyre_view view = x->view, rows = view_contiguous(sizes, row > 1 ? 2 : 1);
    tensor places, lines;
    if (sizes[0] > MOST_PLACES) return status_new(SPYRE_UNSUPPORTED, "too many places to read");
    TRY(make_full(r, (double)(x->view.offset / row), SPYRE_DTYPE_I64, &one, NULL, &places));
    for (uint32_t d = 0; d < view.rank; d++)
        if (is_step(&view, d) && view.stride[d] >= row)
            TRY(add_places(r, view.size[d], view.stride[d] / row, &places));
    if (row == 1 && dims.rank < SPYRE_MAX_RANK) {
        TRY(gather_elements(r, &dims, &table, &places, x));
    } else {
        TRY(make_view(r, &table, &rows, NULL, &lines));
        TRY(make_gathered_rows(r, &lines, 1, &places, x));
    }
    uint32_t made = 0;
    for (uint32_t d = 0; d < view.rank; d++)
        if (is_step(&view, d) && view.stride[d] >= row) view.stride[d] = x->view.stride[made++];
    view.offset %= row;
    return make_view(r, x, &view, NULL, x);
}

spyre_status rewrite_gather_across(rewriter *r, tensor *x)
{
    spyre_view storage;
    if (!steps_across(r->target, x->value, &storage)) return NULL;
    return gather(r, &storage, x);
}
