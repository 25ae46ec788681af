// SPDX-License-Identifier: Apache-2.0
//
// Concatenations of many rows and a few, as the cache of a decoder grows by: the result goes on
// behind its first operand in the card's memory (storage.c), so that only the few are written. This
// needs the concatenated dim outermost on the card. The first time, sticks move there, into memory
// with room for a quarter more; and again when that is used up.
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_RATIO = 8, LEAST_BYTES = 16 << 10, LEAST_ROOM = 64, MOST_PIECES = 1 << 20 };

// Where rows along a dim lie in a storage: `outer` times, `count` runs of bytes.
typedef struct {
    uint32_t place;                     // of the dim among the device dims
    int64_t outer, count, run_bytes;
} rows;

// False for a tensor that is not all of its storage, or whose sticks run along the dim.
static bool find_rows(const tensor_info *t, int64_t dim, rows *out)
{
    const storage *s = t->storage;
    if (!s || !s->typed || t->rank > SPYRE_MAX_RANK || glue_is_lazy(t->handle) ||
        storage_is_bytes(s) || !tensor_covers(t) || !tensor_is_contiguous(t))
        return false;
    const spyre_layout *l = &s->layout;
    if (l->arrangement != SPYRE_ARRANGEMENT_STANDARD || l->stride_map[l->rank - 1] != 1)
        return false;
    *out = (rows){.place = UINT32_MAX, .outer = 1, .run_bytes = SPYRE_STICK_BYTES};
    for (uint32_t i = 0; i + 1 < l->rank; i++) {
        bool found = l->device_size[i] == t->size[dim] &&
                     (t->size[dim] == 1 || l->stride_map[i] == t->stride[dim]);
        if (out->place == UINT32_MAX && found) out->place = i, out->count = t->size[dim];
        else if (out->place == UINT32_MAX) out->outer *= l->device_size[i];
        else out->run_bytes *= l->device_size[i];
    }
    return out->place != UINT32_MAX;
}

// The layout of a tensor that is `count` rows long, the dim outermost.
static spyre_layout layout_of_rows(const storage *s, const rows *r, const spyre_view *dense,
                                   int64_t dim, int64_t count)
{
    spyre_layout l = s->layout;
    int64_t behind = s->dense.stride[dim] * r->count;   // from here on dims are outside of it
    for (uint32_t i = 0; i < l.rank; i++)
        if (l.stride_map[i] >= behind) l.stride_map[i] = l.stride_map[i] / r->count * count;
    memmove(l.device_size + 1, l.device_size, r->place * sizeof *l.device_size);
    memmove(l.stride_map + 1, l.stride_map, r->place * sizeof *l.stride_map);
    l.device_size[0] = count;
    l.stride_map[0] = dense->stride[dim];
    return l;
}

// Copies rows of a storage behind the first `at` rows of one that has them outermost.
static bool put_rows(const storage *to, int64_t at, const storage *from, const rows *r)
{
    int64_t each = r->outer == 1 ? r->count : 1, used = 0;
    spyre_piece *pieces = calloc((size_t)(r->count / each * r->outer), sizeof *pieces);
    if (!pieces) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to move rows");
    for (int64_t row = 0; row < r->count; row += each)
        for (int64_t o = 0; o < r->outer; o++)
            pieces[used++] = (spyre_piece){.target = ((at + row) * r->outer + o) * r->run_bytes,
                                           .source = (o * r->count + row) * r->run_bytes,
                                           .bytes = each * r->run_bytes};
    bool ok = core_check(spyre_copy_pieces(device_context(), to->card, stream_current(to->card),
                                           to->address, from->address, pieces, (uint32_t)used));
    free(pieces);
    return ok;
}

// A tensor that is `more` rows longer, which are to be written; null where the few are too many.
// Its memory reaches for `reach` rows, those behind it zeros.
static bool extend(const tensor_info *t, int64_t dim, int64_t more, int64_t reach,
                   AtenTensorHandle *out)
{
    rows r;
    *out = NULL;
    if (more <= 0 || t->size[dim] < LEAST_RATIO * more || !find_rows(t, dim, &r) ||
        (!reach && t->storage->card_bytes < LEAST_BYTES) || r.outer * r.count > MOST_PIECES)
        return true;
    int64_t count = r.count + more, room = count / 4 > LEAST_ROOM ? count / 4 : LEAST_ROOM;
    if (room < reach - count) room = reach - count;
    spyre_view dense = tensor_dense_view(t, dim, count);
    spyre_layout layout = layout_of_rows(t->storage, &r, &dense, dim, count);
    void *pointer;
    storage *s = NULL;
    if (r.outer == 1 &&
        !storage_extend(t->storage, &dense, &layout, reach * r.run_bytes, &s, &pointer))
        return false;
    if (s) return tensor_of_storage(pointer, s, out);
    s = storage_create_with_room(t->storage->card, t->storage->dtype, &dense, &layout,
                                 room * r.outer * r.run_bytes, &pointer);
    if (!s) return false;
    if (put_rows(s, 0, t->storage, &r)) return tensor_of_storage(pointer, s, out);
    storage_release(pointer, NULL);
    return false;
}

// An extended tensor and the zeros behind it, `count` rows.
static bool with_zeros(AtenTensorHandle longer, int64_t dim, int64_t count, AtenTensorHandle *out)
{
    tensor_info t;
    rows r;
    if (!tensor_describe(longer, &t)) return false;
    if (!find_rows(&t, dim, &r))
        return core_fail(SPYRE_INTERNAL, "an extended tensor does not lie by rows");
    spyre_view dense = tensor_dense_view(&t, dim, count);
    spyre_layout layout = layout_of_rows(t.storage, &r, &dense, dim, count);
    void *pointer;
    storage *s = storage_with_zeros(t.storage, &dense, &layout, &pointer);
    return s && tensor_of_storage(pointer, s, out);
}

// Whether rows lie in the storage as in one that is extended, but for their place.
static bool lie_alike(const storage *s, const rows *r, const storage *longer)
{
    const spyre_layout *a = &s->layout, *b = &longer->layout;
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0, j = 1; i < a->rank; i++)
        if (i != r->place && a->device_size[i] != b->device_size[j++]) return false;
    return true;
}

// The dims of both in the order in which they lie, without the rows: strides sort them.
static bool same_order(const tensor_info *few, const rows *r, const tensor_info *longer,
                       int64_t dim)
{
    const spyre_layout *a = &few->storage->layout, *b = &longer->storage->layout;
    int64_t behind = few->stride[dim] * few->size[dim], further = longer->size[dim];
    for (uint32_t i = 0, j = 1; i < a->rank; i++) {
        if (i == r->place) continue;
        int64_t step = a->stride_map[i], wanted = b->stride_map[j++];
        if (a->device_size[i] == 1) continue;
        if (step >= behind) step = step / few->size[dim] * further;
        if (step != wanted) return false;
    }
    return true;
}

// Writes the last rows of an extended tensor.
static bool write_rows(const tensor_info *longer, int64_t dim, const tensor_info *few)
{
    rows r;
    int64_t count = few->size[dim], at = longer->size[dim] - count, size[CORE_MAX_RANK];
    if (find_rows(few, dim, &r) && lie_alike(few->storage, &r, longer->storage) &&
        same_order(few, &r, longer, dim)) {
        longer->storage->extended = false;
        return put_rows(longer->storage, at, few->storage, &r);
    }
    memcpy(size, longer->size, (size_t)longer->rank * sizeof *size);
    size[dim] = count;
    AtenTensorHandle last = glue_view(longer->handle, longer->rank, size, longer->stride,
                                      at * longer->stride[dim]);
    bool ok = core_shim(aoti_torch_copy_(last, few->handle, 0));
    aoti_torch_delete_tensor_object(last);
    return ok;
}

static bool may_follow(const tensor_info *t, const tensor_info *few, int64_t dim)
{
    bool fits = t->rank == few->rank && t->torch_dtype == few->torch_dtype && few->storage &&
                few->storage->typed && t->storage && t->storage->card == few->storage->card &&
                few->numel > 0 && dtype_of_torch(few->torch_dtype) == few->storage->dtype;
    for (int64_t i = 0; fits && i < t->rank; i++) fits = i == dim || t->size[i] == few->size[i];
    return fits;
}

bool extend_cat(const void *tensor, const void *more, int64_t dim, void **out_tensor)
{
    tensor_info t, few, made;
    AtenTensorHandle longer;
    *out_tensor = NULL;
    if (!tensor_describe(tensor_handle(tensor), &t) || !tensor_describe(tensor_handle(more), &few))
        return false;
    if (dim < 0) dim += t.rank;
    if (dim < 0 || dim >= t.rank || !may_follow(&t, &few, dim)) return true;
    if (!device_context() || !extend(&t, dim, few.size[dim], 0, &longer)) return false;
    if (!longer) return true;
    if (tensor_describe(longer, &made) && write_rows(&made, dim, &few)) {
        *out_tensor = longer;
        return true;
    }
    aoti_torch_delete_tensor_object(longer);
    return false;
}

// extend(tensor, dim, rows, reach) -> a tensor that is so many rows longer, which the next launch
// writes, and that tensor with zeros behind it, `reach` rows (without `reach`, None); None where
// the concatenation is to be made as a whole.
static PyObject *py_extend(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object;
    long long dim, more, reach = 0;
    tensor_info t;
    AtenTensorHandle made, whole;
    if (!PyArg_ParseTuple(args, "OLL|L", &object, &dim, &more, &reach)) return NULL;
    if (!tensor_of_object(object, &t)) return core_raise();
    if (dim < 0 || dim >= t.rank || (reach && reach < t.size[dim] + more) || !device_context())
        Py_RETURN_NONE;
    if (!extend(&t, dim, more, reach, &made)) return core_raise();
    if (!made) Py_RETURN_NONE;
    if (!reach) return Py_BuildValue("(NO)", glue_to_python(made), Py_None);
    if (with_zeros(made, dim, reach, &whole))
        return Py_BuildValue("(NN)", glue_to_python(made), glue_to_python(whole));
    aoti_torch_delete_tensor_object(made);
    return core_raise();
}

static PyMethodDef methods[] = {
    {"extend", py_extend, METH_VARARGS,
     "(tensor, dim, rows, reach=0) -> (longer, longer with zeros up to reach rows) or None"},
    {NULL, NULL, 0, NULL},
};

bool extend_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
