// SPDX-License-Identifier: Apache-2.0
//
// torch_spyre._C.SpyreTensorLayout: an immutable spyre_layout for Python.
#include "core.h"

#include <string.h>

typedef struct {
    PyObject_HEAD spyre_layout layout;
} layout_object;

static PyTypeObject *layout_type;
static PyObject *formats, *arrangements; // the enum classes of torch_spyre/_formats.py
static PyObject *restore;               // and its restore_layout()

enum { PICKLE_VERSION = 3 };

// Whoever has a layout may name it: from the first one on PyTorch's functions take `device_layout`.
static bool accept_as_argument(void)
{
    static bool accepted;
    if (accepted) return true;
    accepted = true; // in front of the call, which comes here again
    PyObject *result = hook_call(HOOK_LAYOUT);
    accepted = result != NULL;
    Py_XDECREF(result);
    return accepted;
}

PyObject *layout_to_object(const spyre_layout *layout)
{
    if (!accept_as_argument()) return NULL;
    PyObject *object = object_new(layout_type);
    if (object) ((layout_object *)object)->layout = *layout;
    return object;
}

bool layout_of_object(PyObject *object, spyre_layout *out)
{
    if (!PyObject_TypeCheck(object, layout_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a SpyreTensorLayout");
        return false;
    }
    *out = ((layout_object *)object)->layout;
    return true;
}

static const spyre_layout *of(PyObject *self)
{
    return &((layout_object *)self)->layout;
}

// ---- construction

static bool read_dtype(PyObject *object, spyre_dtype *out)
{
    if (dtype_of_object(object, out)) return true;
    PyErr_Format(PyExc_RuntimeError, "Spyre backend does not support dtype %R", object);
    return false;
}

static bool same_count(const char *a, int64_t a_count, const char *b, int64_t b_count)
{
    if (a_count == b_count) return true;
    PyErr_Format(PyExc_ValueError, "%s has %lld entries, %s %lld", a, (long long)a_count, b,
                 (long long)b_count);
    return false;
}

// (device_size, stride_map, device_dtype, element_arrangement=STANDARD)
static bool from_device(PyObject *args, PyObject *keywords, spyre_layout *out)
{
    static char *names[] = {"device_size", "stride_map", "device_dtype", "element_arrangement",
                            NULL};
    PyObject *size, *map;
    uint32_t format, arrangement = SPYRE_ARRANGEMENT_STANDARD;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO&|O&:SpyreTensorLayout", names, &size,
                                     &map, core_u32, &format, core_u32, &arrangement))
        return false;
    memset(out, 0, sizeof *out);
    int64_t rank = core_ints(size, out->device_size, SPYRE_MAX_DEVICE_RANK, "device_size");
    if (rank < 0) return false;
    int64_t steps = core_ints(map, out->stride_map, SPYRE_MAX_DEVICE_RANK, "stride_map");
    if (steps < 0 || !same_count("device_size", rank, "stride_map", steps)) return false;
    out->rank = (uint32_t)rank;
    out->format = (spyre_format)format;
    out->arrangement = (spyre_arrangement)arrangement;
    return true;
}

// (host_size, dtype)
static bool from_size(PyObject *args, PyObject *keywords, spyre_layout *out)
{
    static char *names[] = {"host_size", "dtype", NULL};
    PyObject *host_size, *dtype_object;
    int64_t size[CORE_MAX_RANK];
    spyre_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:SpyreTensorLayout", names, &host_size,
                                     &dtype_object))
        return false;
    int64_t rank = core_ints(host_size, size, CORE_MAX_RANK, "host_size");
    if (rank < 0 || !read_dtype(dtype_object, &dtype)) return false;
    return core_check(spyre_layout_default(size, (uint32_t)rank, dtype, out)) ||
           core_raise_runtime();
}

// The entries of a dim_order; -1 with an exception set.
static int64_t read_order(PyObject *object, int32_t *out)
{
    int64_t order[CORE_MAX_RANK], count = core_ints(object, order, CORE_MAX_RANK, "dim_order");
    for (int64_t i = 0; i < count; i++) {
        out[i] = (int32_t)order[i];
        if (out[i] == order[i]) continue;
        PyErr_Format(PyExc_ValueError, "dim_order[%lld] is %lld: no dim", (long long)i,
                     (long long)order[i]);
        return -1;
    }
    return count;
}

// (host_size, host_strides, dtype, dim_order, element_arrangement=STANDARD)
static bool from_order(PyObject *args, PyObject *keywords, spyre_layout *out)
{
    static char *names[] = {"host_size",           "host_strides", "dtype", "dim_order",
                            "element_arrangement", NULL};
    PyObject *host_size, *host_strides, *dtype_object, *dim_order;
    uint32_t arrangement = SPYRE_ARRANGEMENT_STANDARD;
    int64_t size[CORE_MAX_RANK], stride[CORE_MAX_RANK];
    int32_t order[CORE_MAX_RANK];
    spyre_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOO|O&:SpyreTensorLayout", names,
                                     &host_size, &host_strides, &dtype_object, &dim_order, core_u32,
                                     &arrangement))
        return false;
    int64_t rank = core_ints(host_size, size, CORE_MAX_RANK, "host_size");
    if (rank < 0 || !read_dtype(dtype_object, &dtype)) return false;
    int64_t strides = core_ints(host_strides, stride, CORE_MAX_RANK, "host_strides");
    int64_t count = strides < 0 ? -1 : read_order(dim_order, order);
    if (count < 0 || !same_count("host_size", rank, "host_strides", strides)) return false;
    if (!core_check(spyre_layout_ordered(size, stride, (uint32_t)rank, dtype, order,
                                         (uint32_t)count, out)))
        return core_raise_runtime();
    out->arrangement = (spyre_arrangement)arrangement;
    return true;
}

static bool is_device_form(PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"device_size", "stride_map", "device_dtype"};
    for (int i = 0; keywords && i < 3; i++)
        if (PyDict_GetItemString(keywords, names[i])) return true;
    spyre_dtype dtype;
    return PyTuple_Size(args) >= 3 && !dtype_of_object(PyTuple_GetItem(args, 2), &dtype);
}

static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)type;
    spyre_layout layout;
    Py_ssize_t given = PyTuple_Size(args) + (keywords ? PyDict_Size(keywords) : 0);
    if (given == 0) {           // what pickles of torch-spyre make first; __setstate__ fills it
        memset(&layout, 0, sizeof layout);
        return layout_to_object(&layout);
    }
    bool (*read)(PyObject *, PyObject *, spyre_layout *) =
        is_device_form(args, keywords) ? from_device : given <= 2 ? from_size : from_order;
    if (!read(args, keywords, &layout)) return NULL;
    return core_check(spyre_layout_check(&layout)) ? layout_to_object(&layout) : core_raise();
}

// After layout_new in a call of the class: without arguments nothing can be made.
static int layout_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    spyre_layout unused;
    return of(self)->rank || from_size(args, keywords, &unused) ? 0 : -1;
}

// ---- attributes and methods

static PyObject *enum_member(PyObject *class, long number)
{
    if (!class) return PyLong_FromLong(number);
    return PyObject_CallFunction(class, "l", number);
}

static PyObject *get_device_size(PyObject *self, void *Py_UNUSED(unused))
{
    return core_int_list(of(self)->device_size, of(self)->rank);
}

static PyObject *get_stride_map(PyObject *self, void *Py_UNUSED(unused))
{
    return core_int_list(of(self)->stride_map, of(self)->rank);
}

static PyObject *get_device_dtype(PyObject *self, void *Py_UNUSED(unused))
{
    return enum_member(formats, of(self)->format);
}

static PyObject *get_element_arrangement(PyObject *self, void *Py_UNUSED(unused))
{
    return enum_member(arrangements, of(self)->arrangement);
}

static PyObject *py_elems_per_stick(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLong(spyre_format_elements_per_stick(of(self)->format));
}

static PyObject *py_bytes(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLongLong(spyre_layout_bytes(of(self)));
}

static PyObject *py_with_arrangement(PyObject *self, PyObject *arrangement)
{
    spyre_layout changed = *of(self);
    uint32_t number;
    if (!core_u32(arrangement, &number)) return NULL;
    changed.arrangement = (spyre_arrangement)number;
    return core_check(spyre_layout_check(&changed)) ? layout_to_object(&changed) : core_raise();
}

// The form of torch-spyre's own pickles: the class without arguments, and a tuple as its state.
static PyObject *py_reduce(PyObject *self, PyObject *Py_UNUSED(unused))
{
    PyObject *copyreg = PyImport_ImportModule("copyreg");
    PyObject *make = copyreg ? PyObject_GetAttrString(copyreg, "__newobj__") : NULL;
    PyObject *result = NULL;
    if (make)
        result = Py_BuildValue("(O(O)(iNNNN))", make, (PyObject *)layout_type, PICKLE_VERSION,
                               get_device_size(self, NULL), get_stride_map(self, NULL),
                               get_device_dtype(self, NULL), get_element_arrangement(self, NULL));
    Py_XDECREF(make);
    Py_XDECREF(copyreg);
    return result;
}

// __setstate__(state): the tuple that _formats.restore_layout() takes. Only for an object that is
// empty still.
static PyObject *py_set_state(PyObject *self, PyObject *state)
{
    spyre_layout layout;
    if (of(self)->rank != 0) {
        PyErr_SetString(PyExc_TypeError, "__setstate__: a SpyreTensorLayout does not change");
        return NULL;
    }
    if (!restore) {
        PyErr_SetString(PyExc_RuntimeError, "__setstate__: torch_spyre is not registered");
        return NULL;
    }
    PyObject *arguments = PySequence_Tuple(state);
    PyObject *made = arguments ? PyObject_CallObject(restore, arguments) : NULL;
    bool ok = made && layout_of_object(made, &layout);
    if (ok) ((layout_object *)self)->layout = layout;
    Py_XDECREF(made);
    Py_XDECREF(arguments);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_copy(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return Py_NewRef(self); // immutable
}

static bool prints_no_arrangement;      // as torch-spyre prints layouts

static PyObject *layout_text(PyObject *self)
{
    char text[1024];
    spyre_layout shown = *of(self);
    if (prints_no_arrangement) shown.arrangement = SPYRE_ARRANGEMENT_STANDARD;
    spyre_layout_format(&shown, text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyObject *layout_compare(PyObject *a, PyObject *b, int operation)
{
    if ((operation != Py_EQ && operation != Py_NE) || !PyObject_TypeCheck(b, layout_type))
        Py_RETURN_NOTIMPLEMENTED;
    bool equal = spyre_layout_equal(of(a), of(b));
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t layout_hash(PyObject *self)
{
    const spyre_layout *layout = of(self);
    uint64_t hash = (uint64_t)layout->format * 31 + (uint64_t)layout->arrangement;
    for (uint32_t i = 0; i < layout->rank; i++) {
        hash = (hash ^ (uint64_t)layout->device_size[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash = (hash ^ (uint64_t)layout->stride_map[i]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    Py_hash_t result = (Py_hash_t)(hash >> 1);
    return result == -1 ? -2 : result;
}

static PyGetSetDef attributes[] = {
    {"device_size", get_device_size, NULL, "Sizes of the device dims, outermost first.", NULL},
    {"stride_map", get_stride_map, NULL, "Step in host elements of each device dim.", NULL},
    {"device_dtype", get_device_dtype, NULL, "Element format on the card.", NULL},
    {"element_arrangement", get_element_arrangement, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef layout_methods[] = {
    {"elems_per_stick", py_elems_per_stick, METH_NOARGS, NULL},
    {"device_bytes", py_bytes, METH_NOARGS, "128 x product(device_size[:-1])"},
    {"with_element_arrangement", py_with_arrangement, METH_O, NULL},
    {"__reduce__", py_reduce, METH_NOARGS, NULL},
    {"__setstate__", py_set_state, METH_O, NULL},
    {"__copy__", py_copy, METH_NOARGS, NULL},
    {"__deepcopy__", py_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, layout_new},    {Py_tp_dealloc, object_free},        {Py_tp_repr, layout_text},
    {Py_tp_init, layout_init},
    {Py_tp_str, layout_text},   {Py_tp_richcompare, layout_compare}, {Py_tp_hash, layout_hash},
    {Py_tp_getset, attributes}, {Py_tp_methods, layout_methods},
    {Py_tp_doc,
     "How a tensor's storage lies on the card: `device_size`, the extents of the device dims,\n"
     "outermost first, of which the last is the stick; `stride_map`, host elements of a step\n"
     "along each, -1 for none; `device_dtype`; `element_arrangement`. SpyreTensorLayout([M, N],\n"
     "dtype) is the default one. Raises: Unsupported for a dtype or sizes without a layout."},
    {0, NULL},
};

static PyType_Spec spec = {"torch_spyre._C.SpyreTensorLayout", sizeof(layout_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

// ---- layouts of tensors

static storage *storage_argument(PyObject *tensor)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) {
        core_raise();
        return NULL;
    }
    if (!t.storage) {
        PyErr_SetString(PyExc_RuntimeError, "expected a tensor of the spyre device");
        return NULL;
    }
    if (tensor_settle(&t)) return t.storage;
    core_raise();
    return NULL;
}

// A tensor without elements has no storage on the card; its layout is the default one.
static PyObject *empty_layout(const tensor_info *t)
{
    spyre_layout layout;
    bool ok = core_check(spyre_layout_default(t->size, (uint32_t)t->rank,
                                              dtype_of_torch(t->torch_dtype), &layout));
    return ok ? layout_to_object(&layout) : core_raise_runtime();
}

static PyObject *py_get_layout(PyObject *Py_UNUSED(self), PyObject *tensor)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    if (t.numel == 0 && !t.storage && t.device_type == aoti_torch_device_type_privateuse1())
        return empty_layout(&t);
    storage *s = storage_argument(tensor);
    return s ? layout_to_object(&s->layout) : NULL;
}

static PyObject *py_set_layout(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *tensor, *object;
    spyre_layout layout;
    if (!PyArg_ParseTuple(args, "OO", &tensor, &object) || !layout_of_object(object, &layout))
        return NULL;
    storage *s = storage_argument(tensor);
    if (!s) return NULL;
    if (!storage_set_layout(s, &layout)) return core_raise();
    s->settled = true;
    Py_RETURN_NONE;
}

static PyObject *py_prefer_layout(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *tensor, *object;
    spyre_layout layout;
    tensor_info t;
    bool moved = false;
    if (!PyArg_ParseTuple(args, "OO", &tensor, &object) || !layout_of_object(object, &layout))
        return NULL;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    bool whole = t.storage && t.storage->typed && tensor_covers(&t);
    if (whole && !storage_prefer_layout(t.storage, &layout, true, &moved)) return core_raise();
    return PyBool_FromLong(moved);
}

static bool numbers_of(PyObject *sequence, const char *what, int64_t out[SPYRE_MAX_RANK],
                       uint32_t *out_count)
{
    PyObject *list = PySequence_List(sequence);
    Py_ssize_t count = list ? PyList_Size(list) : -1;
    if (count > SPYRE_MAX_RANK)
        PyErr_Format(PyExc_ValueError, "%zd %s: at most %d dims", count, what, SPYRE_MAX_RANK);
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        out[i] = PyLong_AsLongLong(PyList_GetItem(list, i));
        if (!PyErr_Occurred() && out[i] < 0)
            PyErr_Format(PyExc_ValueError, "%s %lld of dim %zd: must not be negative", what,
                         (long long)out[i], i);
    }
    *out_count = (uint32_t)count;
    Py_XDECREF(list);
    return !PyErr_Occurred();
}

static PyObject *py_share_with_layout(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *tensor, *sizes, *strides, *object;
    spyre_layout layout;
    spyre_view dense = {.rank = 0};
    tensor_info t;
    uint32_t count;
    AtenTensorHandle made;
    int64_t elements;
    if (!PyArg_ParseTuple(args, "OOOO", &tensor, &sizes, &strides, &object) ||
        !layout_of_object(object, &layout) ||
        !numbers_of(sizes, "sizes", dense.size, &dense.rank) ||
        !numbers_of(strides, "strides", dense.stride, &count))
        return NULL;
    if (count != dense.rank)
        return PyErr_Format(PyExc_ValueError, "%u sizes and %u strides", dense.rank, count);
    if (!tensor_of_object(tensor, &t)) return core_raise();
    if (!t.storage || !tensor_settle(&t) || !t.storage->typed) {
        PyErr_SetString(PyExc_ValueError, "expected a tensor of the spyre device with elements");
        return NULL;
    }
    if (!tensor_count_elements(dense.rank, dense.size, dense.stride, &elements) ||
        !tensor_share(t.storage, &dense, &layout, &made))
        return core_raise();
    return glue_to_python(made);
}

static PyObject *py_print_no_arrangement(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    prints_no_arrangement = true;
    Py_RETURN_NONE;
}

static PyObject *py_set_enums(PyObject *self, PyObject *args)
{
    PyObject *new_formats, *new_arrangements, *new_restore;
    if (!PyArg_ParseTuple(args, "OOO", &new_formats, &new_arrangements, &new_restore)) return NULL;
    restore = Py_NewRef(new_restore);
    formats = Py_NewRef(new_formats);
    arrangements = Py_NewRef(new_arrangements);
    if (PyModule_AddObjectRef(self, "DataFormats", formats) < 0 ||
        PyModule_AddObjectRef(self, "ElementArrangement", arrangements) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"get_spyre_tensor_layout", py_get_layout, METH_O, "Layout of a tensor's storage."},
    {"set_spyre_tensor_layout", py_set_layout, METH_VARARGS,
     "(tensor, layout): moves the storage into another layout; the values stay."},
    {"prefer_layout", py_prefer_layout, METH_VARARGS,
     "(tensor, layout) -> whether its storage has got the layout: all of it, which no launch has\n"
     "had use for as it lies, and for which nobody has chosen a layout."},
    {"_share_with_layout", py_share_with_layout, METH_VARARGS,
     "(tensor, size, stride, layout) -> a tensor over the memory of the tensor's storage, from\n"
     "its beginning, in a layout of its own."},
    {"_print_no_arrangement", py_print_no_arrangement, METH_NOARGS,
     "From here on the text of a layout leaves element_arrangement out."},
    {"_set_enums", py_set_enums, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

bool layout_register(PyObject *module)
{
    layout_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return layout_type && PyModule_AddType(module, layout_type) == 0 &&
           PyModule_AddIntConstant(module, "MAX_RANK", SPYRE_MAX_RANK) == 0 &&
           PyModule_AddFunctions(module, methods) == 0;
}
