// SPDX-License-Identifier: Apache-2.0
//
// What programs of a tensor depend on, as bytes: the key under which they are found again.
#include "core.h"

#include <stdlib.h>
#include <string.h>

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
    int32_t dtypes = (int32_t)s->dtype | (int32_t)s->widened_from << 16;
    int32_t kind[5] = {dtypes, (int32_t)s->dense.rank, (int32_t)s->layout.rank,
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
    if (!tensor_settle(&t)) return false;
    *out_length = tensor_write_key(&t, buffer, capacity);
    return *out_length <= capacity || core_fail(SPYRE_UNSUPPORTED, "Unsupported tensor rank: %lld",
                                                (long long)t.rank);
}

enum { KEY_BYTES = 1024 };              // more than any supported rank needs

static PyObject *py_tensor_key(PyObject *Py_UNUSED(self), PyObject *tensor)
{
    char buffer[KEY_BYTES];
    size_t length;
    if (!key_of_object(tensor, buffer, sizeof buffer, &length)) return core_raise();
    return PyBytes_FromStringAndSize(buffer, (Py_ssize_t)length);
}

// Each key stands behind its length; the length 0 stands for the tensor before.
PyObject *tensors_key(PyObject *tensors)
{
    const bool is_tuple = PyTuple_Check(tensors);
    if (!is_tuple && !PyList_Check(tensors)) {
        PyErr_SetString(PyExc_TypeError, "tensors_key: expected a list or a tuple");
        return NULL;
    }
    Py_ssize_t count = is_tuple ? PyTuple_Size(tensors) : PyList_Size(tensors);
    char *buffer = malloc((size_t)count * (sizeof(size_t) + KEY_BYTES) + 1), *at = buffer;
    if (!buffer) return PyErr_NoMemory();
    PyObject *key = NULL;
    const char *before = buffer;
    size_t before_length = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t length;
        char *own = at + sizeof length;
        PyObject *tensor = is_tuple ? PyTuple_GetItem(tensors, i) : PyList_GetItem(tensors, i);
        if (!key_of_object(tensor, own, KEY_BYTES, &length)) {
            core_raise();
            goto done;
        }
        if (length == before_length && memcmp(own, before, length) == 0) {
            length = 0;
        } else {
            before = own;
            before_length = length;
        }
        memcpy(at, &length, sizeof length);
        at = own + length;
    }
    key = PyBytes_FromStringAndSize(buffer, at - buffer);
done:
    free(buffer);
    return key;
}

static PyObject *py_tensors_key(PyObject *Py_UNUSED(self), PyObject *tensors)
{
    return tensors_key(tensors);
}

// widened_from(tensor) -> the dtype of 16 bits whose numbers a float32 tensor of the card is known
// to hold, or None.
static PyObject *py_widened_from(PyObject *Py_UNUSED(self), PyObject *tensor)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    if (!t.storage || !t.storage->widened_from) Py_RETURN_NONE;
    return PyUnicode_FromString(spyre_dtype_name((spyre_dtype)(t.storage->widened_from - 1)));
}

static PyMethodDef methods[] = {
    {"tensor_key", py_tensor_key, METH_O, "Type, view and layout of a tensor as bytes."},
    {"tensors_key", py_tensors_key, METH_O, "The keys of a list or tuple of tensors, as bytes."},
    {"widened_from", py_widened_from, METH_O,
     "(tensor) -> the 16-bit dtype whose numbers a float32 tensor is known to hold, or None"},
    {NULL, NULL, 0, NULL},
};

bool tensor_key_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
