// SPDX-License-Identifier: Apache-2.0
//
// torch_spyre._C.Executable: what it tells of itself. launch.c has its launches.
#include "core.h"
#include "spyre/counters.h"
#include "spyre/sizes.h"

static spyre_executable *of(PyObject *self)
{
    return executable_of_object(self);
}

static PyObject *id_list(const uint32_t *ids, uint32_t count)
{
    CORE_RETURN_LIST(count, PyLong_FromUnsignedLong(ids[i]));
}

static PyObject *output_values(const spyre_segment *segment)
{
    CORE_RETURN_LIST(segment->output_count, PyLong_FromUnsignedLong(segment->outputs[i].value));
}

// Results that a launch does not return because they are views: (result, of an input, index of the
// input or result, sizes, strides, offset).
static PyObject *output_views(const spyre_segment *segment)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < segment->output_count; i++) {
        const spyre_segment_output *o = &segment->outputs[i];
        uint32_t first = executable_output_owner(segment, i);
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
    uint32_t number;
    const spyre_segment *segment = executable_segment(self, index, &number);
    if (!segment) return NULL;
    bool card = segment->kind == SPYRE_SEGMENT_CARD;
    return Py_BuildValue("{s:s,s:z,s:N,s:N,s:N,s:I,s:L,s:L,s:L,s:d,s:I,s:N}", "kind",
                         card ? "card" : "host", "name", card ? segment->name : NULL, "nodes",
                         id_list(segment->nodes, segment->node_count), "inputs",
                         id_list(segment->inputs, segment->input_count), "outputs",
                         output_values(segment), "kernels", segment->kernel_count, "macs",
                         (long long)segment->mac_count, "bytes", (long long)segment->memory_bytes,
                         "pool_bytes", (long long)segment->pool_bytes, "card_us", segment->card_us,
                         "scalars", segment->scalar_count, "views", output_views(segment));
}

// input_storage(segment, input) -> (sizes, strides, layout) of the storage a launch expects.
static PyObject *py_input_storage(PyObject *self, PyObject *args)
{
    PyObject *index;
    uint32_t input, number;
    if (!PyArg_ParseTuple(args, "OO&", &index, core_u32, &input)) return NULL;
    const spyre_segment *segment = executable_segment(self, index, &number);
    if (!segment) return NULL;
    if (segment->kind != SPYRE_SEGMENT_CARD || input >= segment->input_count)
        return PyErr_Format(PyExc_IndexError, "input %u of %u", input, segment->input_count);
    const spyre_view *dense = &segment->input_storages[input];
    return Py_BuildValue("(NNN)", core_int_list(dense->size, dense->rank),
                         core_int_list(dense->stride, dense->rank),
                         layout_to_object(&segment->input_layouts[input]));
}

static PyObject *py_segment_count(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLong(spyre_executable_segment_count(of(self)));
}

static PyObject *py_address(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromVoidPtr(of(self));
}

static PyObject *py_bytes(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLongLong(spyre_executable_bytes(of(self)));
}

static PyObject *py_report(PyObject *self, PyObject *Py_UNUSED(unused))
{
    char *text;
    return core_text(spyre_executable_report(of(self), &text), &text);
}

// nodes() -> [(op, location, layer, reason, composition)], a tuple per node of the graph; the last
// two may be None
static PyObject *py_nodes(PyObject *self, PyObject *Py_UNUSED(unused))
{
    static const char *const LAYERS[] = {"native", "decomposition", "view", "host", "removed"};
    spyre_node_report node;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && spyre_executable_node(of(self), i, &node); i++) {
        PyObject *row = Py_BuildValue("(ssszz)", node.op, node.location, LAYERS[node.layer],
                                      node.reason, node.composition);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *kernel_to_dict(const spyre_kernel_counters *k)
{
    return Py_BuildValue(
        "{s:s,s:s,s:I,s:L,s:d,s:d,s:s,s:d,s:d,s:d,s:d,s:d,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "name",
        k->name, "location", k->location, "cores", k->cores, "runs", (long long)k->runs, "us",
        k->us, "overlap_us", k->overlap_us, "bound", spyre_bound_name(k->bound), "memory_busy_us",
        k->memory_busy_us, "pt_busy_us", k->pt_busy_us, "sfp_busy_us", k->sfp_busy_us,
        "ring_busy_us", k->ring_busy_us, "stall_us", k->stall_us, "memory_read_bytes",
        (long long)k->memory_read_bytes, "memory_written_bytes",
        (long long)k->memory_written_bytes, "lx_bytes", (long long)k->lx_bytes, "ring_bytes",
        (long long)k->ring_bytes, "ring_hops", (long long)k->ring_hops, "macs",
        (long long)k->mac_count, "vector_elements", (long long)k->vector_element_count);
}

static PyObject *kernel_list(const spyre_kernel_counters *kernels, uint32_t count)
{
    CORE_RETURN_LIST(count, kernel_to_dict(&kernels[i]));
}

static PyObject *py_counters(PyObject *self, PyObject *index)
{
    uint32_t number;
    const spyre_segment *segment = executable_segment(self, index, &number);
    if (!segment) return NULL;
    const spyre_kernel_counters *kernels = spyre_executable_counters(of(self), number);
    return kernel_list(kernels, kernels ? segment->kernel_count : 0);
}

static PyObject *py_lx_use(PyObject *self, PyObject *index)
{
    uint32_t number;
    if (!executable_segment(self, index, &number)) return NULL;
    spyre_lx_use use;
    if (!core_check(spyre_executable_lx_use(of(self), number, &use))) return core_raise();
    return Py_BuildValue("{s:I,s:I,s:L,s:L,s:d,s:d,s:d}", "ops", use.ops, "buffers", use.buffers,
                         "limit_bytes", (long long)use.limit_bytes, "peak_bytes",
                         (long long)use.peak_bytes, "average_bytes", use.average_bytes,
                         "fragmentation", use.fragmentation, "reuse", use.reuse);
}

static PyObject *py_plan(PyObject *self, PyObject *Py_UNUSED(unused))
{
    char *text;
    return core_text(spyre_executable_plan(of(self), &text), &text);
}

static PyObject *py_text(PyObject *self, PyObject *args)
{
    uint32_t segment;
    const char *stage;
    char *text;
    if (!PyArg_ParseTuple(args, "O&s", core_u32, &segment, &stage)) return NULL;
    return core_text(spyre_executable_text(of(self), segment, stage, &text), &text);
}

static PyObject *py_exchanges(PyObject *self, PyObject *args)
{
    uint32_t ranks;
    char *text;
    if (!PyArg_ParseTuple(args, "O&", core_u32, &ranks)) return NULL;
    return core_text(spyre_executable_exchanges(of(self), ranks, &text), &text);
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

// stages(segment) -> [(name, us, bytes, ops, buffers, changed)] of the front; [] of a cached one
static PyObject *py_stages(PyObject *self, PyObject *index)
{
    uint32_t segment;
    spyre_stage_record r;
    if (!executable_segment(self, index, &segment)) return NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && spyre_executable_stage_record(of(self), segment, i, &r); i++) {
        PyObject *row = Py_BuildValue("(sdLIIO)", r.name, r.us, (long long)r.bytes, r.ops,
                                      r.buffers, r.changed ? Py_True : Py_False);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

// loops(segment) -> as _C.read_loops()
static PyObject *py_loops(PyObject *self, PyObject *index)
{
    uint32_t segment;
    const spyre_loops *loops;
    if (!executable_segment(self, index, &segment)) return NULL;
    if (!core_check(spyre_executable_loops(of(self), segment, &loops))) return core_raise();
    return loops_read(loops);
}

// op_costs(segment) -> as _C.op_costs()
static PyObject *py_op_costs(PyObject *self, PyObject *index)
{
    uint32_t segment;
    const spyre_loops *loops;
    if (!executable_segment(self, index, &segment)) return NULL;
    if (!core_check(spyre_executable_loops(of(self), segment, &loops))) return core_raise();
    return loops_costs(loops);
}

enum { MOST_SMALLER = SPYRE_MOST_SIZES + 2 };

// Of serve_sizes(): as many executables as the spans need, or one more.
static bool read_spans(PyObject *smaller, PyObject *spans, spyre_executable **out_smaller,
                       spyre_size_span *out_spans, uint32_t *out_count)
{
    Py_ssize_t count = PyList_Size(spans), others = PyList_Size(smaller);
    Py_ssize_t needed = count + (count > 1);
    if (count < 1 || count > SPYRE_MOST_SIZES || others < needed || others > needed + 1) {
        PyErr_Format(PyExc_ValueError, "%zd spans of sizes and %zd smaller executables: expected 1 "
                     "to %d, and one for each, one for several and one of the least sizes or none",
                     count, others, SPYRE_MOST_SIZES);
        return false;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        long long granule, size, most;
        if (!core_parse(PyList_GetItem(spans, k), "a span", "LLL", &granule, &size, &most))
            return false;
        out_spans[k] = (spyre_size_span){granule, size, most};
    }
    for (Py_ssize_t n = 0; n < others; n++) {
        out_smaller[n] = executable_of_object(PyList_GetItem(smaller, n));
        if (!out_smaller[n]) return false;
    }
    *out_count = (uint32_t)count;
    return true;
}

// serve_sizes(smaller, spans) -> None, or (why it does not, "plan", "least" or "no")
static PyObject *py_serve_sizes(PyObject *self, PyObject *args)
{
    PyObject *smaller, *spans;
    spyre_executable *others[MOST_SMALLER];
    spyre_size_span sizes[SPYRE_MOST_SIZES];
    uint32_t count;
    spyre_sizes_verdict verdict;
    char *reason;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &smaller, &PyList_Type, &spans) ||
        !read_spans(smaller, spans, others, sizes, &count))
        return NULL;
    if (!core_check(spyre_executable_serve_sizes(of(self), others, (uint32_t)PyList_Size(smaller),
                                                 sizes, count, &verdict, &reason)))
        return core_raise();
    if (verdict == SPYRE_SIZES_SERVED) Py_RETURN_NONE;
    PyObject *why = core_text(NULL, &reason);
    const char *needed = verdict == SPYRE_SIZES_OTHER_PLAN ? "plan"
                         : verdict == SPYRE_SIZES_NEED_LEAST ? "least" : "no";
    return why ? Py_BuildValue("(Ns)", why, needed) : NULL;
}

// at_sizes(sizes) -> Executable
static PyObject *py_at_sizes(PyObject *self, PyObject *sizes)
{
    spyre_executable *at;
    int64_t values[SPYRE_MOST_SIZES];
    int64_t count = core_ints(sizes, values, SPYRE_MOST_SIZES, "sizes");
    if (count < 0) return NULL;
    if (!core_check(spyre_executable_at_sizes(of(self), values, (uint32_t)count, &at)))
        return core_raise();
    return executable_to_object(at);
}

static PyMethodDef executable_methods[] = {
    {"serve_sizes", py_serve_sizes, METH_VARARGS,
     "(smaller, spans) -> None when it serves sizes of these (granule, size of a smaller one, "
     "most) from now on, or why not, and what may help: \"plan\", smaller ones of other sizes; "
     "\"least\", one more of the least sizes; \"no\", nothing"},
    {"at_sizes", py_at_sizes, METH_O, "(sizes) -> the executable at some of them"},
    {"plan", py_plan, METH_NOARGS, "() -> text for compile() of the same graph at smaller sizes"},
    {"segment_count", py_segment_count, METH_NOARGS, NULL},
    {"segment", py_segment, METH_O, "(index) -> dict of kind, nodes, inputs, outputs, counts"},
    {"input_storage", py_input_storage, METH_VARARGS,
     "(segment, input) -> sizes, strides and layout of the storage that a launch expects"},
    {"address", py_address, METH_NOARGS, "Equal for the same executable."},
    {"bytes", py_bytes, METH_NOARGS, "Bytes of the host that it takes, by now."},
    {"lx_use", py_lx_use, METH_O, "(segment) -> a dict: how it uses the LX of a core"},
    {"counters", py_counters, METH_O, "(segment) -> a dict a kernel: what it uses"},
    {"launch", executable_launch, METH_VARARGS,
     "(segment, inputs, card, scalars=()) -> [results that are not views]; asynchronous"},
    {"interpret", executable_interpret, METH_VARARGS,
     "(segment, inputs, card, scalars=()) -> the same by the interpreter of bundles"},
    {"preferred_inputs", executable_preferred_inputs, METH_O,
     "(segment) -> [inputs that it would read in another layout without copying them first]"},
    {"prefer_layout", executable_prefer_layout, METH_VARARGS,
     "(segment, input, tensor, at_once) -> whether its storage has got the preferred layout"},
    {"run", executable_run, METH_O,
     "(tensors): launches a kernel of compile_op_specs(); asynchronous"},
    {"stages", py_stages, METH_O,
     "(segment) -> [(name, us, bytes, ops, buffers, changed)]: what the front's stages took"},
    {"loops", py_loops, METH_O, "(segment) -> (ops, buffers) of the final loop IR"},
    {"op_costs", py_op_costs, METH_O,
     "(segment) -> what the cost model predicts of each op, as op_costs() has it"},
    {"nodes", py_nodes, METH_NOARGS,
     "() -> [(op, location, layer, reason, composition)]: what became of every node"},
    {"report", py_report, METH_NOARGS, "One line a node: the layer that took it."},
    {"text", py_text, METH_VARARGS, "(segment, stage) -> text"},
    {"exchanges", py_exchanges, METH_VARARGS,
     "(ranks) -> what ranks exchange and how much of it is hidden, \"\" without collectives"},
    {"write", py_write, METH_VARARGS, "(segment, stage, directory)"},
    {NULL, NULL, 0, NULL},
};

bool executable_register(PyObject *module)
{
    return executable_add_type(module, executable_methods);
}
