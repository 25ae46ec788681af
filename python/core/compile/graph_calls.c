// SPDX-License-Identifier: Apache-2.0
//
// Calls of compiled graphs without Python in between. A DirectLaunch is a program of one launch:
// its segment takes arguments of the graph and makes the graph's results. GraphCalls is the
// function of a graph: the tensors of a call select a program in the graph's table, which is
// launched; a call without one, or under any condition, goes to a function in Python.
#include "core.h"

#include <stdlib.h>

typedef struct {
    PyObject_HEAD PyObject *executable;
    uint32_t segment, card;
    Py_ssize_t input_count, result_count;
    Py_ssize_t *inputs;         // of the segment: arguments of the graph
    Py_ssize_t *results;        // of the graph: those of the launch
    bool in_order;              // they are the first ones, and all results
} direct_launch;

typedef struct {
    PyObject_HEAD PyObject *programs;   // dict: tensors_key() -> an object with `direct` and `used`
    PyObject *conditions;               // tuple of containers that are empty in usual calls
    PyObject *other;
} graph_calls;

static PyTypeObject *launch_type, *calls_type;
static PyObject *direct_name, *used_name;   // of attributes

// ---- DirectLaunch

static void launch_free(PyObject *self)
{
    direct_launch *d = (direct_launch *)self;
    Py_XDECREF(d->executable);
    free(d->inputs);
    free(d->results);
    object_free(self);
}

// Numbers of a tuple, below `most`; *in_order stays where they are 0, 1, .. False with an exception
// set.
static bool read_numbers(PyObject *tuple, Py_ssize_t most, Py_ssize_t **out, bool *in_order)
{
    const Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0) return false;
    *out = calloc((size_t)count + 1, sizeof **out);
    if (!*out) return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        const Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred()) return false;
        if (number < 0 || number >= most) {
            PyErr_Format(PyExc_ValueError, "DirectLaunch: number %zd of %zd", number, most);
            return false;
        }
        (*out)[i] = number;
        *in_order = *in_order && number == i;
    }
    return true;
}

static bool read_launch(direct_launch *d, const spyre_segment *segment, PyObject *inputs,
                        PyObject *results)
{
    d->input_count = PyTuple_Size(inputs);
    d->result_count = PyTuple_Size(results);
    if (d->input_count < 0 || d->result_count < 0) return false;
    if (segment->kind != SPYRE_SEGMENT_CARD || segment->scalar_count ||
        d->input_count != (Py_ssize_t)segment->input_count || d->card >= device_count()) {
        PyErr_Format(PyExc_ValueError,
                     "DirectLaunch: expected a segment of the card that takes no numbers and %zd "
                     "inputs", d->input_count);
        return false;
    }
    const Py_ssize_t made = (Py_ssize_t)segment->output_count;
    d->in_order = d->result_count == made;
    return read_numbers(inputs, PY_SSIZE_T_MAX, &d->inputs, &d->in_order) &&
           read_numbers(results, made, &d->results, &d->in_order);
}

// DirectLaunch(executable, segment, card, inputs, results): of a graph, the arguments that the
// segment takes, and the results of the launch that are the graph's.
static PyObject *launch_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *executable, *index, *inputs, *results;
    uint32_t card, number;
    if (!PyArg_ParseTuple(args, "OOO&O!O!", &executable, &index, core_u32, &card, &PyTuple_Type,
                          &inputs, &PyTuple_Type, &results))
        return NULL;
    if (!executable_of_object(executable)) return NULL;
    const spyre_segment *segment = executable_segment(executable, index, &number);
    direct_launch *d = segment ? (direct_launch *)object_new(type) : NULL;
    if (!d) return NULL;
    Py_INCREF(executable);
    d->executable = executable;
    d->segment = number;
    d->card = card;
    if (read_launch(d, segment, inputs, results)) return (PyObject *)d;
    Py_DECREF((PyObject *)d);
    return NULL;
}

// The arguments that the segment takes; null with an exception set.
static PyObject *inputs_of(const direct_launch *d, PyObject *arguments)
{
    PyObject *inputs = PyTuple_New(d->input_count);
    for (Py_ssize_t i = 0; inputs && i < d->input_count; i++) {
        PyObject *tensor = PyTuple_GetItem(arguments, d->inputs[i]);
        Py_XINCREF(tensor);
        if (!tensor || PyTuple_SetItem(inputs, i, tensor) < 0) Py_CLEAR(inputs);
    }
    return inputs;
}

// A list of the graph's results; null with an exception set.
static PyObject *results_of(const direct_launch *d, PyObject *found)
{
    PyObject *results = PyList_New(d->result_count);
    for (Py_ssize_t i = 0; results && i < d->result_count; i++) {
        PyObject *tensor = PyList_GetItem(found, d->results[i]);
        Py_XINCREF(tensor);
        if (!tensor || PyList_SetItem(results, i, tensor) < 0) Py_CLEAR(results);
    }
    return results;
}

static PyObject *start(const direct_launch *d, PyObject *inputs)
{
    return executable_launch_tensors(executable_of_object(d->executable), d->segment, inputs,
                                     d->card);
}

static PyObject *launch_directly(const direct_launch *d, PyObject *arguments)
{
    if (d->in_order && PyTuple_Size(arguments) == d->input_count) return start(d, arguments);
    PyObject *inputs = inputs_of(d, arguments);
    PyObject *found = inputs ? start(d, inputs) : NULL;
    PyObject *results = found ? results_of(d, found) : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(found);
    return results;
}

// ---- GraphCalls

static void calls_free(PyObject *self)
{
    graph_calls *c = (graph_calls *)self;
    Py_XDECREF(c->programs);
    Py_XDECREF(c->conditions);
    Py_XDECREF(c->other);
    object_free(self);
}

// GraphCalls(programs, conditions, other)
static PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *programs, *conditions, *other;
    if (!PyArg_ParseTuple(args, "O!O!O", &PyDict_Type, &programs, &PyTuple_Type, &conditions,
                          &other))
        return NULL;
    graph_calls *c = (graph_calls *)object_new(type);
    if (!c) return NULL;
    Py_INCREF(programs);
    Py_INCREF(conditions);
    Py_INCREF(other);
    c->programs = programs;
    c->conditions = conditions;
    c->other = other;
    return (PyObject *)c;
}

static bool is_usual(const graph_calls *c)
{
    const Py_ssize_t count = PyTuple_Size(c->conditions);
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyObject_Size(PyTuple_GetItem(c->conditions, i)) != 0) return false;
    return true;
}

// The program's DirectLaunch, or null, maybe with an exception set. The table of all programs
// learns that this one is in use.
static PyObject *direct_of(PyObject *program)
{
    PyObject *direct = PyObject_GetAttr(program, direct_name);
    if (direct && PyObject_TypeCheck(direct, launch_type) &&
        PyObject_SetAttr(program, used_name, Py_True) == 0)
        return direct;
    Py_XDECREF(direct);
    return NULL;
}

// Null without an exception where the call is the other function's.
static PyObject *call_directly(const graph_calls *c, PyObject *arguments)
{
    PyObject *key = tensors_key(arguments);
    if (!key) return NULL;
    PyObject *program = PyDict_GetItemWithError(c->programs, key);
    PyObject *direct = program ? direct_of(program) : NULL;
    PyObject *results =
        direct ? launch_directly((const direct_launch *)direct, arguments) : NULL;
    Py_XDECREF(direct);
    Py_DECREF(key);
    return results;
}

static PyObject *calls_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    const graph_calls *c = (const graph_calls *)self;
    const bool named = kwargs && PyDict_Size(kwargs);
    PyObject *results = !named && is_usual(c) ? call_directly(c, args) : NULL;
    return results || PyErr_Occurred() ? results : PyObject_Call(c->other, args, kwargs);
}

// ---- types

static PyType_Slot launch_slots[] = {
    {Py_tp_new, launch_new},
    {Py_tp_dealloc, launch_free},
    {0, NULL},
};

static PyType_Spec launch_spec = {"torch_spyre._C.DirectLaunch", sizeof(direct_launch), 0,
                                  Py_TPFLAGS_DEFAULT, launch_slots};

static PyType_Slot calls_slots[] = {
    {Py_tp_new, calls_new},
    {Py_tp_dealloc, calls_free},
    {Py_tp_call, calls_call},
    {0, NULL},
};

static PyType_Spec calls_spec = {"torch_spyre._C.GraphCalls", sizeof(graph_calls), 0,
                                 Py_TPFLAGS_DEFAULT, calls_slots};

bool graph_calls_register(PyObject *module)
{
    launch_type = (PyTypeObject *)PyType_FromSpec(&launch_spec);
    calls_type = (PyTypeObject *)PyType_FromSpec(&calls_spec);
    direct_name = PyUnicode_InternFromString("direct");
    used_name = PyUnicode_InternFromString("used");
    return launch_type && calls_type && direct_name && used_name &&
           PyModule_AddType(module, launch_type) == 0 && PyModule_AddType(module, calls_type) == 0;
}
