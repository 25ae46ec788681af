// SPDX-License-Identifier: Apache-2.0
//
// `aten::_copy_from`: every copy that touches the card.
//
// A copy of a whole storage is one transfer, from and to host tensors of any strides. On one card
// an operator converts between floating-point formats, and views of one format are copied bit for
// bit (spyre_copy_views). Any other copy of a part, or one that converts, stages what the part
// touches on the host, and lets PyTorch's CPU kernels do the rest. None needs a program for its
// sizes.
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- staging

// One buffer is kept, so that the host's kernel need not clear its pages for each copy.
enum { KEPT_BYTES = 64 << 20, HUGE_PAGE_BYTES = 2 << 20 };
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static void *kept;
static bool kept_in_use;

static void *allocate(size_t bytes)
{
    if (bytes < HUGE_PAGE_BYTES) return malloc(bytes + 1);
    size_t whole = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    void *buffer = aligned_alloc(HUGE_PAGE_BYTES, whole);
    if (buffer) madvise(buffer, whole, MADV_HUGEPAGE);
    return buffer;
}

static void *stage_take(size_t bytes)
{
    pthread_mutex_lock(&kept_lock);
    bool keep = !kept_in_use && bytes >= HUGE_PAGE_BYTES && bytes <= KEPT_BYTES;
    if (keep && !kept) kept = allocate(KEPT_BYTES);
    keep = keep && kept;
    kept_in_use = kept_in_use || keep;
    pthread_mutex_unlock(&kept_lock);
    return keep ? kept : allocate(bytes);
}

static void stage_give(void *buffer)
{
    pthread_mutex_lock(&kept_lock);
    bool keep = buffer && buffer == kept;
    if (keep) kept_in_use = false;
    pthread_mutex_unlock(&kept_lock);
    if (!keep) free(buffer);
}

// ---- whole tensors

// A storage without element type takes that of the first tensor that reads or writes it; bytes
// (uint8) say nothing about the type, they are how PyTorch copies storages.
static bool settle_type(const tensor_info *t)
{
    return dtype_of_torch(t->torch_dtype) == SPYRE_DTYPE_U8 || tensor_settle(t);
}

// PyTorch copies a storage as bytes into one that it has just made: the copy gets the same form.
static bool copies_storage(const tensor_info *source, const tensor_info *target)
{
    const storage *from = source->storage, *to = target->storage;
    return from && to && from->typed && !to->typed && from->card == to->card &&
           source->torch_dtype == aoti_torch_dtype_uint8() &&
           from->host_bytes == to->host_bytes && source->numel == from->host_bytes &&
           tensor_same_geometry(source, target) && tensor_is_disjoint(source);
}

// The tensor is its storage and nothing beside it.
static bool fills(const tensor_info *t)
{
    return tensor_covers(t) || tensor_fills_bytes(t);
}

// The bytes of one are those of the other.
static bool same_bytes(const tensor_info *a, const tensor_info *b)
{
    return tensor_same_geometry(a, b) && !glue_is_lazy(a->handle) && !glue_is_lazy(b->handle);
}

// The host tensor `t` as a view in the terms of a transfer; false when only staging will do.
static bool direct_view(const tensor_info *t, const tensor_info *of, spyre_view *out)
{
    if (t->torch_dtype != of->torch_dtype || t->rank != of->rank || !tensor_covers(of) ||
        glue_is_lazy(t->handle) || glue_is_lazy(of->handle))
        return false;
    for (int64_t i = 0; i < t->rank; i++)
        if (t->size[i] != of->size[i]) return false;
    return tensor_view(t, out);
}

// A tensor as a view of its storage's elements, or of its storage's bytes; false for neither.
static bool part_view(const tensor_info *t, spyre_view *out)
{
    const storage *s = t->storage;
    if (!s->typed || t->rank > SPYRE_MAX_RANK || !tensor_view(t, out)) return false;
    if (dtype_of_torch(t->torch_dtype) == s->dtype) return true;
    if (!storage_is_bytes(s) || out->rank == SPYRE_MAX_RANK) return false;
    int64_t element = (int64_t)t->element_bytes;
    for (uint32_t i = 0; i < out->rank; i++) out->stride[i] *= element;
    out->offset *= element;
    out->size[out->rank] = element;
    out->stride[out->rank++] = 1;
    return true;
}

// What a tensor touches of its storage, maybe more, on the host; and the same tensor there.
typedef struct {
    bool is_part, packed;
    spyre_view part;                    // of the storage
    void *bytes;
    AtenTensorHandle tensor;
} stage;

static void stage_close(stage *s)
{
    if (s->tensor) aoti_torch_delete_tensor_object(s->tensor);
    stage_give(s->bytes);
}

// Elements that do not move lie between the others when the layout does not let them be left out.
static bool stage_open(const tensor_info *t, bool in_parts, stage *out)
{
    const storage *s = t->storage;
    const int64_t *stride = t->stride;
    int64_t bytes = s->host_bytes, offset = t->offset, elements;
    int64_t size_of = (int64_t)t->element_bytes;
    spyre_view place;
    *out = (stage){.bytes = NULL};
    out->is_part = in_parts && !fills(t) && part_view(t, &out->part);
    out->packed = out->is_part && dtype_of_torch(t->torch_dtype) == s->dtype &&
                  storage_pack(s, &out->part, &place, &elements);
    if (out->packed) {
        bytes = elements * size_of;
        stride = place.stride;
        offset = place.offset;
    }
    out->bytes = stage_take((size_t)bytes);
    if (!out->bytes) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to stage a copy");
    bool ok = core_shim(torch_from_blob((char *)out->bytes + offset * size_of, t->rank, t->size,
                                        stride, 0, t->torch_dtype, aoti_torch_device_type_cpu(), -1,
                                        &out->tensor, aoti_torch_layout_strided(), NULL, 0, NULL,
                                        NULL));
    if (ok && glue_is_lazy(t->handle)) glue_make_lazy(out->tensor, t->handle);
    return ok;
}

static bool stage_read(const stage *s, const storage *from)
{
    if (!s->is_part) return storage_read(from, s->bytes);
    return storage_read_part(from, &s->part, s->packed, s->bytes);
}

static bool stage_write(const stage *s, storage *to, bool *out_held)
{
    *out_held = true;
    if (!s->is_part) return storage_write(to, s->bytes);
    return storage_write_part(to, &s->part, s->packed, s->bytes, out_held);
}

// In parts: integers that do not fit change the form of the storage, which takes the whole of it.
static bool copy_staged(const tensor_info *source, const tensor_info *target, bool in_parts)
{
    storage *s = target->storage;
    stage staged;
    bool ok = stage_open(target, in_parts, &staged) && (fills(target) || stage_read(&staged, s)) &&
              core_shim(aoti_torch_copy_(staged.tensor, source->handle, 0));
    bool held = true;
    ok = ok && stage_write(&staged, s, &held);
    stage_close(&staged);
    return ok && !held ? copy_staged(source, target, false) : ok;
}

static bool copy_to_card(const tensor_info *source, const tensor_info *target)
{
    storage *s = target->storage;
    if (fills(target) && same_bytes(source, target))
        return storage_write(s, source->base + source->offset * (int64_t)source->element_bytes);
    spyre_view view;
    if (!source->storage && direct_view(source, target, &view)) {
        bool held;
        bool ok = storage_write_view(s, &view, source->base, &held);
        if (ok && held) return true;
        if (!ok && core_error_code() != SPYRE_UNSUPPORTED) return false;
    }
    return copy_staged(source, target, true);
}

static bool copy_to_host(const tensor_info *source, const tensor_info *target)
{
    const storage *s = source->storage;
    if (fills(source) && same_bytes(source, target))
        return storage_read(s, target->base + target->offset * (int64_t)target->element_bytes);
    spyre_view view;
    if (direct_view(target, source, &view) && tensor_is_disjoint(target)) {
        if (storage_read_view(s, &view, target->base)) return true;
        if (core_error_code() != SPYRE_UNSUPPORTED) return false;
    }
    stage staged;
    bool ok = stage_open(source, true, &staged) && stage_read(&staged, s) &&
              core_shim(aoti_torch_copy_(target->handle, staged.tensor, 0));
    stage_close(&staged);
    return ok;
}

bool copy_read(const tensor_info *t, void *elements)
{
    tensor_info host;
    AtenTensorHandle handle;
    if (fills(t) && tensor_is_contiguous(t) && !glue_is_lazy(t->handle))
        return storage_read(t->storage, elements);
    int64_t stride[CORE_MAX_RANK];
    if (t->rank > CORE_MAX_RANK)
        return core_fail(SPYRE_UNSUPPORTED, "rank %lld", (long long)t->rank);
    tensor_contiguous_strides(t->rank, t->size, stride);
    if (!core_shim(torch_from_blob(elements, t->rank, t->size, stride, 0, t->torch_dtype,
                                   aoti_torch_device_type_cpu(), -1, &handle,
                                   aoti_torch_layout_strided(), NULL, 0, NULL, NULL)))
        return false;
    bool ok = tensor_describe(handle, &host) && copy_to_host(t, &host);
    aoti_torch_delete_tensor_object(handle);
    return ok;
}

static bool is_float(const tensor_info *t)
{
    spyre_dtype dtype = t->storage->dtype;
    bool is = dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16 || dtype == SPYRE_DTYPE_F32;
    return is && dtype_of_torch(t->torch_dtype) == dtype && !glue_is_lazy(t->handle);
}

// Whether the card has to convert. The host would round to PyTorch's format first and then to the
// card's.
static bool converts(const tensor_info *source, const tensor_info *target)
{
    return is_float(source) && is_float(target) && source->storage->card == target->storage->card &&
           source->torch_dtype != target->torch_dtype;
}

bool copy_is_operator(const void *from, const void *to)
{
    tensor_info source, target;
    if (!tensor_describe(tensor_handle(from), &source) ||
        !tensor_describe(tensor_handle(to), &target) || !source.storage || !target.storage ||
        source.storage == target.storage || source.numel == 0 || !settle_type(&source) ||
        !settle_type(&target))
        return false; // and copy() says what is wrong
    return converts(&source, &target) && fills(&target) && tensor_is_contiguous(&target);
}

static bool copy_on_card(const tensor_info *source, const tensor_info *target);

static bool copy_converted(const tensor_info *source, const tensor_info *target)
{
    AtenTensorHandle made = glue_converted(source->handle, target->handle);
    tensor_info converted;
    bool ok = made && tensor_describe(made, &converted) && copy_on_card(&converted, target);
    if (made) aoti_torch_delete_tensor_object(made);
    return ok;
}

// A tensor as a view of its storage's elements.
static bool own_view(const tensor_info *t, spyre_view *out)
{
    const storage *s = t->storage;
    return s->typed && t->rank <= SPYRE_MAX_RANK && dtype_of_torch(t->torch_dtype) == s->dtype &&
           !glue_is_lazy(t->handle) && tensor_view(t, out);
}

// The view with the sizes of another, which it broadcasts to.
static bool expand_view(const spyre_view *to, spyre_view *view)
{
    if (view->rank > to->rank) return false;
    uint32_t more = to->rank - view->rank;
    spyre_view wide = {.rank = to->rank, .offset = view->offset};
    for (uint32_t i = 0; i < to->rank; i++) {
        int64_t size = i < more ? 1 : view->size[i - more];
        wide.size[i] = to->size[i];
        wide.stride[i] = size == 1 ? 0 : view->stride[i - more];
        if (size != 1 && size != to->size[i]) return false;
    }
    *view = wide;
    return true;
}

// The indices of one dim of the dense tensor that a view reaches: [first, last]. False where it
// goes along other dims, too, at once.
static bool reach_of(const spyre_view *dense, const spyre_view *view, uint32_t dim,
                     int64_t reach[2])
{
    int64_t step = dense->stride[dim], next = INT64_MAX;
    for (uint32_t d = 0; d < dense->rank; d++)
        if (d != dim && dense->size[d] > 1 && dense->stride[d] >= step && dense->stride[d] < next)
            next = dense->stride[d];
    reach[0] = reach[1] = view->offset % next / step;
    for (uint32_t i = 0; i < view->rank; i++)
        if (view->size[i] > 1 && view->stride[i] >= step && view->stride[i] < next) {
            if (view->stride[i] % step) return false;
            reach[1] += (view->size[i] - 1) * (view->stride[i] / step);
        }
    return reach[1] < dense->size[dim];
}

// Whether two views of a dense tensor have no element in common: there is a dim of which they reach
// different indices (`x[:, :2]` and `x[:, 4:6]`). A view that runs over the end of a dim has none.
static bool are_apart(const spyre_view *dense, const spyre_view *a, const spyre_view *b)
{
    bool apart = false;
    for (uint32_t dim = 0; dim < dense->rank; dim++) {
        int64_t of_a[2], of_b[2];
        if (dense->size[dim] < 2) continue;
        if (!reach_of(dense, a, dim, of_a) || !reach_of(dense, b, dim, of_b)) return false;
        apart |= of_a[1] < of_b[0] || of_b[1] < of_a[0];
    }
    return apart;
}

// Bit for bit, from one storage to another of the same form, or between parts of one. *out_done:
// false where views take another way.
static bool copy_views(const tensor_info *source, const tensor_info *target, bool *out_done)
{
    const storage *from = source->storage;
    storage *to = target->storage;
    spyre_view views[2];
    *out_done = false;
    bool is_own = from == to;
    if (from->card != to->card || (!is_own && storage_is_over(from, to)) ||
        source->torch_dtype != target->torch_dtype || !own_view(target, &views[0]) ||
        !own_view(source, &views[1]) ||
        !tensor_is_disjoint(target) || !expand_view(&views[0], &views[1]) ||
        (is_own && !are_apart(&to->dense, &views[0], &views[1])))
        return true;
    if (!device_context() || !storage_own(to)) return false;
    spyre_card_view into = {to->address, &to->layout, &to->dense, &views[0]};
    spyre_card_view out_of = {from->address, &from->layout, &from->dense, &views[1]};
    *out_done = core_check(spyre_copy_views(device_context(), to->card, stream_current(to->card),
                                            &into, &out_of));
    return *out_done || core_error_code() == SPYRE_UNSUPPORTED;
}

static bool copy_on_card(const tensor_info *source, const tensor_info *target)
{
    const storage *from = source->storage;
    storage *to = target->storage;
    bool done;
    if (from == to && source->offset == target->offset && same_bytes(source, target))
        return true;                        // what `x[1:-1] += y` ends in
    if (from != to && from->card == to->card && fills(source) && fills(target) &&
        same_bytes(source, target) && spyre_layout_equal(&from->layout, &to->layout))
        return device_context() && storage_own(to) &&
               core_check(spyre_copy_raw(device_context(), to->card, stream_current(to->card),
                                         to->address, from->address, to->card_bytes));
    if (converts(source, target)) return copy_converted(source, target);
    if (!copy_views(source, target, &done)) return false;
    if (done) return true;
    stage staged;
    tensor_info moved;
    bool ok = stage_open(source, true, &staged) && stage_read(&staged, from) &&
              tensor_describe(staged.tensor, &moved) && copy_to_card(&moved, target);
    stage_close(&staged);
    return ok;
}

// Lets Python warn, until its function says that it is done.
static bool tell(hook which, atomic_bool *done)
{
    if (*done) return true;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *said = hook_call(which);
    bool ok = said != NULL;
    if (said) *done = said == Py_None || PyObject_IsTrue(said); // None: there is no function
    if (!ok) {
        core_fail(SPYRE_INVALID_ARGUMENT, "int64 tensors are kept as int32 on the card");
        PyErr_Clear();
    }
    Py_XDECREF(said);
    PyGILState_Release(gil);
    return ok;
}

// Of int64 from the host: that the card keeps it in 32 bits, or that it could not.
static bool tell_of_integers(const tensor_info *source, const tensor_info *target)
{
    static atomic_bool told_narrow, told_wide;
    if (source->storage || target->torch_dtype != aoti_torch_dtype_int64()) return true;
    bool narrow = target->storage->dtype == SPYRE_DTYPE_I64;
    return tell(HOOK_DOWNCAST, &told_narrow) && (narrow || tell(HOOK_WIDE, &told_wide));
}

static bool broadcasts(const tensor_info *from, const tensor_info *to)
{
    int64_t more = to->rank - from->rank;
    bool fits = more >= 0;
    for (int64_t d = 0; fits && d < from->rank; d++)
        fits = from->size[d] == 1 || from->size[d] == to->size[d + more];
    return fits;
}

static bool copy(AtenTensorHandle from, AtenTensorHandle to)
{
    tensor_info source, target;
    if (!tensor_describe(from, &source) || !tensor_describe(to, &target)) return false;
    if (source.numel == 0 || target.numel == 0)
        return broadcasts(&source, &target) ||
               core_fail(SPYRE_INVALID_FORMAT,
                         "copy_: %lld elements of rank %lld do not broadcast to %lld of rank %lld",
                         (long long)source.numel, (long long)source.rank, (long long)target.numel,
                         (long long)target.rank);
    if (copies_storage(&source, &target)) return storage_take_after(target.storage, source.storage);
    if (!settle_type(&source) || !settle_type(&target)) return false;
    bool anew = source.storage != target.storage && broadcasts(&source, &target);
    if (anew && !tensor_renew(&target)) return false;
    if (source.storage && target.storage) return copy_on_card(&source, &target);
    if (!target.storage) return copy_to_host(&source, &target);
    return copy_to_card(&source, &target) && tell_of_integers(&source, &target);
}

bool copy_whole(const void *tensor, void **out_tensor)
{
    tensor_info t, made;
    AtenTensorHandle handle = tensor_handle(tensor), fresh;
    *out_tensor = NULL;
    if (!tensor_describe(handle, &t)) return false;
    const storage *s = t.storage;
    if (!s || !s->typed || t.numel == 0 || !fills(&t) || glue_is_lazy(tensor)) return true;
    if (!tensor_create_alike(&t, &fresh)) return false;
    if (!tensor_describe(fresh, &made) ||
        !core_check(spyre_copy_raw(device_context(), s->card, stream_current(s->card),
                                   made.storage->address, s->address, s->card_bytes))) {
        aoti_torch_delete_tensor_object(fresh);
        return false;
    }
    *out_tensor = fresh;
    return true;
}

// _copy_from(Tensor self, Tensor dst, bool non_blocking=False) -> Tensor
static void copy_from(StableIValue *stack, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    AtenTensorHandle source = (AtenTensorHandle)(uintptr_t)stack[0];
    AtenTensorHandle target = (AtenTensorHandle)(uintptr_t)stack[1];
    bool ok = copy(source, target);
    aoti_torch_delete_tensor_object(source);
    if (!ok) {
        aoti_torch_delete_tensor_object(target);
        glue_throw();
    }
    stack[0] = (StableIValue)(uintptr_t)target;
}

// _fill_zero(tensor) -> bool: fills a tensor that is its whole storage; False, and nothing done,
// for any other.
static PyObject *py_fill_zero(PyObject *Py_UNUSED(self), PyObject *tensor)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    if (!t.storage || !t.storage->typed || !fills(&t)) Py_RETURN_FALSE;
    const storage *s = t.storage;
    bool ok = tensor_renew(&t) && storage_own(t.storage) &&
              core_check(spyre_copy_raw(device_context(), s->card, stream_current(s->card),
                                        s->address, 0, s->card_bytes));
    if (!ok) return core_raise();
    Py_RETURN_TRUE;
}

// copy_tensor(self, dst, non_blocking=False): the kernel behind aten::_copy_from.
static PyObject *py_copy_tensor(PyObject *Py_UNUSED(self), PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"self", "dst", "non_blocking", NULL};
    PyObject *from, *to;
    int non_blocking = 0;
    tensor_info source, target;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|p", names, &from, &to, &non_blocking))
        return NULL;
    if (!tensor_of_object(from, &source) || !tensor_of_object(to, &target) ||
        !copy(source.handle, target.handle))
        return core_raise();
    return Py_NewRef(to);
}

static PyMethodDef methods[] = {
    {"copy_tensor", (PyCFunction)(void (*)(void))py_copy_tensor, METH_VARARGS | METH_KEYWORDS,
     "copy_tensor($module, self, dst, non_blocking=False)\n--\n\nCopies into dst, and returns it."},
    {"_fill_zero", py_fill_zero, METH_O, "(tensor) -> whether it has been filled with zero"},
    {NULL, NULL, 0, NULL},
};

bool copy_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0 &&
           kernel_register("_copy_from", copy_from) &&
           kernel_register("_copy_from_and_resize", copy_from);
}
