// SPDX-License-Identifier: Apache-2.0
//
// Tensors of the card: reading what PyTorch knows of one, making one.
#include "core.h"

#include <string.h>

// as_strided(), set_() and a storage that shrinks can leave a tensor larger than its storage.
static bool lies_in_storage(const tensor_info *t)
{
    int64_t last = t->offset, reach;
    bool bad = t->offset < 0;
    for (int64_t i = 0; i < t->rank; i++)
        bad |= t->stride[i] < 0 || __builtin_mul_overflow(t->size[i] - 1, t->stride[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
    const int64_t element = (int64_t)t->element_bytes;
    bad = bad || __builtin_mul_overflow(last, element, &reach);
    if (!bad && reach <= t->storage->host_bytes - element) return true;
    return core_fail(SPYRE_INVALID_ARGUMENT,
                     "sizes, strides and storage offset %lld are out of bounds for a storage of "
                     "%lld bytes",
                     (long long)t->offset, (long long)t->storage->host_bytes);
}

// A part of a storage (UntypedStorage[a:b]) is its storage from an element on.
static bool find_storage(tensor_info *t)
{
    t->storage = t->base ? storage_of(t->base) : NULL;
    if (!t->storage) return true;
    const int64_t start = storage_start_bytes(t->base), element = (int64_t)t->element_bytes;
    t->base -= start;
    t->offset += start / element;
    return start % element == 0 ||
           core_fail(SPYRE_INVALID_ARGUMENT,
                     "a part of a storage from byte %lld on holds no elements of %lld bytes",
                     (long long)start, (long long)element);
}

bool tensor_describe(AtenTensorHandle handle, tensor_info *out)
{
    out->handle = handle;
    if (!glue_describe(handle, out)) return false;
    out->storage = NULL;
    if (out->device_type != aoti_torch_device_type_privateuse1()) return true;
    if (!find_storage(out)) return false;
    if (out->numel == 0) return true;
    if (out->storage) return lies_in_storage(out);
    return core_fail(SPYRE_INVALID_ARGUMENT, "a spyre tensor without storage (%lld elements)",
                     (long long)out->numel);
}

bool tensor_same_shape(int64_t rank, const int64_t *size, const int64_t *stride,
                       const int64_t *other_size, const int64_t *other_stride)
{
    for (int64_t i = 0; i < rank; i++)
        if (size[i] != other_size[i] || (size[i] > 1 && stride[i] != other_stride[i])) return false;
    return true;
}

bool tensor_is_contiguous(const tensor_info *t)
{
    int64_t stride[CORE_MAX_RANK];
    if (t->rank > CORE_MAX_RANK) return false;
    tensor_contiguous_strides(t->rank, t->size, stride);
    return tensor_same_shape(t->rank, t->size, t->stride, t->size, stride);
}

spyre_view tensor_dense_view(const tensor_info *t, int64_t dim, int64_t size)
{
    spyre_view dense = {.rank = (uint32_t)t->rank};
    memcpy(dense.size, t->size, (size_t)t->rank * sizeof *dense.size);
    if (dim >= 0) dense.size[dim] = size;
    tensor_contiguous_strides(t->rank, dense.size, dense.stride);
    return dense;
}

bool tensor_same_geometry(const tensor_info *a, const tensor_info *b)
{
    return a->torch_dtype == b->torch_dtype && a->rank == b->rank &&
           tensor_same_shape(a->rank, a->size, a->stride, b->size, b->stride);
}

bool tensor_covers(const tensor_info *t)
{
    const storage *s = t->storage;
    return s && s->typed && t->offset == 0 && t->rank == (int64_t)s->dense.rank &&
           dtype_of_torch(t->torch_dtype) == s->dtype &&
           tensor_same_shape(t->rank, t->size, t->stride, s->dense.size, s->dense.stride);
}

bool tensor_fills_bytes(const tensor_info *t)
{
    return t->storage && storage_is_bytes(t->storage) && t->offset == 0 &&
           t->numel * (int64_t)t->element_bytes == t->storage->host_bytes && tensor_is_disjoint(t);
}

bool tensor_is_disjoint(const tensor_info *t)
{
    bool used[CORE_MAX_RANK] = {false};
    int64_t reach = 1;
    for (int64_t n = 0; n < t->rank; n++) {
        int64_t next = -1;
        for (int64_t i = 0; i < t->rank; i++)
            if (!used[i] && (next < 0 || t->stride[i] < t->stride[next])) next = i;
        used[next] = true;
        if (t->size[next] > 1 && t->stride[next] < reach) return false;
        reach += (t->size[next] - 1) * t->stride[next];
    }
    return true;
}

static bool is_half(spyre_dtype dtype)
{
    return dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16;
}

void tensor_note_copy(const void *from, const void *to)
{
    tensor_info source, target;
    bool known = tensor_describe(tensor_handle(from), &source) &&
                 tensor_describe(tensor_handle(to), &target) && source.storage && target.storage &&
                 target.torch_dtype == aoti_torch_dtype_float32();
    if (!known) return;
    spyre_dtype dtype = dtype_of_torch(source.torch_dtype);
    uint32_t known_of = dtype == SPYRE_DTYPE_F32 ? source.storage->widened_from : 0;
    if (is_half(dtype)) known_of = (uint32_t)dtype + 1;
    if (tensor_covers(&target)) target.storage->widened_from = known_of;
}

AtenTensorHandle tensor_handle(const void *tensor)
{
    return (AtenTensorHandle)(uintptr_t)tensor;
}

bool tensor_of_object(PyObject *object, tensor_info *out)
{
    const void *tensor = glue_from_python(object);
    if (tensor) return tensor_describe(tensor_handle(tensor), out);
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

// Elements from the first to the last of a tensor that has some.
static int64_t reach_of(int64_t rank, const int64_t *size, const int64_t *stride)
{
    int64_t extent = 1;
    for (int64_t i = 0; i < rank; i++) extent += (size[i] - 1) * stride[i];
    return extent;
}

// Dense storage and layout of a new tensor: in the order of its strides (the stick lies on the dim
// of stride 1), or flat when the strides leave gaps or overlap.
static bool choose_layout(int64_t rank, const int64_t *size, const int64_t *stride,
                          spyre_dtype dtype, spyre_view *dense, spyre_layout *layout)
{
    if (rank <= SPYRE_MAX_RANK) {
        *dense = (spyre_view){.rank = (uint32_t)rank};
        for (int64_t i = 0; i < rank; i++) {
            dense->size[i] = size[i];
            dense->stride[i] = stride[i];
        }
        if (is_dense(dense)) return core_check(spyre_layout_dense(dense, dtype, layout));
    }
    *dense = (spyre_view){.rank = 1, .size = {reach_of(rank, size, stride)}, .stride = {1}};
    return core_check(spyre_layout_dense(dense, dtype, layout));
}

static storage *new_storage(int64_t rank, const int64_t *size, const int64_t *stride,
                            int32_t torch_dtype, uint32_t card, void **out_pointer)
{
    spyre_dtype dtype = dtype_of_torch(torch_dtype);
    spyre_view dense;
    spyre_layout layout;
    if (spyre_dtype_card_format(dtype) == SPYRE_FORMAT_INVALID) {
        int64_t element_bytes = (int64_t)aoti_torch_dtype_element_size(torch_dtype);
        return storage_create_bytes(card, reach_of(rank, size, stride) * element_bytes,
                                    out_pointer);
    }
    if (!choose_layout(rank, size, stride, dtype, &dense, &layout)) return NULL;
    return storage_create(card, dtype, &dense, &layout, out_pointer);
}

static bool tensor_of_pointer(void *pointer, int64_t rank, const int64_t *size,
                              const int64_t *stride, int32_t torch_dtype, uint32_t card,
                              AtenTensorHandle *out)
{
    if (core_shim(torch_from_blob(pointer, rank, size, stride, 0, torch_dtype,
                                  aoti_torch_device_type_privateuse1(), (int32_t)card, out,
                                  aoti_torch_layout_strided(), NULL, 0,
                                  storage_release, NULL)))
        return true;
    storage_release(pointer, NULL);
    return false;
}

bool tensor_count_elements(int64_t rank, const int64_t *size, const int64_t *stride,
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

bool tensor_settle(const tensor_info *t)
{
    storage *s = t->storage;
    if (!s || s->typed || s->host_bytes == 0) return true;
    spyre_dtype dtype = dtype_of_torch(t->torch_dtype);
    bool whole = t->offset == 0 && t->numel * (int64_t)t->element_bytes == s->host_bytes &&
                 tensor_is_disjoint(t) && spyre_dtype_card_format(dtype) != SPYRE_FORMAT_INVALID;
    spyre_view dense;
    spyre_layout layout;
    if (!whole) return storage_type(s, dtype);
    return choose_layout(t->rank, t->size, t->stride, dtype, &dense, &layout) &&
           storage_set_form(s, dtype, &dense, &layout) && storage_type(s, dtype);
}

bool tensor_renew(const tensor_info *t)
{
    spyre_dtype dtype = dtype_of_torch(t->torch_dtype);
    spyre_view dense;
    spyre_layout layout;
    if (!tensor_fills_bytes(t) || dtype == SPYRE_DTYPE_I8 ||
        spyre_dtype_card_format(dtype) == SPYRE_FORMAT_INVALID)
        return true;
    return choose_layout(t->rank, t->size, t->stride, dtype, &dense, &layout) &&
           storage_renew(t->storage, dtype, &dense, &layout);
}

bool tensor_has_own_form(const tensor_info *t)
{
    const storage *s = t->storage;
    spyre_view dense;
    spyre_layout layout;
    if (!s || !s->typed || tensor_fills_bytes(t)) return true;
    return tensor_covers(t) &&
           choose_layout(t->rank, t->size, t->stride, s->dtype, &dense, &layout) &&
           spyre_layout_equal(&layout, &s->layout);
}

bool tensor_create(int64_t rank, const int64_t *size, const int64_t *stride, int32_t torch_dtype,
                   uint32_t card, AtenTensorHandle *out)
{
    if (!device_context() || !device_check(card)) return false;
    void *pointer;
    int64_t numel;
    if (!dtype_can_be_stored(torch_dtype) || !tensor_count_elements(rank, size, stride, &numel))
        return false;
    storage *made = numel == 0 ? storage_create_raw(card, 0, &pointer)
                               : new_storage(rank, size, stride, torch_dtype, card, &pointer);
    return made && tensor_of_pointer(pointer, rank, size, stride, torch_dtype, card, out);
}

bool tensor_create_alike(const tensor_info *t, AtenTensorHandle *out)
{
    const storage *s = t->storage;
    void *pointer;
    return storage_create(s->card, s->dtype, &s->dense, &s->layout, &pointer) &&
           tensor_of_pointer(pointer, t->rank, t->size, t->stride, t->torch_dtype, s->card, out);
}

bool tensor_of_storage(void *pointer, const storage *s, AtenTensorHandle *out)
{
    return tensor_of_pointer(pointer, s->dense.rank, s->dense.size, s->dense.stride,
                             dtype_to_torch(s->dtype), s->card, out);
}

bool tensor_share(storage *of, const spyre_view *dense, const spyre_layout *layout,
                  AtenTensorHandle *out)
{
    void *pointer;
    const storage *s = storage_share(of, of->dtype, dense, layout, &pointer);
    return s && tensor_of_storage(pointer, s, out);
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
    const storage *s = storage_create(card, dtype, dense, layout, &pointer);
    if (!s || !tensor_of_storage(pointer, s, &whole)) return false;
    if (same_view(dense, view)) {
        *out = whole;
        return true;
    }
    bool ok = core_shim(aoti_torch__reinterpret_tensor(whole, view->rank, view->size, view->stride,
                                                       view->offset, out));
    aoti_torch_delete_tensor_object(whole);
    return ok;
}
