// SPDX-License-Identifier: Apache-2.0
//
// Where the elements of a tensor come from, through copies: whether two tensors are the same ones.
// `x[1:] += y` gives back to x what it has just written there.
#include "graph/rewrite/rewrite.h"

// The dense dim along which a view steps by `stride`; the rank when there is none.
static uint32_t dim_of_stride(const spyre_view *dense, int64_t stride)
{
    uint32_t d = 0;
    while (d < dense->rank && (dense->size[d] == 1 || dense->stride[d] != stride)) d++;
    return d;
}

// A view of a contiguous copy as one of what was copied; false where it crosses dims of the copy.
static bool view_through(const spyre_view *view, const spyre_view *copied, spyre_view *out)
{
    const spyre_view dense = view_contiguous(copied->size, copied->rank);
    int64_t last[SPYRE_MAX_RANK], rest = view->offset;
    spyre_view through = *view;
    through.offset = copied->offset;
    for (uint32_t d = 0; d < dense.rank; d++) {
        last[d] = rest / dense.stride[d];
        rest %= dense.stride[d];
        through.offset += last[d] * copied->stride[d];
    }
    for (uint32_t d = 0; d < view->rank; d++) {
        if (view->size[d] == 1) continue;
        uint32_t from = dim_of_stride(&dense, view->stride[d]);
        if (from == dense.rank) return false;
        through.stride[d] = copied->stride[from];
        last[from] += view->size[d] - 1;
    }
    for (uint32_t d = 0; d < dense.rank; d++)
        if (last[d] >= dense.size[d]) return false;
    *out = through;
    return true;
}

// The view that an argument's value is; false where its sizes are not constant.
static bool load_view(const rewriter *r, uint32_t value, spyre_view *out)
{
    spyre_status status =
        graph_view_constant(r->target, &r->target->values.items[value].view, out);
    const bool known = !status;
    spyre_status_free(status);
    return known;
}

// One step back from a tensor to what it was copied from, or is a view of.
static bool step_back(const rewriter *r, tensor *t)
{
    const graph_value *value = &r->target->values.items[t->value];
    if (value->node == SPYRE_NO_ID) return false;
    const graph_node *node = &r->target->nodes.items[value->node];
    bool is_copy = node->op == ATEN_SPYRE_IDENTITY;
    bool is_view = node->layer == GRAPH_LAYER_VIEW || node->op == ATEN_SPYRE_VIEW;
    if (!is_copy && !is_view) return false;
    const uint32_t from = node->args[0].of.value;
    spyre_view copied, made;
    if (is_copy) {
        if (r->target->values.items[from].dtype != value->dtype || !load_view(r, from, &copied) ||
            !load_view(r, t->value, &made))
            return false;
        // Neither an expansion nor one in another order (channels_last).
        const spyre_view dense = view_contiguous(copied.size, copied.rank);
        if (!view_same(&made, &dense) || !view_through(&t->view, &copied, &t->view)) return false;
    }
    t->value = from;
    return true;
}

bool rewrite_same_elements(const rewriter *r, const tensor *a, const tensor *b)
{
    tensor x = *a, y = *b;
    while (step_back(r, &x)) continue;
    while (step_back(r, &y)) continue;
    return x.value == y.value && x.dtype == y.dtype && view_same(&x.view, &y.view);
}
