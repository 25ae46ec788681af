// SPDX-License-Identifier: Apache-2.0
//
// Transfers of other views than the dense storage: another host tensor, or a part of the storage.
// Both take a copy's host offset apart into indices of the storage's dims.
#include <stdbool.h>
#include <string.h>

#include "tensor/dci.h"

// --- Other host views

// Rewrites one copy from offsets of the dense storage to those of the view. Each loop must stay
// inside one host dim, and the loops of one dim together must not carry into the next.
static bool move_copy(dci_copy *copy, const spyre_view *storage, const spyre_view *view,
                      const uint32_t *dims, uint32_t dim_count)
{
    int64_t index[SPYRE_MAX_RANK] = {0};
    int64_t rest = copy->host_offset - storage->offset;
    int64_t offset = view->offset;
    for (uint32_t k = 0; k < dim_count; k++) {
        uint32_t i = dims[k];
        index[i] = rest / storage->stride[i];
        rest %= storage->stride[i];
        offset += index[i] * view->stride[i];
    }
    for (uint32_t loop = 0; loop < copy->rank; loop++) {
        if (copy->size[loop] == 1) continue;
        uint32_t k = 0;
        while (storage->stride[dims[k]] > copy->host_stride[loop]) k++;
        uint32_t i = dims[k];
        int64_t step = copy->host_stride[loop] / storage->stride[i];
        if (copy->host_stride[loop] % storage->stride[i] != 0) return false;
        index[i] += (copy->size[loop] - 1) * step;
        if (index[i] >= storage->size[i]) return false;
        copy->host_stride[loop] = step * view->stride[i];
    }
    copy->host_offset = offset;
    return true;
}

spyre_status dci_use_host_view(dci *transfer, const spyre_view *storage, const spyre_view *view)
{
    bool same = view->rank == storage->rank;
    for (uint32_t i = 0; same && i < view->rank; i++) same = view->size[i] == storage->size[i];
    if (!same) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "Invalid device sizes for host sizes: the view differs from the tensor");
    }
    uint32_t dims[SPYRE_MAX_RANK];
    uint32_t dim_count = dci_sort_dims(storage, dims);
    for (uint32_t i = 0; i < transfer->copy_count; i++) {
        if (move_copy(&transfer->copies[i], storage, view, dims, dim_count)) continue;
        return status_new(SPYRE_UNSUPPORTED,
                          "layout spans several host dims, the host view must be dense");
    }
    return NULL;
}

// --- Parts of a storage

typedef struct {
    uint32_t dims[SPYRE_MAX_RANK];      // of the storage, by descending stride
    uint32_t dim_count;
    int64_t stride[SPYRE_MAX_RANK];
    int64_t size[SPYRE_MAX_RANK];
    int64_t first[SPYRE_MAX_RANK];      // indices, both ends included
    int64_t last[SPYRE_MAX_RANK];
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
    memcpy(b->last, b->first, sizeof b->last);
    for (uint32_t i = 0; i < part->rank; i++) {
        if (part->size[i] == 1 || part->stride[i] == 0) continue;
        uint32_t k = dim_of_step(b, part->stride[i]);
        if (part->stride[i] % b->stride[k] != 0) return false;
        b->last[k] += (part->size[i] - 1) * (part->stride[i] / b->stride[k]);
        if (b->last[k] >= b->size[k]) return false;
    }
    return true;
}

// All elements from the first to the last one: dims below the first that differs are whole.
static void find_range(box *b, int64_t last_offset)
{
    split_offset(b, last_offset, b->last);
    uint32_t k = 0;
    while (k < b->dim_count && b->first[k] == b->last[k]) k++;
    for (k++; k < b->dim_count; k++) {
        b->first[k] = 0;
        b->last[k] = b->size[k] - 1;
    }
}

static bool find_box(const spyre_view *storage, const spyre_view *part, box *out_box)
{
    *out_box = (box){.dim_count = 0};
    out_box->dim_count = dci_sort_dims(storage, out_box->dims);
    int64_t elements = 1, first = part->offset - storage->offset, last = first;
    for (uint32_t k = 0; k < out_box->dim_count; k++) {
        out_box->size[k] = storage->size[out_box->dims[k]];
        out_box->stride[k] = storage->stride[out_box->dims[k]];
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
        int64_t begin = before > 0 ? (before + step - 1) / step : 0;
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
    for (uint32_t n = 0; n < transfer->copy_count; n++) {
        dci_copy *copy = &transfer->copies[n];
        int64_t index[SPYRE_MAX_RANK];
        split_offset(&b, copy->host_offset - storage->offset, index);
        if (!stays_in_dims(copy, &b, index)) continue;
        for (uint32_t k = 0; k < b.dim_count; k++) shorten_dim(copy, &b, k, index[k]);
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
