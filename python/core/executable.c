// SPDX-License-Identifier: Apache-2.0
//
// torch_spyre._C.Executable: what the compiler made of a graph, and launches of its card segments.
#include "core.h"
#include "spyre/op_spec.h"

#include <stdlib.h>
#include <string.h>

#include "glue.h"

#include "spyre/counters.h"

typedef struct {
    PyObject_HEAD spyre_executable *executable;
} executable_object;

static PyTypeObject *executable_type;

static spyre_executable *of(PyObject *self)
{
    return ((executable_object *)self)->executable;
}

// {name: text} into settings, whose list settings then borrow from the dict. False: an error is set.
static bool set_all(PyObject *dict, spyre_settings *settings)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const char *name_text = PyUnicode_AsUTF8AndSize(name, NULL);
        const char *value_text = name_text ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
        if (!value_text) return false;
        if (!core_check(spyre_settings_set(settings, name_text, value_text))) {
            core_raise();
            return false;
        }
    }
    return true;
}

// check_settings(settings): raises Unsupported with the rule that a value breaks.
static PyObject *py_check_settings(PyObject *self, PyObject *settings)
{
    (void)self;
    spyre_settings parsed = spyre_settings_default();
    if (!PyDict_Check(settings)) {
        PyErr_SetString(PyExc_TypeError, "check_settings: expected a dict");
        return NULL;
    }
    return set_all(settings, &parsed) ? Py_NewRef(Py_None) : NULL;
}

// settings() -> [(name, variable, default as text, rule, summary)]
static PyObject *py_settings(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    const spyre_settings initial = spyre_settings_default();
    char *values = NULL;
    if (!core_check(spyre_settings_print(&initial, &values))) return core_raise();
    PyObject *list = PyList_New(0);
    char *line = values;
    for (uint32_t i = 0; list && i < spyre_setting_count(); i++) {
        const spyre_setting *row = spyre_setting_at(i);
        char *value = strchr(line, '=') + 1, *end = strchr(value, '\n');
        PyObject *entry = Py_BuildValue("sss#ss", row->name, row->variable, value,
                                        (Py_ssize_t)(end - value), row->rule, row->summary);
        if (!entry || PyList_Append(list, entry) < 0) Py_CLEAR(list);
        Py_XDECREF(entry);
        line = end + 1;
    }
    spyre_string_free(values);
    return list;
}

// Takes the executable over.
static PyObject *executable_wrap(spyre_executable *compiled)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(executable_type, Py_tp_alloc);
    PyObject *made = allocate(executable_type, 0);
    if (made)
        ((executable_object *)made)->executable = compiled;
    else
        spyre_executable_destroy(compiled);
    return made;
}

// compile(graph, settings, dump_dir, host_fallback, loop_pass) -> Executable, new or known
static PyObject *py_compile(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object;
    PyObject *settings;
    spyre_compile_options options = spyre_compile_options_default();
    PyObject *pass = Py_None;
    int fallback;
    if (!PyArg_ParseTuple(args, "OO!zp|O", &object, &PyDict_Type, &settings, &options.dump_dir,
                          &fallback, &pass))
        return NULL;
    const spyre_graph *graph = graph_of_object(object);
    if (!graph || !set_all(settings, &options.settings)) return NULL;
    options.host_fallback = fallback != 0;
    options.cache = true;
    options.loop_pass = pass == Py_None ? NULL : loops_call;
    options.loop_context = pass;
    spyre_executable *compiled = NULL;
    spyre_status status;
    Py_BEGIN_ALLOW_THREADS status = spyre_compile(graph, &options, &compiled);
    Py_END_ALLOW_THREADS if (!core_check(status)) return core_raise();
    return executable_wrap(compiled);
}

// compile_op_specs(json, name, settings) -> Executable of one segment
static PyObject *py_compile_op_specs(PyObject *self, PyObject *args)
{
    (void)self;
    const char *json, *name;
    PyObject *settings;
    spyre_settings parsed = spyre_settings_default();
    spyre_executable *compiled = NULL;
    if (!PyArg_ParseTuple(args, "ssO!", &json, &name, &PyDict_Type, &settings)) return NULL;
    if (!set_all(settings, &parsed)) return NULL;
    if (!core_check(spyre_compile_op_specs(json, name, &parsed, &compiled))) return core_raise();
    return executable_wrap(compiled);
}

static void executable_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    spyre_executable_destroy(of(self));
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *id_list(const uint32_t *ids, uint32_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *id = PyLong_FromUnsignedLong(ids[i]);
        if (!id || PyList_SetItem(list, (Py_ssize_t)i, id) < 0) Py_CLEAR(list);
    }
    return list;
}

// The result that brings the memory of result `index`: the first of its buffer, or SPYRE_NO_ID for
// a view of an input.
static uint32_t output_owner(const spyre_segment *segment, uint32_t index)
{
    if (segment->outputs[index].input >= 0) return SPYRE_NO_ID;
    uint32_t first = 0;
    while (segment->outputs[first].input >= 0 ||
           segment->outputs[first].buffer != segment->outputs[index].buffer)
        first++;
    return first;
}

static PyObject *output_values(const spyre_segment *segment)
{
    PyObject *list = PyList_New((Py_ssize_t)segment->output_count);
    for (uint32_t i = 0; list && i < segment->output_count; i++) {
        PyObject *id = PyLong_FromUnsignedLong(segment->outputs[i].value);
        if (!id || PyList_SetItem(list, (Py_ssize_t)i, id) < 0) Py_CLEAR(list);
    }
    return list;
}

static const spyre_segment *segment_at(PyObject *self, PyObject *index)
{
    uint32_t at, count = spyre_executable_segment_count(of(self));
    if (!core_u32(index, &at)) return NULL;
    if (at < count) return spyre_executable_segment(of(self), at);
    PyErr_Format(PyExc_IndexError, "segment %u of %u", at, count);
    return NULL;
}

bool executable_owns_outputs(const spyre_segment *segment)
{
    for (uint32_t i = 0; i < segment->output_count; i++)
        if (output_owner(segment, i) != i) return false;
    return true;
}

spyre_executable *executable_of_object(PyObject *object)
{
    if (PyObject_TypeCheck(object, executable_type)) return of(object);
    PyErr_SetString(PyExc_TypeError, "expected an Executable");
    return NULL;
}

// Results that a launch does not return because they are views: (result, of an input, index of the
// input or result, sizes, strides, offset).
static PyObject *output_views(const spyre_segment *segment)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < segment->output_count; i++) {
        const spyre_segment_output *o = &segment->outputs[i];
        uint32_t first = output_owner(segment, i);
        if (first == i) continue;
        bool of_input = first == SPYRE_NO_ID;
        const spyre_view *view = &o->type.view;
        PyObject *item = Py_BuildValue(
            "(INlNNL)", i, PyBool_FromLong(of_input), of_input ? (long)o->input : (long)first,
            core_int_list(view->size, view->rank), core_int_list(view->stride, view->rank),
            (long long)view->offset);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *py_segment(PyObject *self, PyObject *index)
{
    const spyre_segment *segment = segment_at(self, index);
    if (!segment) return NULL;
    return Py_BuildValue("{s:s,s:N,s:N,s:N,s:I,s:L,s:L,s:L,s:d,s:N}", "kind",
                         segment->kind == SPYRE_SEGMENT_CARD ? "card" : "host", "nodes",
                         id_list(segment->nodes, segment->node_count), "inputs",
                         id_list(segment->inputs, segment->input_count), "outputs",
                         output_values(segment), "kernels", segment->kernel_count, "macs",
                         (long long)segment->mac_count, "bytes", (long long)segment->memory_bytes,
                         "pool_bytes", (long long)segment->pool_bytes, "card_us", segment->card_us,
                         "views", output_views(segment));
}

// input_storage(segment, input) -> (sizes, strides, layout) of the storage a launch expects.
static PyObject *py_input_storage(PyObject *self, PyObject *args)
{
    PyObject *index;
    uint32_t input;
    if (!PyArg_ParseTuple(args, "OO&", &index, core_u32, &input)) return NULL;
    const spyre_segment *segment = segment_at(self, index);
    if (!segment) return NULL;
    if (segment->kind != SPYRE_SEGMENT_CARD || input >= segment->input_count)
        return PyErr_Format(PyExc_IndexError, "input %u of %u", input, segment->input_count);
    const spyre_view *dense = &segment->input_storages[input];
    return Py_BuildValue("(NNN)", core_int_list(dense->size, dense->rank),
                         core_int_list(dense->stride, dense->rank),
                         layout_to_object(&segment->input_layouts[input]));
}

static PyObject *py_segment_count(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(spyre_executable_segment_count(of(self)));
}

static PyObject *py_address(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(of(self));
}

static PyObject *text_result(spyre_status status, char **text)
{
    if (!core_check(status)) return core_raise();
    PyObject *result = PyUnicode_FromString(*text);
    spyre_string_free(*text);
    return result;
}

static PyObject *py_report(PyObject *self, PyObject *unused)
{
    (void)unused;
    char *text;
    return text_result(spyre_executable_report(of(self), &text), &text);
}

static PyObject *kernel_to_dict(const spyre_kernel_counters *k)
{
    return Py_BuildValue(
        "{s:s,s:s,s:I,s:L,s:d,s:s,s:d,s:d,s:d,s:d,s:L,s:L,s:L,s:L,s:L,s:L}", "name", k->name,
        "location", k->location, "cores", k->cores, "runs", (long long)k->runs, "us", k->us,
        "bound", spyre_bound_name(k->bound), "memory_busy_us", k->memory_busy_us, "pt_busy_us",
        k->pt_busy_us, "sfp_busy_us", k->sfp_busy_us, "ring_busy_us", k->ring_busy_us,
        "memory_read_bytes", (long long)k->memory_read_bytes, "memory_written_bytes",
        (long long)k->memory_written_bytes, "lx_bytes", (long long)k->lx_bytes, "ring_bytes",
        (long long)k->ring_bytes, "macs", (long long)k->mac_count, "vector_elements",
        (long long)k->vector_element_count);
}

static PyObject *py_counters(PyObject *self, PyObject *index)
{
    const spyre_segment *segment = segment_at(self, index);
    if (!segment) return NULL;
    const spyre_kernel_counters *kernels =
        spyre_executable_counters(of(self), (uint32_t)PyLong_AsUnsignedLong(index));
    PyObject *list = PyList_New(0);
    for (uint32_t k = 0; list && kernels && k < segment->kernel_count; k++) {
        PyObject *item = kernel_to_dict(&kernels[k]);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *py_text(PyObject *self, PyObject *args)
{
    uint32_t segment;
    const char *stage;
    char *text;
    if (!PyArg_ParseTuple(args, "O&s", core_u32, &segment, &stage)) return NULL;
    return text_result(spyre_executable_text(of(self), segment, stage, &text), &text);
}

static PyObject *py_write(PyObject *self, PyObject *args)
{
    uint32_t segment;
    const char *stage, *directory;
    if (!PyArg_ParseTuple(args, "O&ss", core_u32, &segment, &stage, &directory)) return NULL;
    if (!core_check(spyre_executable_write(of(self), segment, stage, directory)))
        return core_raise();
    Py_RETURN_NONE;
}

// ---- the launch

static bool same_dense(const spyre_view *a, const spyre_view *b)
{
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->size[i] != b->size[i] || (a->size[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

bool executable_input(const spyre_segment *segment, size_t index, storage *s, uint64_t *out)
{
    if (!s || !s->typed)
        return core_fail(SPYRE_INVALID_ARGUMENT, "input %zu of a launch is not on the card", index);
    if (!same_dense(&s->dense, &segment->input_storages[index]))
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "input %zu of a launch: its storage has other sizes or strides than the "
                         "program was compiled for",
                         index);
    if (!storage_set_layout(s, &segment->input_layouts[index])) return false;
    *out = s->address;
    return true;
}

bool executable_output(const spyre_segment *segment, uint32_t index, uint32_t card,
                       AtenTensorHandle *out, uint64_t *buffers)
{
    const spyre_segment_output *o = &segment->outputs[index];
    tensor_info t;
    if (!tensor_create_laid_out(o->type.dtype, &o->storage, &o->layout, &o->type.view, card, out) ||
        !tensor_describe(*out, &t))
        return false;
    buffers[o->buffer] = t.storage->address;
    return true;
}

typedef struct {
    const spyre_segment *segment;
    uint64_t *inputs, *buffers;         // addresses
    AtenTensorHandle *outputs;          // null for views
} launch;

static void launch_free(launch *l)
{
    for (uint32_t i = 0; l->outputs && i < l->segment->output_count; i++)
        if (l->outputs[i]) aoti_torch_delete_tensor_object(l->outputs[i]);
    free(l->inputs);
    free(l->buffers);
    free(l->outputs);
}

// False with an exception set.
static bool take_inputs(PyObject *tensors, launch *l)
{
    const spyre_segment *segment = l->segment;
    if (PyTuple_Size(tensors) != (Py_ssize_t)segment->input_count) {
        PyErr_Format(PyExc_ValueError, "the segment has %u inputs, %zd were given",
                     segment->input_count, PyTuple_Size(tensors));
        return false;
    }
    l->inputs = calloc((size_t)segment->input_count + 1, sizeof *l->inputs);
    l->buffers = calloc((size_t)segment->buffer_count + 1, sizeof *l->buffers);
    l->outputs = calloc((size_t)segment->output_count + 1, sizeof *l->outputs);
    if (!l->inputs || !l->buffers || !l->outputs) {
        PyErr_NoMemory();
        return false;
    }
    for (uint32_t i = 0; i < segment->input_count; i++) {
        tensor_info t;
        if (!tensor_of_object(PyTuple_GetItem(tensors, i), &t) ||
            !executable_input(segment, i, t.storage, &l->inputs[i])) {
            core_raise();
            return false;
        }
    }
    return true;
}

static bool make_outputs(launch *l, uint32_t card)
{
    for (uint32_t i = 0; i < l->segment->output_count; i++)
        if (output_owner(l->segment, i) == i &&
            !executable_output(l->segment, i, card, &l->outputs[i], l->buffers))
            return false;
    return true;
}

static PyObject *output_tensors(launch *l)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < l->segment->output_count; i++) {
        if (!l->outputs[i]) continue;
        PyObject *tensor = glue_to_python(l->outputs[i]);
        l->outputs[i] = NULL;
        if (!tensor || PyList_Append(list, tensor) < 0) Py_CLEAR(list);
        Py_XDECREF(tensor);
    }
    return list;
}

// spyre_launch or spyre_interpret.
typedef spyre_status launcher(spyre_context *, uint32_t, uint32_t, spyre_executable *, uint32_t,
                              const uint64_t *, const uint64_t *);

static PyObject *launch_segment(launcher *start, spyre_executable *executable, uint32_t index,
                                PyObject *tensors, uint32_t card)
{
    launch l = {.segment = spyre_executable_segment(executable, index)};
    PyObject *results = NULL;
    if (!take_inputs(tensors, &l)) goto done;
    spyre_context *context;
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    context = device_context();
    ok = context && make_outputs(&l, card) &&
         core_check(start(context, card, stream_current(card), executable, index, l.inputs,
                          l.buffers));
    Py_END_ALLOW_THREADS
    results = ok ? output_tensors(&l) : core_raise();
done:
    launch_free(&l);
    return results;
}

static PyObject *start_with(launcher *start, PyObject *self, PyObject *args)
{
    PyObject *index, *inputs;
    uint32_t card;
    if (!PyArg_ParseTuple(args, "OOO&", &index, &inputs, core_u32, &card)) return NULL;
    const spyre_segment *segment = segment_at(self, index);
    if (!segment) return NULL;
    if (segment->kind != SPYRE_SEGMENT_CARD || card >= device_count()) {
        core_fail(SPYRE_INVALID_ARGUMENT, "a launch of a %s segment on card %u of %u",
                  segment->kind == SPYRE_SEGMENT_CARD ? "card" : "host", card, device_count());
        return core_raise();
    }
    PyObject *tensors = PySequence_Tuple(inputs);       // holds them while they are in use
    if (!tensors) return NULL;
    PyObject *results =
        launch_segment(start, of(self), (uint32_t)PyLong_AsUnsignedLong(index), tensors, card);
    Py_DECREF(tensors);
    return results;
}

// launch(segment, inputs, card) -> the results that own their memory; the others are views(), which
// the caller makes.
static PyObject *py_launch(PyObject *self, PyObject *args)
{
    return start_with(spyre_launch, self, args);
}

// interpret(segment, inputs, card): the same by the interpreter of bundles.
static PyObject *py_interpret(PyObject *self, PyObject *args)
{
    return start_with(spyre_interpret, self, args);
}

// ---- launches on tensors that the caller made

// The address of a tensor whose storage has the bytes of the layout; all when none is known.
static bool address_of(PyObject *tensor, uint32_t number, const spyre_layout *layout,
                       uint32_t *card, uint64_t *out)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return false;
    if (!t.storage || !t.storage->typed)
        return core_fail(SPYRE_INVALID_ARGUMENT, "argument %u is not on the card", number);
    int64_t bytes = layout->rank ? spyre_layout_bytes(layout) : t.storage->card_bytes;
    if (bytes != t.storage->card_bytes)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "argument %u has %lld bytes on the card, the kernel wants %lld", number,
                         (long long)t.storage->card_bytes, (long long)bytes);
    *card = t.storage->card;
    *out = t.storage->address;
    return true;
}

static bool run_on(spyre_executable *executable, const spyre_segment *segment, PyObject *tensors)
{
    uint32_t card = (uint32_t)device_current();
    uint64_t inputs[256], buffers[256];
    for (uint32_t i = 0; i < segment->input_count; i++)
        if (!address_of(PyTuple_GetItem(tensors, (Py_ssize_t)segment->inputs[i]),
                        segment->inputs[i], &segment->input_layouts[i], &card, &inputs[i]))
            return false;
    for (uint32_t i = 0; i < segment->output_count; i++) {
        const spyre_segment_output *o = &segment->outputs[i];
        if (!address_of(PyTuple_GetItem(tensors, (Py_ssize_t)o->value), o->value, &o->layout, &card,
                        &buffers[o->buffer]))
            return false;
    }
    spyre_context *context = device_context();
    return context && core_check(spyre_launch(context, card, stream_current(card), executable, 0,
                                              inputs, buffers));
}

// run(tensors): launches a kernel of compile_op_specs() on its arguments in order; asynchronous.
static PyObject *py_run(PyObject *self, PyObject *arguments)
{
    const spyre_segment *segment = spyre_executable_segment(of(self), 0);
    PyObject *tensors = PySequence_Tuple(arguments);
    if (!tensors) return NULL;
    uint32_t wanted = segment->input_count + segment->output_count;
    bool ok = PyTuple_Size(tensors) == (Py_ssize_t)wanted && segment->input_count <= 256 &&
              segment->output_count <= 256;
    if (!ok)
        core_fail(SPYRE_INVALID_ARGUMENT, "the kernel takes %u tensors (at most 256 of a kind)",
                  wanted);
    ok = ok && run_on(of(self), segment, tensors);
    Py_DECREF(tensors);
    if (!ok) return core_raise();
    Py_RETURN_NONE;
}

// stages(segment) -> [(name, us, bytes, ops, buffers, changed)] of the front; [] of a cached one
static PyObject *py_stages(PyObject *self, PyObject *index)
{
    if (!segment_at(self, index)) return NULL;
    uint32_t segment = (uint32_t)PyLong_AsUnsignedLong(index);
    spyre_stage_record r;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && spyre_executable_stage_record(of(self), segment, i, &r); i++) {
        PyObject *row = Py_BuildValue("(sdLIIO)", r.name, r.us, (long long)r.bytes, r.ops,
                                      r.buffers, r.changed ? Py_True : Py_False);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef executable_methods[] = {
    {"segment_count", py_segment_count, METH_NOARGS, NULL},
    {"segment", py_segment, METH_O, "(index) -> dict of kind, nodes, inputs, outputs, counts"},
    {"input_storage", py_input_storage, METH_VARARGS,
     "(segment, input) -> sizes, strides and layout of the storage that a launch expects"},
    {"address", py_address, METH_NOARGS, "Equal for the same executable."},
    {"counters", py_counters, METH_O, "(segment) -> a dict a kernel: what it uses"},
    {"launch", py_launch, METH_VARARGS,
     "(segment, inputs, card) -> [results that are not views]; asynchronous"},
    {"interpret", py_interpret, METH_VARARGS,
     "(segment, inputs, card) -> the same by the interpreter of bundles"},
    {"run", py_run, METH_O, "(tensors): launches a kernel of compile_op_specs(); asynchronous"},
    {"stages", py_stages, METH_O,
     "(segment) -> [(name, us, bytes, ops, buffers, changed)]: what the front's stages took"},
    {"report", py_report, METH_NOARGS, "One line a node: the layer that took it."},
    {"text", py_text, METH_VARARGS, "(segment, stage) -> text"},
    {"write", py_write, METH_VARARGS, "(segment, stage, directory)"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, executable_free},
    {Py_tp_methods, executable_methods},
    {0, NULL},
};

static PyType_Spec spec = {"torch_spyre._C.Executable", sizeof(executable_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

// compile_statistics() -> {counter: value}
static PyObject *py_compile_statistics(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    spyre_statistic row;
    PyObject *counters = PyDict_New();
    for (uint32_t i = 0; counters && spyre_statistic_at(i, &row); i++) {
        PyObject *value = PyLong_FromLongLong(row.value);
        if (!value || PyDict_SetItemString(counters, row.name, value) < 0) Py_CLEAR(counters);
        Py_XDECREF(value);
    }
    return counters;
}

static PyMethodDef methods[] = {
    {"compile_statistics", py_compile_statistics, METH_NOARGS,
     "What the process has counted about compiling and its cache."},
    {"compile", py_compile, METH_VARARGS,
     "(graph, settings, dump_dir, host_fallback, loop_pass) -> Executable"},
    {"compile_op_specs", py_compile_op_specs, METH_VARARGS, "(json, name, settings) -> Executable"},
    {"check_settings", py_check_settings, METH_O, "(settings) -> None"},
    {"settings", py_settings, METH_NOARGS,
     "() -> [(name, variable, default, rule, summary)]"},
    {NULL, NULL, 0, NULL},
};

bool executable_register(PyObject *module)
{
    executable_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return executable_type && PyModule_AddType(module, executable_type) == 0 &&
           PyModule_AddFunctions(module, methods) == 0;
}
