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

bool kernel_take_optional(StableIValue value, StableIValue *out)
{
    if (!value) return false;
    StableIValue *box = (StableIValue *)(uintptr_t)value;
    *out = *box;
    torch_delete_stable_ivalue(box);
    return true;
}

bool kernel_register(const char *key, const char *op, boxed_kernel *kernel)
{
    static TorchLibraryHandle aten;
    if (!aten && !core_shim(aoti_torch_library_init_impl("aten", key, "torch_spyre", 0, &aten)))
        return false;
    return core_shim(torch_library_impl(aten, op, kernel, SHIM_VERSION));
}
