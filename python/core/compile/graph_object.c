// SPDX-License-Identifier: Apache-2.0
//
// torch_spyre._C.Graph: hands nodes of a PyTorch graph to the compiler, one call a node.
//
// Arguments arrive as Python objects: (id,) is a value of the graph, a list is a list, a
// torch.dtype a dtype; None, bool, int, float and str are themselves; anything else goes as its
// text.
#include "core.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject_HEAD spyre_graph *graph;
} graph_object;

static PyTypeObject *graph_type;

const spyre_graph *graph_of_object(PyObject *object)
{
    if (PyObject_TypeCheck(object, graph_type)) return ((graph_object *)object)->graph;
    PyErr_SetString(PyExc_TypeError, "expected a torch_spyre._C.Graph");
    return NULL;
}

static spyre_graph *of(PyObject *self)
{
    return ((graph_object *)self)->graph;
}

// Graph(text=None, name="graph"): empty, or read from the text form; `name` is for messages.
static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    char text_name[] = "text", name_name[] = "name";
    char *names[] = {text_name, name_name, NULL};
    const char *text = NULL, *name = "graph";
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zs", names, &text, &name)) return NULL;
    PyObject *self = object_new(type);
    if (!self) return NULL;
    spyre_graph **out = &((graph_object *)self)->graph;
    if (core_check(text ? spyre_graph_parse(text, name, out) : spyre_graph_create(out)))
        return self;
    Py_DECREF(self);
    return core_raise();
}

static void graph_free(PyObject *self)
{
    spyre_graph_destroy(of(self));
    object_free(self);
}

// Fails for dtypes that the card stores only.
static bool is_computed(int32_t torch_dtype, spyre_dtype dtype, const char *name)
{
    return spyre_dtype_card_format(dtype) != SPYRE_FORMAT_INVALID ||
           core_fail(SPYRE_UNSUPPORTED, "input %s: the card has no format for %s", name,
                     dtype == SPYRE_DTYPE_COUNT ? glue_dtype_name(torch_dtype)
                                                : spyre_dtype_name(dtype));
}

// add_input(name, tensor) -> value. The tensor's view, storage and layout become the input's type.
static PyObject *add_input(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *tensor;
    tensor_info t;
    if (!PyArg_ParseTuple(args, "sO", &name, &tensor)) return NULL;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    bool on_card = t.device_type == aoti_torch_device_type_privateuse1();
    spyre_tensor_type type = {.dtype = dtype_of_torch(t.torch_dtype), .on_card = on_card};
    if (!is_computed(t.torch_dtype, type.dtype, name)) return core_raise();
    if (!tensor_view(&t, &type.view)) return core_raise();
    const storage *s = t.numel ? t.storage : NULL;
    if (s && (!s->typed || s->dtype != type.dtype)) {
        core_fail(SPYRE_UNSUPPORTED, "input %s: %s", name,
                  storage_is_bytes(s) && type.dtype == SPYRE_DTYPE_I64
                      ? "its int64 values do not fit the card's 32-bit integers"
                      : "it views a storage of another dtype");
        return core_raise();
    }
    uint32_t value;
    if (!core_check(spyre_graph_add_input(of(self), name, &type, s ? &s->dense : NULL,
                                          s ? &s->layout : NULL, &value)))
        return core_raise();
    return PyLong_FromUnsignedLong(value);
}

// ---- arguments of a node

static void free_argument(spyre_arg *arg)
{
    if (arg->kind != SPYRE_ARG_LIST) return;
    // Lists were allocated here, one block each; the type is const for the compiler only.
    spyre_arg *items = (spyre_arg *)(uintptr_t)arg->of.list.items;
    for (uint32_t i = 0; i < arg->of.list.count; i++) free_argument(&items[i]);
    free(items);
}

static bool read_argument(PyObject *object, PyObject *texts, spyre_arg *out);

static bool read_list(PyObject *object, PyObject *texts, spyre_arg *out)
{
    Py_ssize_t count = PySequence_Size(object);
    if (count < 0) return false;
    spyre_arg *items = calloc((size_t)count + 1, sizeof *items);
    if (!items) {
        PyErr_NoMemory();
        return false;
    }
    out->kind = SPYRE_ARG_LIST;
    out->of.list.items = items;
    out->of.list.count = (uint32_t)count;
    if (Py_EnterRecursiveCall(" in the arguments of a node")) return false;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        ok = item && read_argument(item, texts, &items[i]);
        Py_XDECREF(item);
    }
    Py_LeaveRecursiveCall();
    return ok;
}

static bool read_value(PyObject *object, spyre_arg *out)
{
    out->kind = SPYRE_ARG_VALUE;
    return core_u32(PyTuple_GetItem(object, 0), &out->of.value);
}

// (index, like): a number that each launch gives.
static bool read_scalar(PyObject *object, spyre_arg *out)
{
    PyObject *like = PyTuple_GetItem(object, 1);
    out->kind = SPYRE_ARG_SCALAR;
    out->of.scalar.is_int = PyLong_Check(like);
    out->of.scalar.like = PyFloat_AsDouble(like);
    return core_u32(PyTuple_GetItem(object, 0), &out->of.scalar.index) && !PyErr_Occurred();
}

// Text is kept alive by `texts` until the node is added; the graph copies it then.
static bool read_text(PyObject *object, PyObject *texts, spyre_arg *out)
{
    PyObject *text = PyObject_Str(object);
    bool ok = text && PyList_Append(texts, text) == 0;
    if (ok) {
        out->kind = SPYRE_ARG_STRING;
        out->of.string = PyUnicode_AsUTF8AndSize(text, NULL);
        ok = out->of.string != NULL;
    }
    Py_XDECREF(text);
    return ok;
}

static bool read_argument(PyObject *object, PyObject *texts, spyre_arg *out)
{
    memset(out, 0, sizeof *out);
    if (object == Py_None) return true;
    if (PyTuple_Check(object))
        return PyTuple_Size(object) == 2 ? read_scalar(object, out) : read_value(object, out);
    if (PyList_Check(object)) return read_list(object, texts, out);
    if (PyBool_Check(object)) {
        out->kind = SPYRE_ARG_BOOL;
        out->of.boolean = object == Py_True;
    } else if (PyLong_Check(object)) {
        out->kind = SPYRE_ARG_INT;
        out->of.integer = PyLong_AsLongLong(object);
    } else if (PyFloat_Check(object)) {
        out->kind = SPYRE_ARG_FLOAT;
        out->of.real = PyFloat_AsDouble(object);
    } else if (dtype_of_object(object, &out->of.dtype)) {
        out->kind = SPYRE_ARG_DTYPE;
    } else {
        return read_text(object, texts, out);
    }
    return !PyErr_Occurred();
}

// ---- results of a node: (dtype, on_card, sizes, strides, offset) each

static bool read_type(PyObject *object, spyre_tensor_type *out)
{
    PyObject *dtype, *size, *stride;
    int on_card;
    long long offset;
    memset(out, 0, sizeof *out);
    if (!core_parse(object, "a result", "OpOOL", &dtype, &on_card, &size, &stride, &offset))
        return false;
    if (!dtype_of_object(dtype, &out->dtype)) {
        core_fail(SPYRE_UNSUPPORTED, "a result's dtype is not known to the compiler");
        core_raise();
        return false;
    }
    int64_t rank = core_ints(size, out->view.size, SPYRE_MAX_RANK, "a result");
    if (rank < 0 || core_ints(stride, out->view.stride, SPYRE_MAX_RANK, "a result") != rank)
        return false;
    out->on_card = on_card != 0;
    out->view.rank = (uint32_t)rank;
    out->view.offset = offset;
    return true;
}

enum { MAX_RESULTS = 64 };

static bool read_results(PyObject *list, spyre_tensor_type *out, uint32_t *out_count)
{
    Py_ssize_t count = PyList_Size(list);
    if (count < 0) return false;
    if (count > MAX_RESULTS) {
        core_fail(SPYRE_UNSUPPORTED, "a node with %zd results; the limit is %d", count,
                  MAX_RESULTS);
        core_raise();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_type(PyList_GetItem(list, i), &out[i])) return false;
    *out_count = (uint32_t)count;
    return true;
}

// add_node(name, op, args, results, location) -> (node, [values])
static PyObject *add_node(PyObject *self, PyObject *args)
{
    const char *name, *op, *location;
    PyObject *arguments, *results;
    if (!PyArg_ParseTuple(args, "ssOO!z", &name, &op, &arguments, &PyList_Type, &results,
                          &location))
        return NULL;
    spyre_tensor_type types[MAX_RESULTS];
    uint32_t count = 0, node = 0, values[MAX_RESULTS];
    spyre_arg list = {0};
    PyObject *texts = PyList_New(0), *made = NULL;
    if (texts && read_results(results, types, &count) && read_list(arguments, texts, &list)) {
        if (core_check(spyre_graph_add_node(of(self), name, op, list.of.list.items,
                                            list.of.list.count, types, count, location, &node,
                                            values))) {
            int64_t ids[MAX_RESULTS];
            for (uint32_t i = 0; i < count; i++) ids[i] = values[i];
            made = Py_BuildValue("(IN)", node, core_int_list(ids, count));
        } else {
            core_raise();
        }
    }
    free_argument(&list);
    Py_XDECREF(texts);
    return made;
}

static PyObject *add_output(PyObject *self, PyObject *value)
{
    uint32_t id;
    if (!core_u32(value, &id)) return NULL;
    if (!core_check(spyre_graph_add_output(of(self), id))) return core_raise();
    Py_RETURN_NONE;
}

static PyObject *add_update(PyObject *self, PyObject *args)
{
    uint32_t value, input;
    if (!PyArg_ParseTuple(args, "O&O&", core_u32, &value, core_u32, &input)) return NULL;
    if (!core_check(spyre_graph_add_update(of(self), value, input))) return core_raise();
    Py_RETURN_NONE;
}

// A text about a value or a node: dims' names, a work division.
static PyObject *annotate(PyObject *self, PyObject *args,
                          spyre_status (*set)(spyre_graph *, uint32_t, const char *))
{
    uint32_t id;
    const char *words;
    if (!PyArg_ParseTuple(args, "O&s", core_u32, &id, &words)) return NULL;
    if (!core_check(set(of(self), id, words))) return core_raise();
    Py_RETURN_NONE;
}

static PyObject *name_dims(PyObject *self, PyObject *args)
{
    return annotate(self, args, spyre_graph_name_dims);
}

static PyObject *set_work_division(PyObject *self, PyObject *args)
{
    return annotate(self, args, spyre_graph_set_work_division);
}

static PyObject *set_tiles(PyObject *self, PyObject *args)
{
    return annotate(self, args, spyre_graph_set_tiles);
}

static PyObject *name_result(PyObject *self, PyObject *args)
{
    return annotate(self, args, spyre_graph_name_result);
}

static PyObject *graph_text(PyObject *self)
{
    char *text;
    return core_text(spyre_graph_print(of(self), &text), &text);
}

static PyMethodDef methods[] = {
    {"add_input", add_input, METH_VARARGS, "(name, tensor) -> value"},
    {"add_node", add_node, METH_VARARGS,
     "(name, op, args, [(dtype, on_card, sizes, strides, offset)], location) -> (node, [values])"},
    {"add_output", add_output, METH_O, "(value)"},
    {"add_update", add_update, METH_VARARGS, "(value, input value that it replaces)"},
    {"name_dims", name_dims, METH_VARARGS, "(input value, \"M,K\")"},
    {"set_work_division", set_work_division, METH_VARARGS, "(node, \"M=2,K=4\")"},
    {"set_tiles", set_tiles, METH_VARARGS, "(node, \"1:M=8,2:K=4\")"},
    {"name_result", name_result, METH_VARARGS, "(node, \"M,K\")"},
    {NULL, NULL, 0, NULL},
};

static PyObject *py_op_names(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    PyObject *names = PyList_New(0);
    const char *text;
    for (uint32_t i = 0; names && (text = spyre_op_name(i)); i++) {
        PyObject *name = PyUnicode_FromString(text);
        if (!name || PyList_Append(names, name) < 0) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

// op_scalars(name, count) -> bytes: for each of so many arguments the rule by which it is a
// parameter of programs, 0 for none.
static PyObject *py_op_scalars(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *name;
    unsigned count;
    char rules[GLUE_MOST_ARGUMENTS];
    if (!PyArg_ParseTuple(args, "sI", &name, &count)) return NULL;
    if (count > sizeof rules) count = sizeof rules;
    for (uint32_t i = 0; i < count; i++) rules[i] = (char)spyre_op_scalar(name, i);
    return PyBytes_FromStringAndSize(rules, (Py_ssize_t)count);
}

// scalar_like(rule, value, (lowest, largest)) -> the number that stands for the class of an int or
// float, or None: it is no parameter, like those beyond what the dtypes of its call hold.
static PyObject *py_scalar_like(PyObject *Py_UNUSED(self), PyObject *args)
{
    unsigned rule;
    PyObject *value;
    spyre_number_range range;
    double *low = &range.lowest, *high = &range.largest, like;
    if (!PyArg_ParseTuple(args, "IO(dd)", &rule, &value, low, high)) return NULL;
    bool is_int = PyLong_Check(value);
    double number = PyFloat_AsDouble(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();          // an int beyond any float
        Py_RETURN_NONE;
    }
    if (!spyre_scalar_like((spyre_scalar_rule)rule, number, is_int, range, &like))
        Py_RETURN_NONE;
    return PyFloat_FromDouble(like);
}

static PyMethodDef functions[] = {
    {"op_scalars", py_op_scalars, METH_VARARGS, "(op, count) -> rule of each argument"},
    {"scalar_like", py_scalar_like, METH_VARARGS, "(rule, value, range) -> number or None"},
    {"op_names", py_op_names, METH_NOARGS, "Operators that are handed over whole."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, graph_new},
    {Py_tp_dealloc, graph_free},
    {Py_tp_str, graph_text},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"torch_spyre._C.Graph", sizeof(graph_object), 0, Py_TPFLAGS_DEFAULT,
                           slots};

bool graph_register(PyObject *module)
{
    graph_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return graph_type && PyModule_AddType(module, graph_type) == 0 &&
           PyModule_AddFunctions(module, functions) == 0;
}
