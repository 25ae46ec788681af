// SPDX-License-Identifier: Apache-2.0
//
// Tensors of the card as memory that other ranks read and write.
#include "core.h"

// Elements of one dim that begin with a stick of a storage of one dim, and end with one or with the
// storage: as bytes they are what a tensor of their own would be.
static bool is_run_of_sticks(const tensor_info *t)
{
    const storage *s = t->storage;
    int64_t bytes = (int64_t)spyre_format_bytes(spyre_dtype_card_format(s->dtype));
    int64_t end = t->offset + t->numel;
    return t->rank == 1 && (t->stride[0] == 1 || t->numel == 1) && s->dense.rank == 1 &&
           s->dense.stride[0] == 1 && dtype_of_torch(t->torch_dtype) == s->dtype &&
           (t->offset * bytes) % SPYRE_STICK_BYTES == 0 &&
           ((end * bytes) % SPYRE_STICK_BYTES == 0 || end == s->dense.size[0]);
}

static bool has_default_layout(const storage *s)
{
    spyre_layout layout;
    return core_check(spyre_layout_dense(&s->dense, s->dtype, &layout)) &&
           spyre_layout_equal(&layout, &s->layout);
}

bool comm_is_direct(const void *tensor)
{
    tensor_info t;
    if (!tensor_describe(tensor_handle(tensor), &t)) return false;
    if (t.numel == 0) return true;
    if (!t.storage || !tensor_is_contiguous(&t) || glue_is_lazy(tensor) || !tensor_settle(&t) ||
        !t.storage->typed || storage_is_bytes(t.storage))
        return false;
    if (tensor_covers(&t)) return tensor_has_own_form(&t);
    return is_run_of_sticks(&t) && has_default_layout(t.storage);
}

// Bytes of a direct tensor, from its first stick on.
static int64_t bytes_on_card(const tensor_info *t, uint64_t *out_address)
{
    const storage *s = t->storage;
    *out_address = s->address;
    if (tensor_covers(t)) return s->card_bytes;
    int64_t element = (int64_t)spyre_format_bytes(spyre_dtype_card_format(s->dtype));
    *out_address += (uint64_t)(t->offset * element);
    return (t->numel * element + SPYRE_STICK_BYTES - 1) & ~(int64_t)(SPYRE_STICK_BYTES - 1);
}

bool comm_map(const void *tensor, bool writes, void **out_pointer, uint64_t *out_bytes)
{
    tensor_info t;
    *out_pointer = NULL;
    *out_bytes = 0;
    if (!tensor_describe(tensor_handle(tensor), &t)) return false;
    if (t.numel == 0) return true;
    storage *s = t.storage;
    uint64_t address;
    if (writes && !storage_own(s)) return false;
    int64_t bytes = bytes_on_card(&t, &address);
    s->settled = true;
    if (writes) s->read_as_is = s->read_otherwise = false;
    *out_bytes = (uint64_t)bytes;
    return core_check(spyre_memory_map(device_context(), s->card, stream_current(s->card), address,
                                       bytes, writes, out_pointer));
}

bool comm_model(uint32_t card, uint32_t stream, const spyre_exchange_info *info)
{
    spyre_context *context = device_context();
    return context && core_check(spyre_exchange(context, card, stream, info));
}

double comm_stream_clock_us(uint32_t card, uint32_t stream)
{
    spyre_context *context = device_context();
    return context ? spyre_stream_clock_us(context, card, stream) : 0;
}

double comm_host_clock_us(uint32_t card)
{
    spyre_context *context = device_context();
    return context ? spyre_host_clock_us(context, card) : 0;
}

void comm_fail(spyre_status error)
{
    (void)core_check(error);
}
