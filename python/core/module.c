// SPDX-License-Identifier: Apache-2.0
//
// torch_spyre._C: every file registers its own part.
#include "core.h"
#include "tensor/bucket_operands.h"
#include "tensor/integer_bounds.h"
#include "spyre/version.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "torch_spyre._C",
                                        "The C part of torch_spyre.",
                                        -1,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

// Errors first: the others report through them.
static bool (*const parts[])(PyObject *module) = {
    error_register,       hook_register,       dtype_register,      device_register,
    memory_register,      placement_register,  stream_register,     empty_register,
    view_register,        tensor_key_register, layout_register,     copy_register,
    copy_rows_register,   extend_register,     fit_register,        range_register,
    graph_register,       loops_register,      executable_register, compile_register,
    eager_register,       spyrecode_register,  ktir_register,       profile_register,
    graph_calls_register,
};

PyMODINIT_FUNC PyInit__C(void);

PyMODINIT_FUNC PyInit__C(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    bool ok = comm_graph_register(module);
    for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++) ok = parts[i](module);
    if (ok && PyModule_AddStringConstant(module, "__version__", spyre_version()) == 0)
        return module;
    Py_DECREF(module);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, core_error_message());
    return NULL;
}
