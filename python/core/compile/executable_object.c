// SPDX-License-Identifier: Apache-2.0
//
// torch_spyre._C.Executable: what the compiler made of a graph, as an object of Python.
#include "core.h"

typedef struct {
    PyObject_HEAD spyre_executable *executable;
} executable_object;

static PyTypeObject *executable_type;

static spyre_executable *of(PyObject *self)
{
    return ((executable_object *)self)->executable;
}

PyObject *executable_to_object(spyre_executable *compiled)
{
    PyObject *made = object_new(executable_type);
    if (made)
        ((executable_object *)made)->executable = compiled;
    else
        spyre_executable_destroy(compiled);
    return made;
}

static void executable_free(PyObject *self)
{
    spyre_executable_destroy(of(self));
    object_free(self);
}

const spyre_segment *executable_segment(PyObject *self, PyObject *index, uint32_t *out_number)
{
    uint32_t count = spyre_executable_segment_count(of(self));
    if (!core_u32(index, out_number)) return NULL;
    if (*out_number < count) return spyre_executable_segment(of(self), *out_number);
    PyErr_Format(PyExc_IndexError, "segment %u of %u", *out_number, count);
    return NULL;
}

spyre_executable *executable_of_object(PyObject *object)
{
    if (PyObject_TypeCheck(object, executable_type)) return of(object);
    PyErr_SetString(PyExc_TypeError, "expected an Executable");
    return NULL;
}

bool executable_add_type(PyObject *module, PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, executable_free},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    PyType_Spec spec = {"torch_spyre._C.Executable", sizeof(executable_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    executable_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return executable_type && PyModule_AddType(module, executable_type) == 0;
}
