// SPDX-License-Identifier: Apache-2.0
//
// The line of Python that a launch comes from: of the innermost frame that is neither PyTorch's nor
// ours. A table knows the functions that were met, so that asking costs less than a launch.
#include "core.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_FRAMES = 64,       // a launch must not cost what a deep recursion does
    KNOWN_FUNCTIONS = 256,  // a power of two
};

typedef struct {
    PyObject *code;         // owned, so that its address stays its own; null: free
    bool library;           // of PyTorch or ours
    char file[72], function[56];
} function_info;

static function_info known[KNOWN_FUNCTIONS];    // guarded by Python's lock
static PyObject *name_of_back;                  // "f_back", interned

static void copy_attribute(PyObject *object, const char *name, char *out, size_t size)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    const char *text = value && PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : "";
    const char *last = text ? strrchr(text, '/') : NULL, *from = last ? last + 1 : text ? text : "";
    size_t end = strlen(from);
    if (end >= size) // ends with a whole character of UTF-8
        for (end = size - 1; end > 0 && ((unsigned char)from[end] & 0xC0) == 0x80;) end--;
    memcpy(out, from, end);
    out[end] = '\0';
    Py_XDECREF(value);
}

// Modules `torch`, `torch.*` and `torch_spyre*`; code that torch.fx writes has no module.
static bool is_library(PyObject *frame)
{
    PyObject *globals = PyObject_GetAttrString(frame, "f_globals");
    PyObject *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *module = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    bool library = !module || strcmp(module, "torch") == 0 || strncmp(module, "torch.", 6) == 0 ||
                   strncmp(module, "torch_spyre", 11) == 0;
    Py_XDECREF(globals);
    return library;
}

static const function_info *function_of(PyObject *frame)
{
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    uintptr_t bits = (uintptr_t)code / 16;
    function_info *f = &known[(bits ^ bits / KNOWN_FUNCTIONS) % KNOWN_FUNCTIONS];
    if (f->code == code) {
        Py_DECREF(code);
        return f;
    }
    PyObject *other = f->code;
    f->code = NULL;
    Py_XDECREF(other); // may run Python, and other threads
    f->code = code;
    f->library = is_library(frame);
    copy_attribute(code, "co_filename", f->file, sizeof f->file);
    copy_attribute(code, "co_name", f->function, sizeof f->function);
    return f;
}

// "train.py:12 in step", as compiled programs name the lines of their operators.
static void write_place(char *out_text, size_t size)
{
    if (!name_of_back) name_of_back = PyUnicode_InternFromString("f_back");
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    for (int n = 0; n < MOST_FRAMES && frame && frame != Py_None && name_of_back; n++) {
        const function_info *f = function_of(frame);
        if (!f->library) {
            snprintf(out_text, size, "%s:%d in %s", f->file,
                     PyFrame_GetLineNumber((PyFrameObject *)frame), f->function);
            break;
        }
        PyObject *outer = PyObject_GetAttr(frame, name_of_back);
        Py_DECREF(frame);
        frame = outer;
    }
    Py_XDECREF(frame);
}

void core_caller(char *out_text, size_t size)
{
    out_text[0] = '\0';
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *exception[3]; // of the caller, who may be handling one
    PyErr_Fetch(&exception[0], &exception[1], &exception[2]);
    write_place(out_text, size);
    PyErr_Clear();
    PyErr_Restore(exception[0], exception[1], exception[2]);
    PyGILState_Release(gil);
}
