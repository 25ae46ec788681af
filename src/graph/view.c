// SPDX-License-Identifier: Apache-2.0
#include "graph/view.h"

void view_set_contiguous(spyre_view *view)
{
    int64_t step = 1;
    for (uint32_t i = view->rank; i-- > 0;) {
        view->stride[i] = step;
        step *= view->size[i] > 1 ? view->size[i] : 1;
    }
    view->offset = 0;
}

spyre_view view_contiguous(const int64_t *size, uint32_t rank)
{
    spyre_view view = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) view.size[i] = size[i];
    view_set_contiguous(&view);
    return view;
}

bool view_same_sizes(const spyre_view *a, const spyre_view *b)
{
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->size[i] != b->size[i]) return false;
    }
    return true;
}

bool view_same(const spyre_view *a, const spyre_view *b)
{
    if (!view_same_sizes(a, b) || a->offset != b->offset) return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->size[i] > 1 && a->stride[i] != b->stride[i]) return false;
    }
    return true;
}

int64_t view_element_count(const spyre_view *view)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) count *= view->size[i];
    return count;
}

int64_t view_last_element(const spyre_view *view)
{
    int64_t last = view->offset;
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->size[i] == 0) return -1;
        last += (view->size[i] - 1) * view->stride[i];
    }
    return last;
}

// Dims longer than 1, by descending stride; ties keep their order. Returns their number.
static uint32_t order_dims(const spyre_view *view, uint32_t *order)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->size[i] == 1) continue;
        uint32_t at = count++;
        for (; at > 0 && view->stride[order[at - 1]] < view->stride[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    return count;
}

bool view_is_dense(const spyre_view *view)
{
    uint32_t order[SPYRE_MAX_RANK] = {0};
    uint32_t count = order_dims(view, order);
    int64_t step = 1;
    for (uint32_t i = count; i-- > 0;) {
        if (view->stride[order[i]] != step) return false;
        step *= view->size[order[i]];
    }
    return view->offset == 0;
}

spyre_view view_permute(const spyre_view *view, const uint32_t *order)
{
    spyre_view result = {.rank = view->rank, .offset = view->offset};
    for (uint32_t i = 0; i < view->rank; i++) {
        result.size[i] = view->size[order[i]];
        result.stride[i] = view->stride[order[i]];
    }
    return result;
}

// Walks both shapes from the inside: a run of old dims that lie in one line ("chunk") is cut into
// new dims. An empty tensor takes contiguous strides.
bool view_reshape(const spyre_view *from, const int64_t *size, uint32_t rank, spyre_view *out_view)
{
    spyre_view result = view_contiguous(size, rank);
    if (view_element_count(&result) != view_element_count(from)) return false;
    result.offset = from->offset;
    if (view_element_count(from) == 0) {
        *out_view = result;
        return true;
    }
    int64_t chunk = 1, taken = 1;
    int64_t step = from->rank ? from->stride[from->rank - 1] : 1;
    uint32_t next = rank;
    for (uint32_t i = from->rank; i-- > 0;) {
        chunk *= from->size[i];
        bool goes_on = i > 0 && (from->size[i - 1] == 1 || from->stride[i - 1] == chunk * step);
        if (goes_on) continue;
        while (next > 0 && (taken < chunk || size[next - 1] == 1)) {
            next--;
            result.stride[next] = taken * step;
            taken *= size[next];
        }
        if (taken != chunk) return false;
        if (i > 0) step = from->stride[i - 1];
        chunk = taken = 1;
    }
    *out_view = result;
    return next == 0 || from->rank == 0;
}

void view_print_sizes(const spyre_view *view, text *out)
{
    text_append(out, "[");
    for (uint32_t i = 0; i < view->rank; i++) {
        text_printf(out, i ? ", %lld" : "%lld", (long long)view->size[i]);
    }
    text_append(out, "]");
}
