// SPDX-License-Identifier: Apache-2.0
//
// Over which memory domains a thread's new storages lie, for torch_spyre/device/placement.py.
#include "core.h"

static _Thread_local spyre_placement placement;

const spyre_placement *memory_placement(void)
{
    return &placement;
}

// exchange_placement(kind, domains) -> (kind, domains) before
static PyObject *py_exchange_placement(PyObject *Py_UNUSED(self), PyObject *args)
{
    unsigned int kind, domains;
    if (!PyArg_ParseTuple(args, "II", &kind, &domains)) return NULL;
    const spyre_placement wanted = {(spyre_place_kind)kind, domains};
    if (kind > SPYRE_PLACE_INTERLEAVE)
        return PyErr_Format(PyExc_ValueError, "a placement of kind %u: expected 0 to %d", kind,
                            SPYRE_PLACE_INTERLEAVE);
    if (!core_check(spyre_placement_check(&wanted))) return core_raise();
    PyObject *before = Py_BuildValue("(II)", (unsigned int)placement.kind, placement.domains);
    if (before) placement = wanted;
    return before;
}

static PyMethodDef methods[] = {
    {"_exchange_placement", py_exchange_placement, METH_VARARGS,
     "(kind, domains) -> those before: where this thread's tensors are placed"},
    {NULL, NULL, 0, NULL},
};

bool placement_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
