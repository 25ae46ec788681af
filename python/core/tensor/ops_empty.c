// SPDX-License-Identifier: Apache-2.0
//
// `aten::empty*` on the card, and `spyre::_empty_with_layout`.
#include "core.h"

// The dtype of torch.get_default_dtype(), which the C interface shows only on a new tensor.
static bool default_dtype(int32_t *out)
{
    StableIValue stack[6] = {0};
    StableListHandle sizes;
    StableIValue *device;
    if (!core_shim(torch_new_list_reserve_size(0, &sizes)) ||
        !core_shim(torch_new_stable_ivalue(&device)))
        return false;
    *device = (uint64_t)(uint32_t)aoti_torch_device_type_cpu() << 32 | UINT32_MAX;
    stack[0] = (StableIValue)(uintptr_t)sizes;
    stack[3] = (StableIValue)(uintptr_t)device;
    if (!core_shim(torch_call_dispatcher("aten::empty", "memory_format", stack, SHIM_VERSION)))
        return false;
    AtenTensorHandle made = (AtenTensorHandle)(uintptr_t)stack[0];
    bool ok = core_shim(aoti_torch_get_dtype(made, out));
    aoti_torch_delete_tensor_object(made);
    return ok;
}

// options: dtype, layout, device, pin_memory, each optional.
static bool take_options(const StableIValue *options, int32_t *dtype, uint32_t *card)
{
    StableIValue value;
    bool ok = true;
    bool has_dtype = kernel_take_optional(options[0], &value);
    if (has_dtype) *dtype = (int32_t)value;
    if (kernel_take_optional(options[1], &value) && (int32_t)value != aoti_torch_layout_strided())
        ok = core_fail(SPYRE_UNSUPPORTED, "Non strided layout not supported");
    *card = (uint32_t)device_current();
    if (kernel_take_optional(options[2], &value)) {
        int32_t index = (int32_t)(uint32_t)value;
        if (index >= 0) *card = (uint32_t)index;
    }
    if (kernel_take_optional(options[3], &value) && (value & 1))
        ok = core_fail(SPYRE_UNSUPPORTED, "Pin memory can only be on CPU");
    return ok && (has_dtype || default_dtype(dtype));
}

static void empty_strided(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK];
    int32_t dtype;
    uint32_t card;
    AtenTensorHandle made;
    int64_t rank = kernel_take_view(stack, size, stride, CORE_MAX_RANK);
    if (rank < 0 || !take_options(stack + 2, &dtype, &card) ||
        !tensor_create(rank, size, stride, dtype, card, &made))
        glue_throw();
    glue_settle_new(made);
    stack[0] = (StableIValue)(uintptr_t)made;
}

// Strides of a dense tensor whose dims lie in `order`, the innermost first.
static void ordered_strides(int64_t rank, const int64_t *size, const int8_t *order, int64_t *stride)
{
    int64_t step = 1;
    for (int64_t i = 0; i < rank; i++) {
        stride[order[i]] = step;
        step *= size[order[i]];
    }
}

// Strides of a memory format; channels_last has the channels innermost, then the places backwards.
static bool format_strides(int32_t format, int64_t rank, const int64_t *size, int64_t *stride)
{
    static const int8_t planes[] = {1, 3, 2, 0}, volumes[] = {1, 4, 3, 2, 0};
    bool flat = format == aoti_torch_memory_format_channels_last();
    if (!flat && format != aoti_torch_memory_format_channels_last_3d()) {
        tensor_contiguous_strides(rank, size, stride);
        return true;
    }
    if (rank != (flat ? 4 : 5))
        return core_fail(SPYRE_INVALID_ARGUMENT, "required rank %d tensor to use %s format",
                         flat ? 4 : 5, flat ? "channels_last" : "channels_last_3d");
    ordered_strides(rank, size, flat ? planes : volumes, stride);
    return true;
}

static void empty(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK];
    int32_t dtype;
    uint32_t card;
    AtenTensorHandle made;
    StableIValue given;
    int64_t rank = kernel_take_ints(stack[0], size, CORE_MAX_RANK);
    bool ok = take_options(stack + 1, &dtype, &card) && rank >= 0;
    int32_t format = kernel_take_optional(stack[5], &given)
                         ? (int32_t)given
                         : aoti_torch_memory_format_contiguous_format();
    if (!ok || !format_strides(format, rank, size, stride) ||
        !tensor_create(rank, size, stride, dtype, card, &made))
        glue_throw();
    glue_settle_new(made);
    stack[0] = (StableIValue)(uintptr_t)made;
}

// The layout that the thread's next spyre::_empty_with_layout names by its address.
static _Thread_local spyre_layout layout_of_next;

static void empty_with_layout(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    spyre_view dense = {.rank = 0};
    int64_t rank = kernel_take_view(stack, dense.size, dense.stride, SPYRE_MAX_RANK), elements;
    int64_t card = (int64_t)stack[4];
    spyre_dtype dtype;
    AtenTensorHandle made;
    if (rank < 0 || !tensor_count_elements(rank, dense.size, dense.stride, &elements) ||
        !dtype_of_card((int32_t)stack[2], &dtype) || !device_check(card))
        glue_throw();
    if (stack[3] != (uintptr_t)&layout_of_next) {
        core_fail(SPYRE_INVALID_ARGUMENT, "a layout that _layout_address() did not give");
        glue_throw();
    }
    dense.rank = (uint32_t)rank;
    tensor_info t;
    if (!tensor_create_laid_out(dtype, &dense, &layout_of_next, &dense, (uint32_t)card, &made) ||
        !tensor_describe(made, &t))
        glue_throw();
    if (t.storage) t.storage->settled = true;
    stack[0] = (StableIValue)(uintptr_t)made;
}

static PyObject *py_layout_address(PyObject *Py_UNUSED(self), PyObject *object)
{
    if (!layout_of_object(object, &layout_of_next)) return NULL;
    return PyLong_FromVoidPtr(&layout_of_next);
}

static PyMethodDef methods[] = {
    {"_layout_address", py_layout_address, METH_O, "For spyre::empty_with_layout, once."},
    {NULL, NULL, 0, NULL},
};

bool empty_register(PyObject *module)
{
    static TorchLibraryHandle spyre, implementation;
    return kernel_register("empty.memory_format", empty) &&
           kernel_register("empty_strided", empty_strided) &&
           core_shim(aoti_torch_library_init_fragment("spyre", "torch_spyre", 0, &spyre)) &&
           core_shim(aoti_torch_library_def(
               spyre, "_empty_with_layout(int[] size, int[] stride, ScalarType dtype, int layout, "
                      "int card) -> Tensor")) &&
           core_shim(aoti_torch_library_init_impl("spyre", "CompositeExplicitAutograd",
                                                  "torch_spyre", 0, &implementation)) &&
           core_shim(torch_library_impl(implementation, "_empty_with_layout", empty_with_layout,
                                        SHIM_VERSION)) &&
           PyModule_AddFunctions(module, methods) == 0;
}
