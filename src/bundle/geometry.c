// SPDX-License-Identifier: Apache-2.0
//
// Where a tensor's elements are: slices of cores, sticks, windows, strides, and what cores reach.
#include "bundle/model.h"

#include <string.h>

#include "base/integer.h"
#include "bundle/step_facts.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t bundle_local_size(const bundle_step *step, uint32_t dim)
{
    int64_t length = step->cores->slice_size[dim];
    return length ? length : step->size[dim] / step->cores->slices[dim];
}

int64_t bundle_held_size(const bundle_step *step, const bundle_tensor *tensor, uint32_t dim)
{
    return tensor->owners ? step->size[dim] / tensor->owners->slices[dim]
                          : bundle_local_size(step, dim);
}

int64_t bundle_slice_start(const bundle_step *step, uint32_t core, uint32_t dim)
{
    return step->cores->core_slice[core][dim] * bundle_local_size(step, dim);
}

int64_t bundle_slice_size(const bundle_step *step, uint32_t core, uint32_t dim)
{
    int64_t left = step->size[dim] - bundle_slice_start(step, core, dim);
    return smaller(left, bundle_local_size(step, dim));
}

int64_t bundle_slice_offset(const bundle_step *step, const bundle_tensor *tensor,
                            const bundle_geometry *geometry, uint32_t core)
{
    int64_t bits = 0;
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (geometry->moves[d])
            bits += bundle_offset_bits(tensor, geometry, d, bundle_slice_start(step, core, d));
    return bits / 8;
}

int64_t bundle_stick_span(const bundle_tensor *tensor, uint32_t dim)
{
    int64_t span = 1;
    if (tensor->digit_count == 0) return dim == tensor->stick_dim ? tensor->stick_elements : 1;
    for (uint32_t n = 0; n < tensor->digit_count; n++)
        if (tensor->digits[n].dim == dim) span *= tensor->digits[n].size;
    return span;
}

bool bundle_in_stick(const bundle_tensor *tensor, uint32_t dim)
{
    return dim == tensor->stick_dim || bundle_stick_span(tensor, dim) > 1;
}

int64_t bundle_offset_bits(const bundle_tensor *tensor, const bundle_geometry *geometry,
                           uint32_t dim, int64_t i)
{
    int64_t span = bundle_stick_span(tensor, dim), lane = i % span;
    int64_t bits = (int64_t)spyre_format_bits(tensor->format);
    if (tensor->digit_count) {
        int64_t rest = lane, weight = 1;
        lane = 0;
        for (uint32_t n = 0; n < tensor->digit_count; n++) {
            const bundle_digit *digit = &tensor->digits[n];
            if (digit->dim == dim) {
                lane += rest % digit->size * weight;
                rest /= digit->size;
            }
            weight *= digit->size;
        }
    }
    return i / span * geometry->stride[dim] * 8 + lane * bits;
}

const bundle_window *bundle_window_of(const bundle_step *step, uint32_t tensor, uint32_t dim)
{
    for (uint32_t n = 0; n < step->window_count && tensor == step->inputs[0]; n++)
        if (step->windows[n].dim == dim || step->windows[n].kernel == dim) return &step->windows[n];
    return NULL;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static int64_t window_extent(const bundle_window *window)
{
    return window->total - window->front - window->back;
}

void bundle_window_inside(const bundle_step *step, const bundle_window *window, int64_t i,
                          int64_t *out_first, int64_t *out_end)
{
    int64_t taps = step->size[window->kernel], at = i * window->stride - window->front;
    int64_t last = window_extent(window) - 1 - at;
    *out_first = clamp(divide_up(-at, window->dilation), 0, taps);
    *out_end = last < 0 ? 0 : clamp(last / window->dilation + 1, 0, taps);
}

int64_t bundle_window_same(const bundle_step *step, const bundle_window *window, int64_t i)
{
    int64_t first, end, next_first, next_end, size = step->size[window->dim];
    bundle_window_inside(step, window, i, &first, &end);
    if (first == 0 && end == step->size[window->kernel]) {
        int64_t reach = (end - 1) * window->dilation;
        int64_t last = (window_extent(window) - 1 - reach + window->front) / window->stride;
        return last + 1 < size ? last + 1 : size;
    }
    for (i++; i < size; i++) {
        bundle_window_inside(step, window, i, &next_first, &next_end);
        if (next_first != first || next_end != end) return i;
    }
    return size;
}

uint32_t bundle_pair_dim(const bundle_tensor *tensor)
{
    return tensor->digit_count ? tensor->digits[0].dim : tensor->stick_dim;
}

// A window's part of what the core reads, from the first index of the core's slice.
static void window_reach(const bundle_step *step, const bundle_window *window, uint32_t core,
                         int64_t *first, int64_t *last)
{
    int64_t start = bundle_slice_start(step, core, window->dim) * window->stride;
    int64_t count = bundle_slice_size(step, core, window->dim);
    int64_t reach = (step->size[window->kernel] - 1) * window->dilation;
    *first = clamp(start - window->front, 0, INT64_MAX) - start;
    *last = start + (count - 1) * window->stride + reach - window->front;
    *last = clamp(*last, 0, window_extent(window) - 1) - start;
}

static void add_window(const bundle_step *step, const bundle_window *window, int64_t stride,
                       bundle_bytes *cores)
{
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        int64_t first, last;
        window_reach(step, window, core, &first, &last);
        cores[core].first += first * (stride / window->stride);
        cores[core].end += last * (stride / window->stride);
    }
}

static void add_dim(const bundle_step *step, const bundle_tensor *t, uint32_t d,
                    const bundle_geometry *geometry, bundle_bytes *cores)
{
    const int64_t held = bundle_held_size(step, t, d), span = bundle_stick_span(t, d);
    const bool whole = t->owners || step->cores->slices[d] == 1;
    int64_t more = 0;
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        if (core == 0 || !whole) {
            const int64_t start = whole ? 0 : step->cores->core_slice[core][d] * held;
            int64_t used = held;
            if (start + used > geometry->valid[d]) used = geometry->valid[d] - start;
            if (span > 1) used = divide_up(used, span);
            more = used > 1 ? (used - 1) * geometry->stride[d] : 0;
        }
        cores[core].end += more;
    }
}

void bundle_reach(const bundle_step *step, uint32_t tensor, const bundle_geometry *geometry,
                  bundle_bytes out_cores[BUNDLE_MAX_CORES])
{
    const bundle_tensor *t = &step->tensors[tensor];
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        const int64_t first = bundle_start(t, core);
        out_cores[core] = (bundle_bytes){first, first + SPYRE_STICK_BYTES};
    }
    for (uint32_t d = 0; d < step->dim_count; d++) {
        const bundle_window *window = bundle_window_of(step, tensor, d);
        if (!geometry->moves[d] || (window && window->kernel == d)) continue;
        if (window) add_window(step, window, geometry->stride[d], out_cores);
        else add_dim(step, t, d, geometry, out_cores);
    }
}

int32_t bundle_indexed_dim(const bundle_step *step, uint32_t tensor)
{
    const bundle_tensor *t = &step->tensors[tensor];
    int32_t found = -1;
    for (uint32_t i = 0; i < t->order_count; i++) {
        if (t->max_size[t->order[i]] != 1) continue;
        if (found >= 0) return -1;
        found = t->order[i];
    }
    return found;
}

int64_t bundle_effective_gap(const bundle_step *step, const bundle_tensor *tensor, uint32_t dim)
{
    bool reversed = step->op == OPFUNC_RESTICKIFY && !bundle_in_stick(tensor, dim) &&
                    !tensor->gap_is_room[dim];
    return reversed ? -tensor->gap[dim] : tensor->gap[dim];
}

// The extent of the indexed dim is not part of a bundle of torch-spyre. Then the launch argument is
// taken to hold the value tensor only, from its lowest start address to its end.
static spyre_status extent_from_argument(const bundle *b, const bundle_step *step,
                                         const bundle_tensor *tensor, uint32_t dim,
                                         bundle_geometry *geometry)
{
    int64_t lowest = tensor->start;
    for (uint32_t core = 1; core < step->cores->core_count; core++) {
        lowest = smaller(lowest, bundle_start(tensor, core));
    }
    int32_t arg = tensor->arg;
    int64_t bytes = arg < 0 ? 0 : b->args.items[arg].bytes;
    int64_t column = SPYRE_STICK_BYTES;         // one index (or stick) of the indexed dim
    for (uint32_t i = 0; i < tensor->order_count; i++) {
        uint32_t other = tensor->order[i];
        if (other == dim || !geometry->moves[other]) continue;
        if (__builtin_mul_overflow(column, geometry->extent[other], &column)) column = INT64_MAX;
    }
    if (bytes <= lowest) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "the extent of indexed dim %s is unknown: neither indexedDimSize_ nor "
                          "the size of launch argument %d is given",
                          step->dim_name[dim], arg);
    }
    int64_t extent = (bytes - lowest) / column;
    geometry->valid[dim] = extent * bundle_stick_span(tensor, dim);
    return NULL;
}

// Valid indices and extent of every dim but one whose extent the argument's size gives; that one
// comes last because it needs the others.
static spyre_status find_extents(const bundle *b, const bundle_step *step, uint32_t number,
                                 bundle_geometry *geometry)
{
    const bundle_tensor *tensor = &step->tensors[number];
    bool value = tensor->index_kind == BUNDLE_INDEX_VALUE;
    int32_t indexed = value ? bundle_indexed_dim(step, number) : -1;
    for (uint32_t i = 0; i < tensor->order_count; i++) {
        uint32_t d = tensor->order[i];
        if (tensor->scale[d] < 0) continue;
        int64_t gap = bundle_effective_gap(step, tensor, d);
        const bundle_window *window = bundle_window_of(step, number, d);
        int64_t size = window ? window_extent(window)
                       : tensor->in_lx ? bundle_held_size(step, tensor, d) : step->size[d];
        int64_t room = size + gap;
        if (gap < 0) geometry->valid[d] = step->size[d] + gap;
        if ((int32_t)d == indexed) room = geometry->valid[d] = tensor->indexed_extent;
        room = divide_up(room, bundle_stick_span(tensor, d));
        geometry->extent[d] = room;
        geometry->moves[d] = true;
    }
    if (indexed >= 0 && tensor->indexed_extent == 0) {
        uint32_t d = (uint32_t)indexed;
        TRY(extent_from_argument(b, step, tensor, d, geometry));
        geometry->extent[d] = divide_up(geometry->valid[d], bundle_stick_span(tensor, d));
    }
    return NULL;
}

// Strides that dim d really uses, fewer than its extent in a larger buffer.
static int64_t used_strides(const bundle_step *step, const bundle_tensor *tensor, uint32_t d,
                            const bundle_geometry *geometry)
{
    if (tensor->index_kind == BUNDLE_INDEX_VALUE && tensor->max_size[d] == 1) {
        return geometry->extent[d];
    }
    if (bundle_window_of(step, (uint32_t)(tensor - step->tensors), d)) return geometry->extent[d];
    int64_t count = tensor->in_lx ? bundle_held_size(step, tensor, d) : step->size[d];
    return divide_up(smaller(count, geometry->valid[d]), bundle_stick_span(tensor, d));
}

spyre_status bundle_tensor_geometry(const bundle *b, const bundle_step *step, uint32_t tensor,
                                    bundle_geometry *out)
{
    const bundle_tensor *t = &step->tensors[tensor];
    *out = (bundle_geometry){.bytes = SPYRE_STICK_BYTES};
    for (uint32_t d = 0; d < step->dim_count; d++) {
        out->extent[d] = 1;
        out->valid[d] = step->size[d];
    }
    TRY(status_at(find_extents(b, step, tensor, out), "%s", t->name));
    int64_t stride = SPYRE_STICK_BYTES;
    for (uint32_t i = 0; i < t->order_count; i++) {
        uint32_t d = t->order[i];
        if (!out->moves[d]) continue;
        if (out->extent[d] < 1) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "%s: dim %s has %lld strides with its gap, at least 1 is needed",
                              t->name, step->dim_name[d], (long long)out->extent[d]);
        }
        int64_t next;
        if (__builtin_mul_overflow(stride, out->extent[d], &next) ||
            next > (int64_t)BUNDLE_SEGMENT_BYTES) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "%s: the tensor is larger than a segment of 16 GiB", t->name);
        }
        out->stride[d] = stride;
        out->bytes += (used_strides(step, t, d, out) - 1) * stride;
        stride = next;
    }
    for (uint32_t n = 0; n < step->window_count && tensor == step->inputs[0]; n++) {
        const bundle_window *window = &step->windows[n];
        int64_t index = out->stride[window->dim];
        out->base -= window->front * index;
        out->stride[window->kernel] = window->dilation * index;
        out->stride[window->dim] = window->stride * index;
        out->moves[window->kernel] = true;
    }
    return NULL;
}
