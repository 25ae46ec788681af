// SPDX-License-Identifier: Apache-2.0
//
// Copies of tensors with another size of some dims, which calls of a length hand to the program of
// its bucket, and take of its results. Where a layout has the dim as one of its own, sticks are
// copied as they lie; elsewhere elements are.
#include <stdlib.h>
#include <string.h>

#include "tensor/bucket_operands.h"

enum { MOST_PIECES = 1 << 20 };

// Where the elements of a storage along one of its dims lie: `outer` times, `count` runs of `inner`
// sticks; along the dim of the sticks the last one has `rest` elements, unless it is full.
typedef struct {
    uint32_t place;                     // of the dim among the device dims
    int64_t step, outer, inner, count, rest;
} line;

static int64_t sticks_of(int64_t elements, int64_t lanes)
{
    return (elements + lanes - 1) / lanes;
}

// Whether a tensor is all of its storage, or the first elements of it along a dim.
static bool begins_storage(const tensor_info *t, int64_t dim)
{
    const storage *s = t->storage;
    int64_t stride[CORE_MAX_RANK];
    if (!s || !s->typed || storage_is_bytes(s) || glue_is_lazy(t->handle) || t->offset != 0 ||
        t->rank > SPYRE_MAX_RANK || t->rank != (int64_t)s->dense.rank ||
        dtype_of_torch(t->torch_dtype) != s->dtype)
        return false;
    tensor_contiguous_strides(t->rank, s->dense.size, stride);
    bool fits = tensor_same_shape(t->rank, s->dense.size, s->dense.stride, s->dense.size, stride);
    for (int64_t d = 0; fits && d < t->rank; d++)
        fits = (d == dim || t->size[d] == s->dense.size[d]) &&
               (t->size[d] == 1 || t->stride[d] == stride[d]);
    return fits;
}

// False for other tensors, and for layouts in which the dim is not one of its own.
static bool find_line(const tensor_info *t, int64_t dim, line *out)
{
    if (!begins_storage(t, dim) || t->storage->dense.size[dim] < 2) return false;
    const storage *s = t->storage;
    const spyre_layout *l = &s->layout;
    uint32_t last = l->rank - 1;
    int64_t lanes = l->device_size[last], moves = s->dense.stride[dim];
    if (l->arrangement != SPYRE_ARRANGEMENT_STANDARD) return false;
    *out = (line){.place = UINT32_MAX, .step = moves, .outer = 1, .inner = 1,
                  .count = s->dense.size[dim]};
    if (l->stride_map[last] == moves) {
        out->rest = out->count % lanes;
        out->count = sticks_of(out->count, lanes);
        moves *= lanes;
    }
    for (uint32_t i = 0; i < last; i++) {
        bool found = l->device_size[i] == out->count && l->stride_map[i] == moves;
        if (out->place == UINT32_MAX && found) out->place = i;
        else if (out->place == UINT32_MAX) out->outer *= l->device_size[i];
        else out->inner *= l->device_size[i];
    }
    return out->place != UINT32_MAX;
}

static line line_of_size(const line *l, const spyre_layout *layout, int64_t size)
{
    line made = *l;
    int64_t lanes = layout->device_size[layout->rank - 1];
    bool by_sticks = layout->stride_map[layout->rank - 1] == l->step;
    made.count = by_sticks ? sticks_of(size, lanes) : size;
    made.rest = by_sticks ? size % lanes : 0;
    return made;
}

// Whether a device dim has as many sticks as the dim of a stride needs.
static bool is_size_of_sticks(const storage *s, int64_t stride, const spyre_layout *l, uint32_t at)
{
    int64_t size = 1;
    for (uint32_t d = 0; d < s->dense.rank; d++)
        if (s->dense.stride[d] == stride && s->dense.size[d] > 1) size = s->dense.size[d];
    return l->device_size[at] == sticks_of(size, l->device_size[l->rank - 1]);
}

// The layout of a storage with another size of the dim of a line: what lies outside of it is so
// many elements further apart.
static spyre_layout layout_of_line(const storage *s, const line *at, int64_t dim, int64_t size)
{
    spyre_layout l = s->layout;
    uint32_t last = l.rank - 1;
    int64_t was = s->dense.size[dim], behind = at->step * was, along = l.stride_map[last];
    for (uint32_t i = 0; i <= last; i++) {
        bool sticks = i != last && along > 0 && along < behind &&
                      l.stride_map[i] == along * l.device_size[last] &&
                      is_size_of_sticks(s, along, &l, i);
        if (i != at->place && !sticks && l.stride_map[i] >= behind)
            l.stride_map[i] = l.stride_map[i] / was * size;
    }
    l.device_size[at->place] = line_of_size(at, &s->layout, size).count;
    return l;
}

// The pieces that two storages have in common which differ along a line; the shorter line is
// `least`.
static uint32_t find_pieces(const line *from, const line *to, const line *least, int64_t lanes,
                            spyre_piece *out)
{
    int64_t whole = least->count - (least->rest > 0), run = least->inner * SPYRE_STICK_BYTES;
    uint32_t used = 0;
    for (int64_t o = 0; o < from->outer; o++) {
        int64_t source = o * from->count * run, target = o * to->count * run;
        if (whole) out[used++] = (spyre_piece){.target = target, .source = source,
                                               .bytes = whole * run};
        for (int64_t i = 0; least->rest && i < least->inner; i++) {
            int64_t at = whole * run + i * SPYRE_STICK_BYTES;
            out[used++] = (spyre_piece){.target = target + at, .source = source + at,
                                        .bytes = least->rest * (SPYRE_STICK_BYTES / lanes)};
        }
    }
    return used;
}

static bool move_line(const storage *to, const line *target, const storage *from,
                      const line *source, const line *least)
{
    uint32_t stream = stream_current(to->card);
    if (!core_check(spyre_copy_raw(device_context(), to->card, stream, to->address, 0,
                                   to->card_bytes)))
        return false;
    spyre_piece *pieces = calloc((size_t)(source->outer * (1 + source->inner)), sizeof *pieces);
    if (!pieces) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to move sticks");
    int64_t lanes = from->layout.device_size[from->layout.rank - 1];
    uint32_t count = find_pieces(source, target, least, lanes, pieces);
    bool ok = core_check(spyre_copy_pieces(device_context(), to->card, stream, to->address,
                                           from->address, pieces, count));
    free(pieces);
    return ok;
}

// A copy of `t` with another size of a dim, zeros behind what was there; null where sticks cannot
// be copied as they lie.
static bool move_sticks(const tensor_info *t, int64_t dim, int64_t size, AtenTensorHandle *out)
{
    line from;
    void *pointer;
    *out = NULL;
    if (size < 2 || !find_line(t, dim, &from) || from.outer * (1 + from.inner) > MOST_PIECES)
        return true;
    const spyre_layout *old = &t->storage->layout;
    int64_t both = t->size[dim] < size ? t->size[dim] : size;
    line to = line_of_size(&from, old, size), least = line_of_size(&from, old, both);
    spyre_view dense = tensor_dense_view(t, dim, size);
    spyre_layout layout = layout_of_line(t->storage, &from, dim, size);
    storage *s = storage_create(t->storage->card, t->storage->dtype, &dense, &layout, &pointer);
    if (!s) return false;
    if (move_line(s, &to, t->storage, &from, &least)) return tensor_of_storage(pointer, s, out);
    storage_release(pointer, NULL);
    return false;
}

// ---- any layout

// What two tensors that differ along a dim have in common, of one of them.
static AtenTensorHandle begin_of(AtenTensorHandle tensor, int64_t dim, int64_t count)
{
    tensor_info t;
    int64_t size[CORE_MAX_RANK];
    if (!tensor_describe(tensor, &t)) return NULL;
    memcpy(size, t.size, (size_t)t.rank * sizeof *size);
    size[dim] = count;
    return glue_view(tensor, t.rank, size, t.stride, 0);
}

static bool copy_begin(AtenTensorHandle from, AtenTensorHandle to, int64_t dim, int64_t count)
{
    AtenTensorHandle source = begin_of(from, dim, count), target = begin_of(to, dim, count);
    bool ok = source && target && core_shim(aoti_torch_copy_(target, source, 0));
    if (source) aoti_torch_delete_tensor_object(source);
    if (target) aoti_torch_delete_tensor_object(target);
    return ok;
}

static bool fill_zero(AtenTensorHandle tensor)
{
    tensor_info t;
    return tensor_describe(tensor, &t) &&
           core_check(spyre_copy_raw(device_context(), t.storage->card,
                                     stream_current(t.storage->card), t.storage->address, 0,
                                     t.storage->card_bytes));
}

// As move_sticks(), element by element.
static bool move_elements(const tensor_info *t, int64_t dim, int64_t size, AtenTensorHandle *out)
{
    spyre_view dense = tensor_dense_view(t, dim, size);
    int64_t both = t->size[dim] < size ? t->size[dim] : size;
    if (!tensor_create(t->rank, dense.size, dense.stride, t->torch_dtype, t->storage->card, out))
        return false;
    if ((size <= both || fill_zero(*out)) && copy_begin(t->handle, *out, dim, both)) return true;
    aoti_torch_delete_tensor_object(*out);
    return false;
}

// ---- fits

// All of the storage of a tensor, which whole_of() has found.
static bool take_whole(const tensor_info *t, AtenTensorHandle *out)
{
    const spyre_view *dense = &t->storage->dense;
    *out = glue_view(t->handle, dense->rank, dense->size, dense->stride, -t->offset);
    return *out != NULL;
}

static bool take_copy(const tensor_info *t, AtenTensorHandle *out)
{
    spyre_view dense = tensor_dense_view(t, -1, 0);
    if (!tensor_create(t->rank, dense.size, dense.stride, t->torch_dtype, t->storage->card, out))
        return false;
    if (core_shim(aoti_torch_copy_(*out, t->handle, 0))) return true;
    aoti_torch_delete_tensor_object(*out);
    return false;
}

// Replaces *tensor, which goes unless it is the caller's.
static bool give_size(AtenTensorHandle *tensor, bool owned, int64_t dim, int64_t size)
{
    tensor_info t;
    AtenTensorHandle made = NULL;
    bool ok = tensor_describe(*tensor, &t) && move_sticks(&t, dim, size, &made) &&
              (made || move_elements(&t, dim, size, &made));
    if (owned) aoti_torch_delete_tensor_object(*tensor);
    *tensor = ok ? made : NULL;
    return ok;
}

bool fit_make(const fit *f, AtenTensorHandle tensor, AtenTensorHandle *out)
{
    tensor_info t;
    AtenTensorHandle made = tensor;
    *out = NULL;
    if (!tensor_describe(tensor, &t)) return false;
    if (t.rank > SPYRE_MAX_RANK)
        return core_fail(SPYRE_UNSUPPORTED, "rank %lld", (long long)t.rank);
    bool parts = f->kind == FIT_WHOLE && f->count > 0 && !tensor_covers(&t);
    if (parts && !take_whole(&t, &made)) return false;
    if (f->kind == FIT_COPY && !take_copy(&t, &made)) return false;
    for (uint32_t i = 0; i < f->count; i++)
        if (!give_size(&made, made != tensor, f->dims[i].dim, f->dims[i].size)) return false;
    if (made != tensor) *out = made;
    return true;
}

// ---- Python

bool fit_read(PyObject *tuple, fit *out)
{
    int64_t values[1 + 2 * FIT_MOST_DIMS];
    int64_t count = core_ints(tuple, values, 1 + 2 * FIT_MOST_DIMS, "a fit");
    if (count < 1 || values[0] < 0 || values[0] > FIT_COPY) return false;
    *out = (fit){.kind = (fit_kind)values[0], .count = (uint32_t)(count - 1) / 2};
    for (uint32_t i = 0; i < out->count; i++)
        out->dims[i] = (fit_dim){values[1 + 2 * i], values[2 + 2 * i]};
    return true;
}

// resize(tensor, dim, size) -> a copy that is longer, zeros behind it, or shorter along a dim; None
// where sticks cannot be copied as they lie.
static PyObject *py_resize(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object;
    long long dim, size;
    tensor_info t;
    AtenTensorHandle made;
    if (!PyArg_ParseTuple(args, "OLL", &object, &dim, &size)) return NULL;
    if (!tensor_of_object(object, &t)) return core_raise();
    if (dim < 0 || dim >= t.rank || t.numel == 0 || !device_context()) Py_RETURN_NONE;
    if (!move_sticks(&t, dim, size, &made)) return core_raise();
    if (!made) Py_RETURN_NONE;
    return glue_to_python(made);
}

// whole_of(tensor) -> all of its storage, which has the form of a contiguous tensor; None for
// another one.
static PyObject *py_whole_of(PyObject *Py_UNUSED(self), PyObject *object)
{
    tensor_info t;
    int64_t stride[CORE_MAX_RANK];
    if (!tensor_of_object(object, &t)) return core_raise();
    const storage *s = t.storage;
    if (!s || !s->typed || storage_is_bytes(s) || glue_is_lazy(t.handle) ||
        dtype_of_torch(t.torch_dtype) != s->dtype)
        Py_RETURN_NONE;
    tensor_contiguous_strides(s->dense.rank, s->dense.size, stride);
    if (!tensor_same_shape(s->dense.rank, s->dense.size, s->dense.stride, s->dense.size, stride))
        Py_RETURN_NONE;
    if (tensor_covers(&t) && tensor_is_contiguous(&t)) return Py_NewRef(object);
    return glue_to_python(glue_view(t.handle, s->dense.rank, s->dense.size, stride, -t.offset));
}

static PyMethodDef methods[] = {
    {"resize", py_resize, METH_VARARGS,
     "(tensor, dim, size) -> a copy with another size of a dim, or None"},
    {"whole_of", py_whole_of, METH_O, "(tensor) -> all of its storage, or None"},
    {NULL, NULL, 0, NULL},
};

bool fit_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
