// SPDX-License-Identifier: Apache-2.0
//
// Tensors of the card: reading what PyTorch knows of one, making one, `aten::empty*`.
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "glue.h"

static int32_t device_type_spyre;

// as_strided(), set_() and a storage that shrinks can leave a tensor larger than its storage.
static bool lies_in_storage(const tensor_info *t)
{
    int64_t last = t->offset, reach;
    bool bad = t->offset < 0;
    for (int64_t i = 0; i < t->rank; i++)
        bad |= t->stride[i] < 0 || __builtin_mul_overflow(t->size[i] - 1, t->stride[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
    if (!bad && last < t->storage->host_bytes / (int64_t)t->element_bytes) return true;
    return core_fail(SPYRE_INVALID_ARGUMENT,
                     "sizes, strides and storage offset %lld are out of bounds for a storage of "
                     "%lld bytes",
                     (long long)t->offset, (long long)t->storage->host_bytes);
}

bool tensor_describe(AtenTensorHandle handle, tensor_info *out)
{
    void *data;
    int64_t *size, *stride;
    out->handle = handle;
    if (!core_shim(aoti_torch_get_dim(handle, &out->rank)) ||
        !core_shim(aoti_torch_get_sizes(handle, &size)) ||
        !core_shim(aoti_torch_get_strides(handle, &stride)) ||
        !core_shim(aoti_torch_get_numel(handle, &out->numel)) ||
        !core_shim(aoti_torch_get_storage_offset(handle, &out->offset)) ||
        !core_shim(aoti_torch_get_dtype(handle, &out->torch_dtype)) ||
        !core_shim(aoti_torch_get_device_type(handle, &out->device_type)) ||
        !core_shim(aoti_torch_get_device_index(handle, &out->device_index)) ||
        !core_shim(aoti_torch_get_data_ptr(handle, &data)))
        return false;
    out->size = size;
    out->stride = stride;
    out->element_bytes = aoti_torch_dtype_element_size(out->torch_dtype);
    // A tensor without elements reads as null wherever it lies.
    out->base = data ? (char *)data - out->offset * (int64_t)out->element_bytes : NULL;
    out->storage = NULL;
    if (out->device_type != device_type_spyre) return true;
    out->storage = out->base ? storage_of(out->base) : NULL;
    if (out->numel == 0) return true;
    if (out->storage) return lies_in_storage(out);
    return core_fail(SPYRE_INVALID_ARGUMENT, "a spyre tensor without storage (%lld elements)",
                     (long long)out->numel);
}

AtenTensorHandle glue_handle(const void *tensor)
{
    return (AtenTensorHandle)(uintptr_t)tensor;
}

bool tensor_of_object(PyObject *object, tensor_info *out)
{
    const void *tensor = glue_from_python(object);
    if (tensor) return tensor_describe(glue_handle(tensor), out);
    PyErr_SetString(PyExc_TypeError, "expected a tensor");
    return false;
}

bool tensor_view(const tensor_info *t, spyre_view *out)
{
    if (t->rank > SPYRE_MAX_RANK)
        return core_fail(SPYRE_UNSUPPORTED, "Unsupported tensor rank: %lld is above %d",
                         (long long)t->rank, SPYRE_MAX_RANK);
    memset(out, 0, sizeof *out);
    out->rank = (uint32_t)t->rank;
    for (int64_t i = 0; i < t->rank; i++) {
        out->size[i] = t->size[i];
        out->stride[i] = t->stride[i];
    }
    out->offset = t->offset;
    return true;
}

void tensor_contiguous_strides(int64_t rank, const int64_t *size, int64_t *out_stride)
{
    int64_t step = 1;
    for (int64_t i = rank; i-- > 0;) {
        out_stride[i] = step;
        step *= size[i] > 1 ? size[i] : 1;
    }
}

// Some order of the dims tiles memory without gap or overlap.
static bool is_dense(const spyre_view *view)
{
    int64_t step = 1;
    uint32_t left = 0;
    bool used[SPYRE_MAX_RANK] = {false};
    for (uint32_t i = 0; i < view->rank; i++) {
        used[i] = view->size[i] == 1;
        left += !used[i];
    }
    while (left > 0) {
        uint32_t next = 0;
        while (next < view->rank && (used[next] || view->stride[next] != step)) next++;
        if (next == view->rank) return false;
        used[next] = true;
        step *= view->size[next];
        left--;
    }
    return true;
}

// Dense storage and layout of a new tensor: in the order of its strides (the stick lies on the dim
// of stride 1), or flat when the strides leave gaps or overlap.
static bool choose_layout(int64_t rank, const int64_t *size, const int64_t *stride,
                          spyre_dtype dtype, spyre_view *dense, spyre_layout *layout)
{
    int64_t extent = 1;
    for (int64_t i = 0; i < rank; i++) extent += (size[i] - 1) * stride[i];
    if (rank <= SPYRE_MAX_RANK) {
        *dense = (spyre_view){.rank = (uint32_t)rank};
        for (int64_t i = 0; i < rank; i++) {
            dense->size[i] = size[i];
            dense->stride[i] = stride[i];
        }
        if (is_dense(dense)) return core_check(spyre_layout_dense(dense, dtype, layout));
    }
    *dense = (spyre_view){.rank = 1, .size = {extent}, .stride = {1}};
    return core_check(spyre_layout_dense(dense, dtype, layout));
}

static bool tensor_of_pointer(void *pointer, int64_t rank, const int64_t *size,
                              const int64_t *stride, int32_t torch_dtype, uint32_t card,
                              AtenTensorHandle *out)
{
    if (core_shim(torch_from_blob(pointer, rank, size, stride, 0, torch_dtype, device_type_spyre,
                                  (int32_t)card, out, aoti_torch_layout_strided(), NULL, 0,
                                  storage_release, NULL)))
        return true;
    storage_release(pointer, NULL);
    return false;
}

// PyTorch checks the sizes of what it asks for only after the memory is there.
static bool count_elements(int64_t rank, const int64_t *size, const int64_t *stride,
                           int64_t *out_count)
{
    int64_t bytes = 16; // of the largest element, and room for its padding
    *out_count = 1;
    for (int64_t i = 0; i < rank; i++) {
        int64_t reach = 0;
        if (size[i] < 0 || stride[i] < 0)
            return core_fail(SPYRE_INVALID_ARGUMENT,
                             "dim %lld has size %lld and stride %lld, which must not be negative",
                             (long long)i, (long long)size[i], (long long)stride[i]);
        if (size[i] == 0) *out_count = 0;
        if (*out_count == 0) continue;
        if (size[i] > INT64_MAX / 16 || __builtin_mul_overflow(*out_count, size[i], out_count) ||
            __builtin_mul_overflow(stride[i], (size[i] - 1) * 16, &reach) ||
            __builtin_add_overflow(bytes, reach, &bytes))
            return core_fail(SPYRE_INVALID_ARGUMENT,
                             "Storage size calculation overflowed at dim %lld of size %lld and "
                             "stride %lld",
                             (long long)i, (long long)size[i], (long long)stride[i]);
    }
    return true;
}

bool tensor_create(int64_t rank, const int64_t *size, const int64_t *stride, int32_t torch_dtype,
                   uint32_t card, AtenTensorHandle *out)
{
    if (!device_context()) return false;
    if (card >= device_count())
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "invalid device ordinal %u: this process uses %u spyre device(s)", card,
                         device_count());
    spyre_dtype dtype = dtype_of_torch(torch_dtype);
    if (dtype == SPYRE_DTYPE_COUNT || spyre_dtype_card_format(dtype) == SPYRE_FORMAT_INVALID)
        return core_fail(SPYRE_UNSUPPORTED, "Spyre backend does not support dtype %s",
                         dtype == SPYRE_DTYPE_COUNT ? glue_dtype_name(torch_dtype)
                                                    : spyre_dtype_name(dtype));
    void *pointer;
    int64_t numel;
    if (!count_elements(rank, size, stride, &numel)) return false;
    if (numel == 0) {
        if (!storage_create_raw(card, 0, &pointer)) return false;
    } else {
        spyre_view dense;
        spyre_layout layout;
        if (!choose_layout(rank, size, stride, dtype, &dense, &layout) ||
            !storage_create(card, dtype, &dense, &layout, &pointer))
            return false;
    }
    return tensor_of_pointer(pointer, rank, size, stride, torch_dtype, card, out);
}

static bool same_view(const spyre_view *a, const spyre_view *b)
{
    if (a->rank != b->rank || a->offset != b->offset) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->size[i] != b->size[i] || a->stride[i] != b->stride[i]) return false;
    return true;
}

bool tensor_create_laid_out(spyre_dtype dtype, const spyre_view *dense, const spyre_layout *layout,
                            const spyre_view *view, uint32_t card, AtenTensorHandle *out)
{
    void *pointer;
    AtenTensorHandle whole;
    if (!storage_create(card, dtype, dense, layout, &pointer) ||
        !tensor_of_pointer(pointer, dense->rank, dense->size, dense->stride, dtype_to_torch(dtype),
                           card, &whole))
        return false;
    if (same_view(dense, view)) {
        *out = whole;
        return true;
    }
    bool ok = core_shim(aoti_torch__reinterpret_tensor(whole, view->rank, view->size, view->stride,
                                                       view->offset, out));
    aoti_torch_delete_tensor_object(whole);
    return ok;
}

// ---- kernels

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
    int64_t rank = kernel_take_ints(stack[0], size, CORE_MAX_RANK);
    int64_t strides = kernel_take_ints(stack[1], stride, CORE_MAX_RANK);
    if (!take_options(stack + 2, &dtype, &card) || rank < 0 || strides != rank ||
        !tensor_create(rank, size, stride, dtype, card, &made))
        core_throw();
    stack[0] = (StableIValue)(uintptr_t)made;
}

static void empty(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK];
    int32_t dtype;
    uint32_t card;
    AtenTensorHandle made;
    StableIValue format;
    int64_t rank = kernel_take_ints(stack[0], size, CORE_MAX_RANK);
    bool ok = take_options(stack + 1, &dtype, &card) && rank >= 0;
    if (kernel_take_optional(stack[5], &format) && ok &&
        (int32_t)format != aoti_torch_memory_format_contiguous_format() &&
        (int32_t)format != aoti_torch_memory_format_preserve_format())
        ok = core_fail(SPYRE_UNSUPPORTED,
                       "Spyre backend only supports contiguous memory format");
    if (ok) tensor_contiguous_strides(rank, size, stride);
    if (!ok || !tensor_create(rank, size, stride, dtype, card, &made)) core_throw();
    stack[0] = (StableIValue)(uintptr_t)made;
}

// spyre::empty_with_layout(int[] size, int[] stride, Tensor like, int layout, Device device): the
// layout arrives as the address of a SpyreTensorLayout's spyre_layout, which the caller keeps.
static void empty_with_layout(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK];
    int64_t rank = kernel_take_ints(stack[0], size, SPYRE_MAX_RANK);
    int64_t strides = kernel_take_ints(stack[1], stride, SPYRE_MAX_RANK);
    spyre_dtype dtype = dtype_of_torch((int32_t)stack[2]);
    const spyre_layout *layout = (const spyre_layout *)(uintptr_t)stack[3];
    AtenTensorHandle made;
    if (rank < 0 || strides != rank) core_throw();
    spyre_view dense = {.rank = (uint32_t)rank};
    memcpy(dense.size, size, sizeof dense.size);
    memcpy(dense.stride, stride, sizeof dense.stride);
    if (!tensor_create_laid_out(dtype, &dense, layout, &dense, (uint32_t)stack[4], &made))
        core_throw();
    stack[0] = (StableIValue)(uintptr_t)made;
}

// ---- Python methods

static void append(char *buffer, size_t *length, const void *bytes, size_t count)
{
    memcpy(buffer + *length, bytes, count);
    *length += count;
}

static void write_key(const tensor_info *t, char *buffer, size_t *length)
{
    const storage *s = t->storage;
    int32_t head[4] = {t->torch_dtype, (int32_t)t->rank, t->device_type, t->device_index};
    append(buffer, length, head, sizeof head);
    append(buffer, length, t->size, (size_t)t->rank * sizeof *t->size);
    append(buffer, length, t->stride, (size_t)t->rank * sizeof *t->stride);
    append(buffer, length, &t->offset, sizeof t->offset);
    if (!s || !s->typed) return;
    int32_t kind[5] = {(int32_t)s->dtype, (int32_t)s->dense.rank, (int32_t)s->layout.rank,
                       (int32_t)s->layout.format, (int32_t)s->layout.arrangement};
    append(buffer, length, kind, sizeof kind);
    append(buffer, length, s->dense.size, s->dense.rank * sizeof(int64_t));
    append(buffer, length, s->dense.stride, s->dense.rank * sizeof(int64_t));
    append(buffer, length, s->layout.device_size, s->layout.rank * sizeof(int64_t));
    append(buffer, length, s->layout.stride_map, s->layout.rank * sizeof(int64_t));
}

static size_t key_bytes(const tensor_info *t)
{
    const storage *s = t->storage;
    size_t words = 2 * (size_t)t->rank + 1, bytes = 4 * sizeof(int32_t);
    if (s && s->typed) {
        words += 2 * ((size_t)s->dense.rank + s->layout.rank);
        bytes += 5 * sizeof(int32_t);
    }
    return bytes + words * sizeof(int64_t);
}

size_t tensor_write_key(const tensor_info *t, void *buffer, size_t capacity)
{
    size_t bytes = key_bytes(t), length = 0;
    if (bytes <= capacity) write_key(t, buffer, &length);
    return bytes;
}

// The key of a Python tensor into `buffer`, its length to *out_length. A storage without element
// type gets the tensor's.
static bool key_of_object(PyObject *tensor, void *buffer, size_t capacity, size_t *out_length)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return false;
    spyre_dtype dtype = dtype_of_torch(t.torch_dtype);
    if (t.storage && dtype != SPYRE_DTYPE_COUNT && !storage_type(t.storage, dtype)) return false;
    *out_length = tensor_write_key(&t, buffer, capacity);
    return *out_length <= capacity || core_fail(SPYRE_UNSUPPORTED, "Unsupported tensor rank: %lld",
                                                (long long)t.rank);
}

enum { KEY_BYTES = 1024 };              // more than any supported rank needs

static PyObject *py_tensor_key(PyObject *self, PyObject *tensor)
{
    (void)self;
    char buffer[KEY_BYTES];
    size_t length;
    if (!key_of_object(tensor, buffer, sizeof buffer, &length)) return core_raise();
    return PyBytes_FromStringAndSize(buffer, (Py_ssize_t)length);
}

// tensors_key(list): the keys of its tensors, each behind its length.
static PyObject *py_tensors_key(PyObject *self, PyObject *list)
{
    (void)self;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "tensors_key: expected a list");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(list);
    char *buffer = malloc((size_t)count * (sizeof(size_t) + KEY_BYTES) + 1), *at = buffer;
    if (!buffer) return PyErr_NoMemory();
    PyObject *key = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t length;
        if (!key_of_object(PyList_GetItem(list, i), at + sizeof length, KEY_BYTES, &length)) {
            core_raise();
            goto done;
        }
        memcpy(at, &length, sizeof length);
        at += sizeof length + length;
    }
    key = PyBytes_FromStringAndSize(buffer, at - buffer);
done:
    free(buffer);
    return key;
}

static PyObject *py_layout_address(PyObject *self, PyObject *object)
{
    (void)self;
    static _Thread_local spyre_layout layout;
    if (!layout_of_object(object, &layout)) return NULL;
    return PyLong_FromVoidPtr(&layout);
}

static PyMethodDef methods[] = {
    {"tensor_key", py_tensor_key, METH_O, "Type, view and layout of a tensor as bytes."},
    {"tensors_key", py_tensors_key, METH_O, "The keys of a list of tensors, as bytes."},
    {"_layout_address", py_layout_address, METH_O, "For spyre::empty_with_layout, once."},
    {NULL, NULL, 0, NULL},
};

bool tensor_register(PyObject *module)
{
    device_type_spyre = aoti_torch_device_type_privateuse1();
    static TorchLibraryHandle spyre, implementation;
    return kernel_register("PrivateUse1", "empty.memory_format", empty) &&
           kernel_register("PrivateUse1", "empty_strided", empty_strided) &&
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
