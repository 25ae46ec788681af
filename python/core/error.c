// SPDX-License-Identifier: Apache-2.0
//
// Errors of one thread on their way to an exception of Python or of PyTorch's dispatcher.
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local spyre_code code_of_thread;
static _Thread_local char message_of_thread[4096];
static PyObject *unsupported_error, *out_of_memory_error, *internal_error;
static PyObject *index_fault, *argument_error;

// What a signal's handler has raised during a wait of this thread: type, value, traceback.
static _Thread_local PyObject *interruption[3];

// The code of errors that PyTorch's own functions give.
#define FROM_PYTORCH ((spyre_code)(CORE_INDEX_ERROR + 1))

bool core_fail(spyre_code code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(message_of_thread, sizeof message_of_thread, format, values);
    va_end(values);
    size_t length = strlen(message_of_thread);
    if (code == SPYRE_INTERNAL)
        snprintf(message_of_thread + length, sizeof message_of_thread - length,
                 "\nThis is a fault of torch_spyre, not of the program. Please report it with the "
                 "archive that `spyre-bug-report script.py` makes.");
    code_of_thread = code;
    return false;
}

bool core_check(spyre_status status)
{
    if (!status) return true;
    core_fail(spyre_status_code(status), "%s", spyre_status_message(status));
    spyre_status_free(status);
    return false;
}

bool core_fail_pytorch(const char *what)
{
    return core_fail(FROM_PYTORCH, "%s", what);
}

bool core_shim(AOTITorchError error)
{
    return !error || core_fail_pytorch(torch_exception_get_what_without_backtrace());
}

spyre_code core_error_code(void)
{
    return code_of_thread;
}

const char *core_error_message(void)
{
    return message_of_thread;
}

void *core_error_class(void)
{
    if (code_of_thread == SPYRE_UNSUPPORTED) return unsupported_error;
    if (code_of_thread == SPYRE_INDEX_FAULT) return index_fault;
    return code_of_thread == SPYRE_INTERNAL ? internal_error : NULL;
}

bool core_interrupted(void)
{
    if (interruption[0]) return true; // of a wait whose caller cannot raise
    if (!Py_IsInitialized()) return false;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (!PyErr_Occurred() && PyErr_CheckSignals() < 0)
        PyErr_Fetch(&interruption[0], &interruption[1], &interruption[2]);
    PyGILState_Release(gil);
    return interruption[0];
}

bool core_take_interruption(void *out_exception[3])
{
    if (code_of_thread != SPYRE_CANCELLED || !interruption[0]) return false;
    memcpy(out_exception, interruption, sizeof interruption);
    memset(interruption, 0, sizeof interruption);
    return true;
}

// With the handler's exception set, where there is one.
static bool raise_interruption(void)
{
    void *exception[3];
    if (!core_take_interruption(exception)) return false;
    PyErr_Restore(exception[0], exception[1], exception[2]);
    return true;
}

PyObject *core_raise(void)
{
    if (raise_interruption()) return NULL;
    PyObject *type = core_error_class();
    if (code_of_thread == SPYRE_INVALID_ARGUMENT) type = PyExc_ValueError;
    if (code_of_thread == CORE_INDEX_ERROR) type = PyExc_IndexError;
    if (code_of_thread == SPYRE_OUT_OF_MEMORY && out_of_memory_error) type = out_of_memory_error;
    if (!PyErr_Occurred()) PyErr_SetString(type ? type : PyExc_RuntimeError, message_of_thread);
    return NULL;
}

PyObject *core_raise_of_graph(void)
{
    if (code_of_thread != SPYRE_INVALID_ARGUMENT || PyErr_Occurred()) return core_raise();
    PyErr_SetString(argument_error, message_of_thread);
    return NULL;
}

PyObject *core_raise_runtime(void)
{
    if (raise_interruption()) return NULL;
    PyObject *type = core_error_class();
    PyErr_SetString(type ? type : PyExc_RuntimeError, message_of_thread);
    return NULL;
}

// A class of the first `count` of IndexError, RuntimeError and ValueError: what PyTorch raises for
// the same mistake is one of them, by the operator.
static PyObject *new_class(const char *name, const char *doc, Py_ssize_t count)
{
    PyObject *bases = PyTuple_Pack(3, PyExc_IndexError, PyExc_RuntimeError, PyExc_ValueError);
    PyObject *first = bases ? PyTuple_GetSlice(bases, 0, count) : NULL;
    PyObject *made = first ? PyErr_NewExceptionWithDoc(name, doc, first, NULL) : NULL;
    Py_XDECREF(bases);
    Py_XDECREF(first);
    return made;
}

bool error_register(PyObject *module)
{
    unsupported_error = PyErr_NewExceptionWithDoc("torch_spyre.Unsupported",
                                                  "The compiler has no lowering for this.",
                                                  PyExc_RuntimeError, NULL);
    internal_error = PyErr_NewExceptionWithDoc(
        "torch_spyre.InternalError",
        "A stage of torch_spyre broke its own rules: a fault to report, never a fallback.",
        PyExc_RuntimeError, NULL);
    index_fault = new_class("torch_spyre.IndexFault",
                            "An index of a gather or scatter on the card is out of range.", 2);
    argument_error = new_class("torch_spyre.ArgumentError",
                               "What an operator of a graph is given breaks one of its rules.", 3);
    PyObject *torch = PyImport_ImportModule("torch._C");
    out_of_memory_error = torch ? PyObject_GetAttrString(torch, "OutOfMemoryError") : NULL;
    Py_XDECREF(torch);
    return unsupported_error && out_of_memory_error && internal_error && index_fault &&
           argument_error && PyModule_AddObjectRef(module, "IndexFault", index_fault) == 0 &&
           PyModule_AddObjectRef(module, "ArgumentError", argument_error) == 0 &&
           PyModule_AddObjectRef(module, "Unsupported", unsupported_error) == 0 &&
           PyModule_AddObjectRef(module, "InternalError", internal_error) == 0;
}
