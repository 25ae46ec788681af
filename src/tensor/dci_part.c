// SPDX-License-Identifier: Apache-2.0
//
// Transfers of a part of a storage. A copy's host offset is taken apart into indices of the
// storage's dims, and its loops are shortened to those that the part touches.
#include <stdbool.h>
#include <string.h>

#include "base/integer.h"
#include "tensor/dci.h"

typedef struct {
    uint32_t dims[SPYRE_MAX_RANK];      // of the storage, by descending stride
    uint32_t dim_count;
    int64_t stride[SPYRE_MAX_RANK];
    int64_t size[SPYRE_MAX_RANK];
    int64_t first[SPYRE_MAX_RANK];      // indices, both ends included
    int64_t last[SPYRE_MAX_RANK];
    int64_t step[SPYRE_MAX_RANK];       // above 1: no other index is touched
    bool is_run;                        // all elements from the first to the last
} box;

static void split_offset(const box *b, int64_t offset, int64_t *out_index)
{
    for (uint32_t k = 0; k < b->dim_count; k++) {
        out_index[k] = offset / b->stride[k];
        offset %= b->stride[k];
    }
}

// The dim that a step is of.
static uint32_t dim_of_step(const box *b, int64_t step)
{
    uint32_t k = 0;
    while (k + 1 < b->dim_count && b->stride[k] > step) k++;
    return k;
}

// Every dim of the part walks along one dim of the storage; false when one carries into the next.
static bool find_slices(box *b, const spyre_view *part)
{
    bool walked[SPYRE_MAX_RANK] = {false};
    memcpy(b->last, b->first, sizeof b->last);
    for (uint32_t i = 0; i < part->rank; i++) {
        if (part->size[i] == 1 || part->stride[i] == 0) continue;
        uint32_t k = dim_of_step(b, part->stride[i]);
        if (part->stride[i] % b->stride[k] != 0) return false;
        int64_t step = part->stride[i] / b->stride[k];
        b->step[k] = walked[k] ? 1 : step;
        walked[k] = true;
        b->last[k] += (part->size[i] - 1) * step;
        if (b->last[k] >= b->size[k]) return false;
    }
    return true;
}

// All elements from the first to the last one: dims below the first that differs are whole.
static void find_range(box *b, int64_t last_offset)
{
    split_offset(b, last_offset, b->last);
    b->is_run = true;
    uint32_t k = 0;
    while (k < b->dim_count && b->first[k] == b->last[k]) k++;
    for (k++; k < b->dim_count; k++) {
        b->first[k] = 0;
        b->last[k] = b->size[k] - 1;
    }
    for (k = 0; k < b->dim_count; k++) b->step[k] = 1;
}

static bool find_box(const spyre_view *storage, const spyre_view *part, box *out_box)
{
    *out_box = (box){.dim_count = 0};
    out_box->dim_count = dci_sort_dims(storage, out_box->dims);
    int64_t elements = 1, first = part->offset - storage->offset, last = first;
    for (uint32_t k = 0; k < out_box->dim_count; k++) {
        out_box->size[k] = storage->size[out_box->dims[k]];
        out_box->stride[k] = storage->stride[out_box->dims[k]];
        out_box->step[k] = 1;
        elements *= out_box->size[k];
    }
    for (uint32_t i = 0; i < part->rank; i++) {
        int64_t reach;
        if (part->stride[i] < 0 || part->size[i] <= 0) return false;
        if (__builtin_mul_overflow(part->size[i] - 1, part->stride[i], &reach)) return false;
        if (__builtin_add_overflow(last, reach, &last)) return false;
    }
    if (first < 0 || last >= elements) return false;
    split_offset(out_box, first, out_box->first);
    if (!find_slices(out_box, part)) {
        split_offset(out_box, first, out_box->first);
        find_range(out_box, last);
    }
    return true;
}

// The loop of dim `k` with the longest step below `limit`, or the copy's rank.
static uint32_t longest_loop(const dci_copy *copy, const box *b, uint32_t k, int64_t limit)
{
    uint32_t longest = copy->rank;
    for (uint32_t i = 0; i < copy->rank; i++) {
        if (copy->size[i] <= 1 || copy->host_stride[i] >= limit) continue;
        if (dim_of_step(b, copy->host_stride[i]) != k) continue;
        if (longest == copy->rank || copy->host_stride[i] > copy->host_stride[longest]) longest = i;
    }
    return longest;
}

// How far the loops of dim `k` with steps below `limit` reach, in indices of the dim.
static int64_t reach_of_loops(const dci_copy *copy, const box *b, uint32_t k, int64_t limit)
{
    int64_t reach = 0;
    for (uint32_t i = 0; i < copy->rank; i++) {
        if (copy->size[i] <= 1 || copy->host_stride[i] >= limit) continue;
        if (dim_of_step(b, copy->host_stride[i]) == k)
            reach += (copy->size[i] - 1) * (copy->host_stride[i] / b->stride[k]);
    }
    return reach;
}

// One loop walks all of the dim, index by index, so that it can leave some out.
static bool walks_by_one(const dci_copy *copy, const box *b, uint32_t k, uint32_t *out_loop)
{
    uint32_t i = longest_loop(copy, b, k, INT64_MAX);
    *out_loop = i;
    return i < copy->rank && copy->host_stride[i] == b->stride[k] && copy->size[i] == b->size[k];
}

static bool all_walk_by_one(const dci *transfer, const box *b, uint32_t k)
{
    uint32_t loop;
    for (uint32_t n = 0; n < transfer->copy_count; n++)
        if (!walks_by_one(&transfer->copies[n], b, k, &loop)) return false;
    return true;
}

static void step_over(dci_copy *copy, const box *b, uint32_t k)
{
    uint32_t i;
    if (!walks_by_one(copy, b, k, &i)) return;
    copy->host_offset += b->first[k] * copy->host_stride[i];
    copy->card_offset += b->first[k] * copy->card_stride[i];
    copy->size[i] = (b->last[k] - b->first[k]) / b->step[k] + 1;
    copy->host_stride[i] *= b->step[k];
    copy->card_stride[i] *= b->step[k];
}

// Shortens the loops of one dim, the longest steps first, up to one that keeps several steps.
// `index` is where they begin.
static void shorten_dim(dci_copy *copy, const box *b, uint32_t k, int64_t index)
{
    for (int64_t limit = INT64_MAX;;) {
        uint32_t i = longest_loop(copy, b, k, limit);
        if (i == copy->rank) {
            if (index < b->first[k] || index > b->last[k]) copy->size[0] = 0;
            return;
        }
        limit = copy->host_stride[i];
        int64_t step = limit / b->stride[k];
        int64_t before = b->first[k] - reach_of_loops(copy, b, k, limit) - index;
        int64_t begin = before > 0 ? divide_up(before, step) : 0;
        int64_t end = b->last[k] < index ? 0 : (b->last[k] - index) / step + 1;
        if (end > copy->size[i]) end = copy->size[i];
        copy->size[i] = end > begin ? end - begin : 0;
        copy->host_offset += begin * copy->host_stride[i];
        copy->card_offset += begin * copy->card_stride[i];
        index += begin * step;
        if (copy->size[i] != 1) return;
    }
}

// False when a loop walks along several dims, as in flattened layouts.
static bool stays_in_dims(const dci_copy *copy, const box *b, const int64_t *index)
{
    for (uint32_t i = 0; i < copy->rank; i++) {
        if (copy->size[i] <= 1) continue;
        if (copy->host_stride[i] % b->stride[dim_of_step(b, copy->host_stride[i])] != 0)
            return false;
    }
    for (uint32_t k = 0; k < b->dim_count; k++)
        if (index[k] + reach_of_loops(copy, b, k, INT64_MAX) >= b->size[k]) return false;
    return true;
}

void dci_use_part(dci *transfer, const spyre_view *storage, const spyre_view *part)
{
    box b;
    if (!find_box(storage, part, &b)) return;
    for (uint32_t k = 0; k < b.dim_count; k++)
        if (b.step[k] > 1 && !all_walk_by_one(transfer, &b, k)) b.step[k] = 1;
    for (uint32_t n = 0; n < transfer->copy_count; n++) {
        dci_copy *copy = &transfer->copies[n];
        int64_t index[SPYRE_MAX_RANK];
        split_offset(&b, copy->host_offset - storage->offset, index);
        if (!stays_in_dims(copy, &b, index)) continue;
        for (uint32_t k = 0; k < b.dim_count; k++) {
            if (b.step[k] > 1)
                step_over(copy, &b, k);
            else
                shorten_dim(copy, &b, k, index[k]);
        }
    }
}

int64_t dci_card_bytes(const dci *transfer)
{
    int64_t elements = 0;
    for (uint32_t n = 0; n < transfer->copy_count; n++) {
        int64_t of_copy = 1;
        for (uint32_t i = 0; i < transfer->copies[n].rank; i++)
            of_copy *= transfer->copies[n].size[i];
        elements += of_copy;
    }
    return elements * spyre_format_bytes(transfer->card_format);
}

// --- A host buffer of what moves

// The indices of a dim that move: from low to high, `unit` apart, and how far apart they are in the
// buffer.
typedef struct {
    int64_t low, high, unit, stride;
} moved_dim;

static bool has_elements(const dci_copy *copy)
{
    for (uint32_t i = 0; i < copy->rank; i++)
        if (copy->size[i] == 0) return false;
    return true;
}

static void note_moved(const dci_copy *copy, const box *b, const int64_t *index, bool first,
                       moved_dim *dims)
{
    for (uint32_t k = 0; k < b->dim_count; k++) {
        moved_dim *d = &dims[k];
        int64_t high = index[k] + reach_of_loops(copy, b, k, INT64_MAX);
        if (first) *d = (moved_dim){.low = index[k], .high = high};
        d->unit = common_divisor(d->unit, index[k] > d->low ? index[k] - d->low
                                                              : d->low - index[k]);
        if (index[k] < d->low) d->low = index[k];
        if (high > d->high) d->high = high;
    }
    for (uint32_t i = 0; i < copy->rank; i++) {
        if (copy->size[i] <= 1) continue;
        uint32_t k = dim_of_step(b, copy->host_stride[i]);
        dims[k].unit = common_divisor(dims[k].unit, copy->host_stride[i] / b->stride[k]);
    }
}

// False when nothing moves, or a loop walks along several dims.
static bool find_moved(const dci *transfer, const spyre_view *storage, const box *b,
                       moved_dim *dims, int64_t *out_elements)
{
    bool found = false;
    for (uint32_t n = 0; n < transfer->copy_count; n++) {
        const dci_copy *copy = &transfer->copies[n];
        int64_t index[SPYRE_MAX_RANK];
        if (!has_elements(copy)) continue;
        split_offset(b, copy->host_offset - storage->offset, index);
        if (!stays_in_dims(copy, b, index)) return false;
        note_moved(copy, b, index, !found, dims);
        found = true;
    }
    *out_elements = 1;
    for (uint32_t k = b->dim_count; found && k-- > 0;) {
        if (dims[k].unit == 0) dims[k].unit = 1;
        dims[k].stride = *out_elements;
        *out_elements *= (dims[k].high - dims[k].low) / dims[k].unit + 1;
    }
    return found;
}

static int64_t packed_offset(const box *b, const moved_dim *dims, const int64_t *index)
{
    int64_t offset = 0;
    for (uint32_t k = 0; k < b->dim_count; k++)
        offset += (index[k] - dims[k].low) / dims[k].unit * dims[k].stride;
    return offset;
}

// The part's strides in the buffer; false when it steps between the indices that move.
static bool pack_part(const box *b, const moved_dim *dims, const spyre_view *storage,
                      const spyre_view *part, spyre_view *out_part)
{
    int64_t index[SPYRE_MAX_RANK];
    split_offset(b, part->offset - storage->offset, index);
    for (uint32_t k = 0; k < b->dim_count; k++) {
        bool keeps_stride = dims[k].high == dims[k].low || dims[k].stride == b->stride[k];
        if (b->is_run && !keeps_stride) return false;
        if ((index[k] - dims[k].low) % dims[k].unit) return false;
    }
    *out_part = *part;
    out_part->offset = packed_offset(b, dims, index);
    for (uint32_t i = 0; !b->is_run && i < part->rank; i++) {
        if (part->size[i] == 1 || part->stride[i] == 0) continue;
        uint32_t k = dim_of_step(b, part->stride[i]);
        int64_t step = part->stride[i] / b->stride[k];
        if (step % dims[k].unit) return false;
        out_part->stride[i] = step / dims[k].unit * dims[k].stride;
    }
    return true;
}

static void pack_copy(dci_copy *copy, const box *b, const moved_dim *dims,
                      const spyre_view *storage)
{
    int64_t index[SPYRE_MAX_RANK];
    if (!has_elements(copy)) return;
    split_offset(b, copy->host_offset - storage->offset, index);
    copy->host_offset = packed_offset(b, dims, index);
    for (uint32_t i = 0; i < copy->rank; i++) {
        if (copy->size[i] <= 1) continue;
        uint32_t k = dim_of_step(b, copy->host_stride[i]);
        copy->host_stride[i] = copy->host_stride[i] / b->stride[k] / dims[k].unit * dims[k].stride;
    }
}

bool dci_pack(dci *transfer, const spyre_view *storage, const spyre_view *part,
              spyre_view *out_part, int64_t *out_elements)
{
    box b;
    moved_dim dims[SPYRE_MAX_RANK];
    if (!find_box(storage, part, &b) || !find_moved(transfer, storage, &b, dims, out_elements) ||
        !pack_part(&b, dims, storage, part, out_part))
        return false;
    for (uint32_t n = 0; n < transfer->copy_count; n++)
        pack_copy(&transfer->copies[n], &b, dims, storage);
    return true;
}
