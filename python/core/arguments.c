// SPDX-License-Identifier: Apache-2.0
//
// Values from and to Python.
#include "core.h"

#include <stdarg.h>

bool core_parse(PyObject *object, const char *what, const char *format, ...)
{
    if (!PyTuple_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s is a tuple, not %R", what, object);
        return false;
    }
    va_list values;
    va_start(values, format);
    bool ok = PyArg_VaParse(object, format, values);
    va_end(values);
    return ok;
}

int64_t core_ints(PyObject *sequence, int64_t *out, int64_t capacity, const char *what)
{
    Py_ssize_t count = PySequence_Size(sequence);
    if (count < 0) return -1;
    if (count > capacity) {
        PyErr_Format(PyExc_RuntimeError,
                     "Unsupported tensor rank: %s has %zd entries, the limit is %d", what, count,
                     (int)capacity);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        PyObject *index = item ? PyNumber_Index(item) : NULL;
        out[i] = index ? PyLong_AsLongLong(index) : -1;
        Py_XDECREF(index);
        Py_XDECREF(item);
        if (PyErr_Occurred()) return -1;
    }
    return count;
}

int core_u32(PyObject *object, void *out)
{
    PyObject *index = PyNumber_Index(object);
    if (!index) return 0;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(index, &overflow);
    bool fits = !overflow && value >= 0 && value <= UINT32_MAX;
    if (fits) *(uint32_t *)out = (uint32_t)value;
    else PyErr_Format(PyExc_ValueError, "%S: expected 0 to %lld", index, (long long)UINT32_MAX);
    Py_DECREF(index);
    return fits;
}

PyObject *core_int_list(const int64_t *values, uint32_t count)
{
    CORE_RETURN_LIST(count, PyLong_FromLongLong(values[i]));
}

PyObject *core_text(spyre_status status, char **text)
{
    if (!core_check(status)) return core_raise();
    PyObject *result = PyUnicode_FromString(*text);
    spyre_string_free(*text);
    return result;
}
