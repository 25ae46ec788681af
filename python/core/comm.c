// SPDX-License-Identifier: Apache-2.0
//
// Tensors of the card as memory that other ranks read and write.
#include "core.h"

static bool is_contiguous(const tensor_info *t)
{
    int64_t stride[CORE_MAX_RANK];
    if (t->rank > CORE_MAX_RANK) return false;
    tensor_contiguous_strides(t->rank, t->size, stride);
    return tensor_same_shape(t->rank, t->size, t->stride, t->size, stride);
}

bool comm_is_direct(const void *tensor)
{
    tensor_info t;
    if (!tensor_describe(tensor_handle(tensor), &t)) return false;
    if (t.numel == 0) return true;
    return t.storage && is_contiguous(&t) && !glue_is_lazy(tensor) && tensor_settle(&t) &&
           t.storage->typed && !storage_is_bytes(t.storage) && tensor_covers(&t) &&
           tensor_has_own_form(&t);
}

bool comm_map(const void *tensor, bool writes, void **out_pointer, uint64_t *out_bytes)
{
    tensor_info t;
    *out_pointer = NULL;
    *out_bytes = 0;
    if (!tensor_describe(tensor_handle(tensor), &t)) return false;
    if (t.numel == 0) return true;
    storage *s = t.storage;
    s->settled = true;
    if (writes) s->read_as_is = s->read_otherwise = false;
    *out_bytes = (uint64_t)s->card_bytes;
    return core_check(spyre_memory_map(device_context(), s->card, stream_current(s->card),
                                       s->address, s->card_bytes, writes, out_pointer));
}

void comm_fail(spyre_status error)
{
    (void)core_check(error);
}
