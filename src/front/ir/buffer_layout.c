// SPDX-License-Identifier: Apache-2.0
//
// Between the two descriptions of where a buffer lies: spyre_layout, which lists device dims, and
// loop_buffer, which orders host dims. Only layouts whose device dims are whole host dims (and the
// tiles of one) have both.
#include "base/integer.h"
#include "front/front.h"

#include <inttypes.h>

spyre_status front_take_layout(arena *memory, loop_buffer *buffer, const spyre_layout *layout)
{
    int64_t *fixed_size;
    TRY(spyre_layout_check(layout));
    int64_t lanes = layout->device_size[layout->rank - 1];
    int64_t stick_stride = layout->stride_map[layout->rank - 1];
    buffer->format = layout->format;
    buffer->stick = LOOP_NO_DIM;
    for (uint8_t d = 0; d < buffer->dim_count; d++)
        if (stick_stride > 0 && buffer->dim[d].stride == stick_stride) buffer->stick = d;
    TRY(loop_own_sizes(memory, buffer, &fixed_size));
    uint32_t count = 0;
    bool placed[LOOP_MAX_DIMS] = {false};
    for (uint32_t i = layout->rank - 1; i-- > 0;) {
        int64_t size = layout->device_size[i], stride = layout->stride_map[i];
        if (size == 1) continue;
        uint8_t found = LOOP_NO_DIM;
        for (uint8_t d = 0; d < buffer->dim_count; d++) {
            const loop_dim *dim = &buffer->dim[d];
            bool tiles = d == buffer->stick && stride == dim->stride * lanes &&
                         size == divide_up(dim->extent, lanes);
            bool whole = d != buffer->stick && stride == dim->stride && size >= dim->extent;
            if (!placed[d] && (tiles || whole)) found = d;
        }
        if (found == LOOP_NO_DIM)
            return status_new(SPYRE_UNSUPPORTED,
                              "device dim %u of size %" PRId64 " and stride %" PRId64
                              " is no dim of the host tensor",
                              i, size, stride);
        placed[found] = true;
        fixed_size[found] = size;
        buffer->order[count++] = found;
    }
    for (uint8_t d = 0; d < buffer->dim_count; d++) {
        if (placed[d]) continue;
        if (d != buffer->stick || buffer->dim[d].extent > lanes)
            return status_new(SPYRE_UNSUPPORTED, "host dim of stride %" PRId64 " has no device dim",
                              buffer->dim[d].stride);
        buffer->order[count++] = d; // one tile: it takes no room
    }
    buffer->has_layout = true;
    return NULL;
}

void front_set_default_order(loop_buffer *buffer)
{
    uint32_t rank = buffer->storage.rank;
    uint8_t of_host[SPYRE_MAX_RANK];
    for (uint32_t h = 0; h < rank; h++) {
        of_host[h] = LOOP_NO_DIM;
        if (buffer->storage.size[h] < 2) continue;
        for (uint8_t d = 0; d < buffer->dim_count; d++)
            if (buffer->dim[d].stride == buffer->storage.stride[h]) of_host[h] = d;
    }
    if (rank == 0) return;
    uint32_t count = 0, last = rank - 1;
    if (rank > 1 && of_host[0] != LOOP_NO_DIM) buffer->order[count++] = of_host[0];
    if (of_host[last] != LOOP_NO_DIM) buffer->order[count++] = of_host[last];
    for (uint32_t h = last; h-- > 1;)
        if (of_host[h] != LOOP_NO_DIM) buffer->order[count++] = of_host[h];
}

spyre_layout front_device_dims(const loop_buffer *buffer)
{
    spyre_layout out = {.format = buffer->format};
    int64_t lanes = loop_lanes(buffer);
    bool sparse = buffer->stick == LOOP_NO_DIM;
    for (uint32_t i = buffer->dim_count; i-- > 0;) {
        uint8_t d = buffer->order[i];
        out.device_size[out.rank] = loop_allocated_extent(buffer, d);
        out.stride_map[out.rank++] = buffer->dim[d].stride * (d == buffer->stick ? lanes : 1);
    }
    out.device_size[out.rank] = lanes;
    out.stride_map[out.rank++] = sparse ? -1 : buffer->dim[buffer->stick].stride;
    return out;
}

// An input's layout may have more room than its dims need.
static bool is_roomy(const loop_buffer *buffer)
{
    bool roomy = false;
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        roomy |= loop_allocated_extent(buffer, d) > loop_device_extent(buffer, d);
    return roomy;
}

spyre_status front_buffer_layout(const loop_buffer *buffer, spyre_layout *out)
{
    if (buffer->stick != LOOP_NO_DIM && !is_roomy(buffer)) {
        spyre_layout standard;
        TRY(spyre_layout_default(buffer->storage.size, buffer->storage.rank, buffer->dtype,
                                 &standard));
        // The default layout where it means the same: it also keeps host dims of size 1.
        loop_buffer same = *buffer;
        uint32_t rank = buffer->storage.rank;
        int64_t dense = 1;
        bool contiguous = true;
        for (uint32_t h = rank; h-- > 0;) {
            contiguous &= buffer->storage.size[h] == 1 || buffer->storage.stride[h] == dense;
            dense *= buffer->storage.size[h];
        }
        if (contiguous && rank && buffer->storage.size[rank - 1] > 1 && buffer->stick == 0) {
            front_set_default_order(&same);
            bool equal = true;
            for (uint32_t i = 0; i < buffer->dim_count; i++)
                equal &= same.order[i] == buffer->order[i];
            if (equal) {
                *out = standard;
                return NULL;
            }
        }
    }
    *out = front_device_dims(buffer);
    if (out->rank == 1) {
        out->device_size[1] = out->device_size[0];
        out->stride_map[1] = out->stride_map[0];
        out->device_size[0] = 1;
        out->stride_map[0] = -1;
        out->rank = 2;
    }
    return spyre_layout_check(out);
}
