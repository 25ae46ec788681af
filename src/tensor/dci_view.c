// SPDX-License-Identifier: Apache-2.0
//
// Transfers with another host tensor than the dense storage.
#include <stdbool.h>
#include <string.h>

#include "tensor/dci.h"

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
