// SPDX-License-Identifier: Apache-2.0
//
// KTIR kernels from Python: what torch_spyre.ktir is made of. Values are tuples
// (address, bytes, integer, real): host memory of an array, or a number.
#include "core.h"

#include <stdlib.h>

#include "spyre/graph.h"
#include "spyre/ktir.h"

typedef struct {
    PyObject_HEAD spyre_ktir *kernel;
} kernel_object;

typedef struct {
    PyObject_HEAD spyre_ktir_program *program;
    Py_ssize_t parameters;
} program_object;

static PyTypeObject *kernel_type, *program_type;

static spyre_ktir *kernel_of(PyObject *self)
{
    return ((kernel_object *)self)->kernel;
}

static spyre_ktir_program *program_of(PyObject *self)
{
    return ((program_object *)self)->program;
}

static void kernel_free(PyObject *self)
{
    spyre_ktir_destroy(kernel_of(self));
    object_free(self);
}

static void program_free(PyObject *self)
{
    spyre_ktir_program_destroy(program_of(self));
    object_free(self);
}

static PyObject *take_text(bool ok, char *string)
{
    if (!ok) return core_raise();
    PyObject *result = PyUnicode_FromString(string);
    spyre_string_free(string);
    return result;
}

// ktir_parse(source, file) -> KtirKernel
static PyObject *py_ktir_parse(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *source, *file;
    spyre_ktir *kernel;
    if (!PyArg_ParseTuple(args, "ss", &source, &file)) return NULL;
    if (!core_check(spyre_ktir_parse(source, file, &kernel))) return core_raise();
    PyObject *made = object_new(kernel_type);
    if (made) ((kernel_object *)made)->kernel = kernel;
    else spyre_ktir_destroy(kernel);
    return made;
}

// --- What a module has

static PyObject *sizes_of(const int64_t *sizes, uint32_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t d = 0; tuple && d < count; d++)
        PyTuple_SetItem(tuple, (Py_ssize_t)d, PyLong_FromLongLong(sizes[d]));
    return tuple;
}

static PyObject *parameters_of(const spyre_ktir *kernel, uint32_t function)
{
    PyObject *list = PyList_New(0);
    uint32_t count = spyre_ktir_parameter_count(kernel, function);
    for (uint32_t n = 0; list && n < count; n++) {
        spyre_ktir_parameter p;
        spyre_ktir_describe_parameter(kernel, function, n, &p);
        PyObject *item = Py_BuildValue("(siiisN)", p.name, (int)p.is_memory, (int)p.is_view,
                                       (int)p.is_written, spyre_dtype_name(p.dtype),
                                       sizes_of(p.size, p.rank));
        if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

// functions() -> [(name, grid, [(name, is memory, is view, is written, dtype, shape), ..]), ..]
static PyObject *kernel_functions(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const spyre_ktir *kernel = kernel_of(self);
    PyObject *list = PyList_New(0);
    for (uint32_t f = 0; list && f < spyre_ktir_function_count(kernel); f++) {
        int64_t grid[SPYRE_KTIR_MOST_GRID];
        uint32_t rank = spyre_ktir_function_grid(kernel, f, grid);
        PyObject *item = Py_BuildValue("(sNN)", spyre_ktir_function_name(kernel, f),
                                       sizes_of(grid, rank), parameters_of(kernel, f));
        if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *kernel_text(PyObject *self, PyObject *Py_UNUSED(unused))
{
    char *string = NULL;
    bool ok = core_check(spyre_ktir_print(kernel_of(self), &string));
    return take_text(ok, string);
}

// --- Calls

typedef struct {
    spyre_ktir_options options;
    Py_ssize_t count;
    spyre_ktir_value *values;
} call;

static bool take_values(PyObject *sequence, call *c)
{
    PyObject *tuple = PySequence_Tuple(sequence);
    if (!tuple) return false;
    c->count = PyTuple_Size(tuple);
    c->values = calloc((size_t)c->count + 1, sizeof *c->values);
    bool ok = c->values;
    for (Py_ssize_t n = 0; ok && n < c->count; n++) {
        unsigned long long address;
        long long bytes, integer;
        ok = core_parse(PyTuple_GetItem(tuple, n), "a value", "KLLd", &address, &bytes, &integer,
                        &c->values[n].real);
        if (!ok) break;
        c->values[n].bytes = (void *)(uintptr_t)address;
        c->values[n].byte_count = bytes;
        c->values[n].integer = integer;
    }
    Py_DECREF(tuple);
    return ok;
}

static bool take_grid(PyObject *sequence, spyre_ktir_options *options)
{
    PyObject *tuple = PySequence_Tuple(sequence);
    if (!tuple) return false;
    Py_ssize_t rank = PyTuple_Size(tuple);
    bool ok = rank <= SPYRE_KTIR_MOST_GRID;
    for (Py_ssize_t d = 0; ok && d < rank; d++)
        options->grid[d] = PyLong_AsLongLong(PyTuple_GetItem(tuple, d));
    options->grid_rank = (uint32_t)rank;
    Py_DECREF(tuple);
    if (!ok) PyErr_Format(PyExc_ValueError, "a grid has at most %d dims", SPYRE_KTIR_MOST_GRID);
    return ok && !PyErr_Occurred();
}

// (function, grid, steps, values); the caller frees the values.
static bool take_call(PyObject *self, PyObject *args, call *c)
{
    PyObject *grid, *values;
    unsigned function;
    unsigned long long steps;
    *c = (call){0};
    if (!PyArg_ParseTuple(args, "IOKO", &function, &grid, &steps, &values)) return false;
    c->options.function = function;
    c->options.most_steps = steps;
    if (function >= spyre_ktir_function_count(kernel_of(self))) {
        PyErr_Format(PyExc_ValueError, "there is no function %u", function);
        return false;
    }
    if (!take_grid(grid, &c->options) || !take_values(values, c)) return false;
    if (c->count == (Py_ssize_t)spyre_ktir_parameter_count(kernel_of(self), function)) return true;
    PyErr_Format(PyExc_ValueError, "the function has %u parameters, %zd were given",
                 spyre_ktir_parameter_count(kernel_of(self), function), c->count);
    return false;
}

static PyObject *kernel_interpret(PyObject *self, PyObject *args)
{
    call c;
    bool ok = take_call(self, args, &c);
    if (ok) {
        spyre_status status;
        Py_BEGIN_ALLOW_THREADS
        status = spyre_ktir_interpret(kernel_of(self), &c.options, c.values);
        Py_END_ALLOW_THREADS
        ok = core_check(status);
    }
    free(c.values);
    if (ok) Py_RETURN_NONE;
    return PyErr_Occurred() ? NULL : core_raise();
}

static PyObject *kernel_lower(PyObject *self, PyObject *args)
{
    call c;
    spyre_ktir_program *program = NULL;
    bool ok = take_call(self, args, &c) &&
              core_check(spyre_ktir_lower(kernel_of(self), &c.options, c.values, &program));
    free(c.values);
    if (!ok) return PyErr_Occurred() ? NULL : core_raise();
    PyObject *made = object_new(program_type);
    if (made) {
        ((program_object *)made)->program = program;
        ((program_object *)made)->parameters = c.count;
    } else {
        spyre_ktir_program_destroy(program);
    }
    return made;
}

// --- Programs

static PyObject *program_run(PyObject *self, PyObject *values)
{
    call c = {0};
    spyre_context *context = device_context();
    bool ok = context && take_values(values, &c);
    if (ok && c.count != ((program_object *)self)->parameters) {
        PyErr_SetString(PyExc_ValueError, "another number of values than the program was made for");
        ok = false;
    }
    if (ok) {
        spyre_status status;
        uint32_t card = (uint32_t)device_current();
        Py_BEGIN_ALLOW_THREADS
        status = spyre_ktir_program_run(context, card, program_of(self), c.values);
        Py_END_ALLOW_THREADS
        ok = core_check(status);
    }
    free(c.values);
    if (ok) Py_RETURN_NONE;
    return PyErr_Occurred() ? NULL : core_raise();
}

static PyObject *program_why(PyObject *self, PyObject *Py_UNUSED(unused))
{
    char *string = NULL;
    bool ok = core_check(spyre_ktir_why(program_of(self), &string));
    return take_text(ok, string);
}

static PyObject *program_listing(PyObject *self, PyObject *Py_UNUSED(unused))
{
    char *string = NULL;
    bool ok = core_check(spyre_ktir_program_listing(program_of(self), &string));
    return take_text(ok, string);
}

// counters() -> [(name, location, cores, us, bound, read, written, ring, macs, vectors), ..], with
// the sum last
static PyObject *program_counters(PyObject *self, PyObject *Py_UNUSED(unused))
{
    uint32_t count;
    const spyre_kernel_counters *k = spyre_ktir_program_counters(program_of(self), &count);
    PyObject *list = PyList_New(0);
    for (uint32_t n = 0; list && n <= count; n++) {
        PyObject *item = Py_BuildValue(
            "(ssIdsLLLLL)", k[n].name, k[n].location, k[n].cores, k[n].us,
            spyre_bound_name(k[n].bound), (long long)k[n].memory_read_bytes,
            (long long)k[n].memory_written_bytes, (long long)k[n].ring_bytes,
            (long long)k[n].mac_count, (long long)k[n].vector_element_count);
        if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef kernel_methods[] = {
    {"functions", kernel_functions, METH_NOARGS, "Functions, their grids and parameters."},
    {"text", kernel_text, METH_NOARGS, "The module as text."},
    {"interpret", kernel_interpret, METH_VARARGS, "(function, grid, steps, values)"},
    {"lower", kernel_lower, METH_VARARGS, "(function, grid, steps, values) -> KtirProgram"},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef program_methods[] = {
    {"run", program_run, METH_O, "(values)"},
    {"why", program_why, METH_NOARGS, "Where the time goes."},
    {"listing", program_listing, METH_NOARGS, "The program as text."},
    {"counters", program_counters, METH_NOARGS, "Counters of its kernels and their sum."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_dealloc, kernel_free},
    {Py_tp_methods, kernel_methods},
    {0, NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_dealloc, program_free},
    {Py_tp_methods, program_methods},
    {0, NULL},
};

static PyType_Spec kernel_spec = {"torch_spyre._C.KtirKernel", sizeof(kernel_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  kernel_slots};
static PyType_Spec program_spec = {"torch_spyre._C.KtirProgram", sizeof(program_object), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   program_slots};

static PyMethodDef methods[] = {
    {"ktir_parse", py_ktir_parse, METH_VARARGS, "(source, file) -> KtirKernel"},
    {NULL, NULL, 0, NULL},
};

bool ktir_register(PyObject *module)
{
    kernel_type = (PyTypeObject *)PyType_FromSpec(&kernel_spec);
    program_type = (PyTypeObject *)PyType_FromSpec(&program_spec);
    return kernel_type && program_type && PyModule_AddType(module, kernel_type) == 0 &&
           PyModule_AddType(module, program_type) == 0 &&
           PyModule_AddFunctions(module, methods) == 0;
}
