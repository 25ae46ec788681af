// SPDX-License-Identifier: Apache-2.0
//
// Functions that the package hands over once, for what the binding finds out and Python does. The
// binding names no module of Python's: the package may go by another name (torch_spyre/adopt).
#include "core.h"

static PyObject *hooks[HOOK_COUNT];

PyObject *hook_call(hook which)
{
    PyObject *function = hooks[which];
    return function ? PyObject_CallNoArgs(function) : Py_NewRef(Py_None);
}

static PyObject *set(hook which, PyObject *function)
{
    PyObject *before = hooks[which];
    hooks[which] = function == Py_None ? NULL : Py_NewRef(function);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *py_on_downcast(PyObject *Py_UNUSED(self), PyObject *function)
{
    return set(HOOK_DOWNCAST, function);
}

static PyObject *py_on_wide(PyObject *Py_UNUSED(self), PyObject *function)
{
    return set(HOOK_WIDE, function);
}

static PyObject *py_on_layout(PyObject *Py_UNUSED(self), PyObject *function)
{
    return set(HOOK_LAYOUT, function);
}

static PyMethodDef methods[] = {
    {"_on_downcast", py_on_downcast, METH_O,
     "The function or None that copies of int64 to the card call until it returns True."},
    {"_on_wide", py_on_wide, METH_O,
     "The function or None that copies of int64 beyond 32 bits to the card call until it returns "
     "True."},
    {"_on_layout", py_on_layout, METH_O,
     "The function or None that the first SpyreTensorLayout of the process calls."},
    {NULL, NULL, 0, NULL},
};

bool hook_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
