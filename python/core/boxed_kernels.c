// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the dispatcher in C: their registration and arguments (StableIValue).
#include "core.h"

int64_t kernel_take_ints(StableIValue list, int64_t *out, int64_t capacity)
{
    StableListHandle handle = (StableListHandle)(uintptr_t)list;
    size_t size = 0;
    bool ok = core_shim(torch_list_size(handle, &size));
    if (ok && (int64_t)size > capacity)
        ok = core_fail(SPYRE_UNSUPPORTED, "Unsupported tensor rank: %zu is above %lld", size,
                       (long long)capacity);
    for (size_t i = 0; ok && i < size; i++) {
        StableIValue item;
        ok = core_shim(torch_list_get_item(handle, i, &item));
        if (ok) out[i] = (int64_t)item;
    }
    torch_delete_list(handle);
    return ok ? (int64_t)size : -1;
}

int64_t kernel_take_view(const StableIValue lists[2], int64_t *out_size, int64_t *out_stride,
                         int64_t capacity)
{
    int64_t rank = kernel_take_ints(lists[0], out_size, capacity);
    int64_t strides = kernel_take_ints(lists[1], out_stride, capacity);
    if (rank < 0 || strides < 0) return -1;
    if (rank == strides) return rank;
    core_fail(SPYRE_INVALID_ARGUMENT, "mismatch in length of strides and shape");
    return -1;
}

bool kernel_take_optional(StableIValue value, StableIValue *out)
{
    if (!value) return false;
    StableIValue *box = (StableIValue *)(uintptr_t)value;
    *out = *box;
    torch_delete_stable_ivalue(box);
    return true;
}

bool kernel_register(const char *op, boxed_kernel *kernel)
{
    static TorchLibraryHandle aten;
    return (aten || core_shim(aoti_torch_library_init_impl("aten", "PrivateUse1", "torch_spyre", 0,
                                                           &aten))) &&
           core_shim(torch_library_impl(aten, op, kernel, SHIM_VERSION));
}
