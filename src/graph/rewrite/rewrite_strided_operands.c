// SPDX-License-Identifier: Apache-2.0
//
// Operands that step across the dims of their storage: a diagonal, every second of an odd number of
// rows. Loops follow dims, so front and back may find no way to read such a view. The node that
// they refused is rewritten once more then, with the operand gathered: its rows, or where steps
// leave the rows its elements, are at places that are known: sums of multiples of counts. Windows
// that overlap are copied in parts that do not, as handlers ask beforehand for most operands.
#include "graph/rewrite/rewrite.h"

// Places are multiplied through float32, which has each of these.
enum { MOST_PLACES = 1 << 24 };

// What a sliding view is cut into, each of which is copied.
enum { MOST_PARTS = 64 };

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

// Two dims that reach the same elements, the one of longer steps outside; none: both the rank.
typedef struct {
    uint32_t outer, inner;
} dim_pair;

// Dims that repeat elements (stride 0) are no matter.
static dim_pair find_pair(const spyre_view *view)
{
    uint32_t order[SPYRE_MAX_RANK], count = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        uint32_t at = count;
        if (view->size[i] == 1 || view->stride[i] == 0) continue;
        for (; at > 0 && view->stride[order[at - 1]] > view->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
        count++;
    }
    int64_t reach = 0; // of the dims before, in elements
    for (uint32_t k = 0; k < count; k++) {
        uint32_t dim = order[k];
        if (k && view->stride[dim] <= reach) return (dim_pair){dim, order[k - 1]};
        reach += (view->size[dim] - 1) * view->stride[dim];
    }
    return (dim_pair){view->rank, view->rank};
}

static bool has_overlap(const spyre_view *view)
{
    return find_pair(view).outer != view->rank;
}

// A cut of one dim into `count` parts of `length`, in none of which the pair reaches an element
// twice. Either windows are parts, or the places within the windows that one step covers.
typedef struct {
    uint32_t dim;
    int64_t length, count;
} dim_parts;

static dim_parts parts_of(const spyre_view *view)
{
    const dim_pair pair = find_pair(view);
    const int64_t windows = view->size[pair.outer], places = view->size[pair.inner];
    const int64_t step = view->stride[pair.outer], within = view->stride[pair.inner];
    const int64_t apart = step / within, counts = (places - 1) / apart + 1;
    if (step % within == 0 && counts < windows) return (dim_parts){pair.inner, apart, counts};
    if (places < windows) return (dim_parts){pair.inner, 1, places};
    return (dim_parts){pair.outer, 1, windows};
}

// Whether the storage of the value is known and dense.
static bool has_storage(const spyre_graph *graph, uint32_t value, spyre_view *out_storage)
{
    spyre_status status = storage_of(graph, graph_value_base(graph, value), out_storage);
    bool is_known = !status && view_is_dense(out_storage);
    spyre_status_free(status);
    return is_known;
}

// Whether the view of the value has a stride that is none of its storage's, and that storage.
static bool steps_across(const spyre_graph *graph, uint32_t value, spyre_view *out_storage)
{
    spyre_view view;
    spyre_status status = graph_view_constant(graph, &graph->values.items[value].view, &view);
    bool is_known = !status && has_storage(graph, value, out_storage), across = false;
    spyre_status_free(status);
    for (uint32_t d = 0; is_known && d < view.rank; d++)
        across |= is_step(&view, d) && !has_stride(out_storage, view.stride[d]);
    return across;
}

static bool overlaps(const spyre_graph *graph, uint32_t value)
{
    spyre_view view;
    spyre_status status = graph_view_constant(graph, &graph->values.items[value].view, &view);
    bool does = !status && has_overlap(&view);
    spyre_status_free(status);
    return does;
}

bool graph_steps_across(const spyre_graph *graph, uint32_t node)
{
    const graph_node *n = &graph->nodes.items[node];
    spyre_view ignored;
    bool any = false;
    for (uint32_t i = 0; i < n->read_count && n->layer != GRAPH_LAYER_VIEW && !any; i++)
        any = overlaps(graph, n->reads[i]) || steps_across(graph, n->reads[i], &ignored);
    return any;
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
    tensor lines;
    indices all = {.count = dims->rank};
    TRY(make_view(r, table, dims, NULL, &lines));
    for (uint32_t d = 0; d < dims->rank; d++) {
        tensor *index = &all.items[d];
        *index = *places;
        all.dim[d] = d;
        if (dims->stride[d] > 1)
            TRY(make_with(r, ATEN_SPYRE_FLOORDIV, index, (double)dims->stride[d], NULL, index));
        if (d > 0)
            TRY(make_with(r, ATEN_SPYRE_REMAINDER, index, (double)dims->size[d], NULL, index));
    }
    return make_gathered_elements(r, &lines, &all, out);
}

static spyre_status gather(rewriter *r, const spyre_view *storage, tensor *x)
{
    const bool overlapping = has_overlap(&x->view);
    const int64_t row = overlapping ? 1 : row_length(&x->view, storage);
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

// x when its elements are its own, else a copy that is: one part after the other, or, of many
// parts, element by element.
static spyre_status separate(rewriter *r, const tensor *x, int64_t parts, tensor *out)
{
    tensor items[MOST_PARTS];
    spyre_view storage;
    *out = *x;
    if (!has_overlap(&x->view)) return NULL;
    const dim_parts cut = parts_of(&x->view);
    if (parts * cut.count > MOST_PARTS) {
        if (parts == 1 && has_storage(r->target, x->value, &storage))
            return gather(r, &storage, out);
        return status_new(SPYRE_UNSUPPORTED, "%lld windows that overlap, at most %d are supported",
                          (long long)(parts * cut.count), MOST_PARTS);
    }
    for (int64_t i = 0; i < cut.count; i++) {
        int64_t start = i * cut.length, rest = x->view.size[cut.dim] - start;
        TRY(make_slice(r, x, cut.dim, start, rest < cut.length ? rest : cut.length, &items[i]));
        TRY(separate(r, &items[i], parts * cut.count, &items[i]));
    }
    return make_cat(r, items, (uint32_t)cut.count, cut.dim, NULL, out);
}

spyre_status make_separate(rewriter *r, const tensor *x, tensor *out)
{
    return separate(r, x, 1, out);
}

spyre_status rewrite_gather_across(rewriter *r, tensor *x)
{
    spyre_view storage;
    bool across = steps_across(r->target, x->value, &storage);
    bool overlapping = has_overlap(&x->view);
    if (overlapping && !(across && row_length(&x->view, &storage) == 1))
        return make_separate(r, x, x);
    return across ? gather(r, &storage, x) : NULL;
}
