// SPDX-License-Identifier: Apache-2.0
//
// Launches of an Executable's card segments: results are fresh tensors (launch, interpret) or the
// caller's (run).
#include "core.h"

#include <stdatomic.h>
#include <stdlib.h>

uint32_t executable_output_owner(const spyre_segment *segment, uint32_t index)
{
    if (segment->outputs[index].input >= 0) return SPYRE_NO_ID;
    uint32_t first = 0;
    while (segment->outputs[first].input >= 0 ||
           segment->outputs[first].buffer != segment->outputs[index].buffer)
        first++;
    return first;
}

bool executable_owns_outputs(const spyre_segment *segment)
{
    for (uint32_t i = 0; i < segment->output_count; i++)
        if (executable_output_owner(segment, i) != i) return false;
    return true;
}

static bool check_card(size_t index, uint32_t card, uint32_t expected)
{
    return card == expected ||
           core_fail(SPYRE_UNSUPPORTED,
                     "Expected all tensors to be on the same device, but argument %zu is on "
                     "spyre:%u and the others are on spyre:%u",
                     index, card, expected);
}

static bool is_storage_of(const storage *s, const spyre_view *wanted)
{
    return s->dense.rank == wanted->rank &&
           tensor_same_shape(wanted->rank, s->dense.size, s->dense.stride, wanted->size,
                             wanted->stride);
}

// Whether the program may write the input: what leaves it lies there.
static bool writes_input(const spyre_segment *segment, size_t index)
{
    for (uint32_t i = 0; i < segment->output_count; i++)
        if (segment->outputs[i].input == (int32_t)index) return true;
    return false;
}

bool executable_input(const spyre_segment *segment, size_t index, uint32_t card, storage *s,
                      uint64_t *out)
{
    if (!s || !s->typed)
        return core_fail(SPYRE_INVALID_ARGUMENT, "input %zu of a launch is not on the card", index);
    if (!check_card(index, s->card, card)) return false;
    if (!is_storage_of(s, &segment->input_storages[index]))
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "input %zu of a launch: its storage has other sizes or strides than the "
                         "program was compiled for",
                         index);
    if (!storage_set_layout(s, &segment->input_layouts[index])) return false;
    bool apart = s->shared || s->widened_from || s->range_known;
    if (apart && writes_input(segment, index) && !storage_own(s)) return false;
    bool otherwise = segment->preferred_layouts[index].rank > 0;
    atomic_store_explicit(otherwise ? &s->read_otherwise : &s->read_as_is, true,
                          memory_order_relaxed);
    *out = s->address;
    return true;
}

bool executable_prefers(const spyre_segment *segment)
{
    for (uint32_t i = 0; segment->kind == SPYRE_SEGMENT_CARD && i < segment->input_count; i++)
        if (segment->preferred_layouts[i].rank) return true;
    return false;
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

// What a caller hands over by hand may be of another dtype, whose bits the program would misread.
static bool check_dtype(const spyre_segment *segment, size_t index, const tensor_info *t)
{
    if (!segment->input_dtypes) return true;
    spyre_dtype given = dtype_of_torch(t->torch_dtype), wanted = segment->input_dtypes[index];
    return given == wanted ||
           core_fail(SPYRE_INVALID_ARGUMENT,
                     "input %zu of a launch: %s, the program was compiled for %s", index,
                     given == SPYRE_DTYPE_COUNT ? "a dtype without form" : spyre_dtype_name(given),
                     spyre_dtype_name(wanted));
}

// False with an exception set.
static bool take_inputs(PyObject *tensors, uint32_t card, launch *l)
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
            !check_dtype(segment, i, &t) ||
            !executable_input(segment, i, card, t.storage, &l->inputs[i])) {
            core_raise();
            return false;
        }
    }
    return true;
}

static bool make_outputs(launch *l, uint32_t card)
{
    for (uint32_t i = 0; i < l->segment->output_count; i++)
        if (executable_output_owner(l->segment, i) == i &&
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

// spyre_launch_scalars or spyre_interpret_scalars.
typedef spyre_status launcher(spyre_context *, uint32_t, uint32_t, spyre_executable *, uint32_t,
                              const uint64_t *, const uint64_t *, const double *);

static bool start_segment(launcher *start, spyre_executable *executable, uint32_t segment,
                          uint32_t card, const uint64_t *inputs, const uint64_t *buffers,
                          const double *scalars)
{
    spyre_context *context = device_context();
    if (!context) return false;
    void *range = profiler_begin_launch(spyre_executable_segment(executable, segment)->name);
    bool ok = core_check(
        start(context, card, stream_current(card), executable, segment, inputs, buffers, scalars));
    profiler_end_launch(range);
    return ok;
}

bool executable_start(spyre_executable *executable, uint32_t segment, uint32_t card,
                      const uint64_t *inputs, const uint64_t *buffers, const double *scalars)
{
    return start_segment(spyre_launch_scalars, executable, segment, card, inputs, buffers, scalars);
}

static PyObject *launch_segment(launcher *start, spyre_executable *executable, uint32_t index,
                                PyObject *tensors, uint32_t card, const double *scalars)
{
    launch l = {.segment = spyre_executable_segment(executable, index)};
    PyObject *results = NULL;
    if (!take_inputs(tensors, card, &l)) goto done;
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = device_context() && make_outputs(&l, card) &&
         start_segment(start, executable, index, card, l.inputs, l.buffers, scalars);
    Py_END_ALLOW_THREADS
    results = ok ? output_tensors(&l) : core_raise();
done:
    launch_free(&l);
    return results;
}

enum { MOST_SCALARS = 256 };

// The numbers of a launch, as many as the segment takes; false with an exception set.
static bool read_scalars(PyObject *numbers, const spyre_segment *segment, double *out)
{
    Py_ssize_t count = numbers ? PyTuple_Size(numbers) : 0;
    if (count < 0) return false;
    if (count < (Py_ssize_t)segment->scalar_count || count > MOST_SCALARS) {
        PyErr_Format(PyExc_ValueError, "the segment takes %u numbers, %zd were given",
                     segment->scalar_count, count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) out[i] = PyFloat_AsDouble(PyTuple_GetItem(numbers, i));
    return !PyErr_Occurred();
}

static PyObject *start_with(launcher *start, PyObject *self, PyObject *args)
{
    PyObject *index, *inputs, *numbers = NULL;
    uint32_t card, number;
    double scalars[MOST_SCALARS];
    if (!PyArg_ParseTuple(args, "OOO&|O", &index, &inputs, core_u32, &card, &numbers)) return NULL;
    const spyre_segment *segment = executable_segment(self, index, &number);
    if (!segment) return NULL;
    if (segment->kind != SPYRE_SEGMENT_CARD || card >= device_count()) {
        core_fail(SPYRE_INVALID_ARGUMENT, "a launch of a %s segment on card %u of %u",
                  segment->kind == SPYRE_SEGMENT_CARD ? "card" : "host", card, device_count());
        return core_raise();
    }
    if (!read_scalars(numbers, segment, scalars)) return NULL;
    PyObject *tensors = PySequence_Tuple(inputs);       // holds them while they are in use
    if (!tensors) return NULL;
    PyObject *results =
        launch_segment(start, executable_of_object(self), number, tensors, card, scalars);
    Py_DECREF(tensors);
    return results;
}

PyObject *executable_launch(PyObject *self, PyObject *args)
{
    return start_with(spyre_launch_scalars, self, args);
}

PyObject *executable_launch_tensors(spyre_executable *executable, uint32_t segment,
                                    PyObject *inputs, uint32_t card)
{
    return launch_segment(spyre_launch_scalars, executable, segment, inputs, card, NULL);
}

PyObject *executable_interpret(PyObject *self, PyObject *args)
{
    return start_with(spyre_interpret_scalars, self, args);
}

// ---- layouts that a program prefers

bool executable_move_input(const spyre_segment *segment, uint32_t index, storage *s, bool at_once,
                           bool *out_moved)
{
    const spyre_layout *layout = &segment->preferred_layouts[index];
    *out_moved = false;
    return !layout->rank || !s || !is_storage_of(s, &segment->input_storages[index]) ||
           storage_prefer_layout(s, layout, at_once, out_moved);
}

PyObject *executable_preferred_inputs(PyObject *self, PyObject *index)
{
    uint32_t number;
    const spyre_segment *segment = executable_segment(self, index, &number);
    PyObject *list = segment ? PyList_New(0) : NULL;
    if (!list || segment->kind != SPYRE_SEGMENT_CARD) return list;
    for (uint32_t i = 0; list && i < segment->input_count; i++) {
        if (!segment->preferred_layouts[i].rank) continue;
        PyObject *input = PyLong_FromUnsignedLong(i);
        if (!input || PyList_Append(list, input) < 0) Py_CLEAR(list);
        Py_XDECREF(input);
    }
    return list;
}

PyObject *executable_prefer_layout(PyObject *self, PyObject *args)
{
    PyObject *index, *tensor;
    uint32_t input, number;
    int at_once;
    tensor_info t;
    bool moved = false;
    if (!PyArg_ParseTuple(args, "OO&Op", &index, core_u32, &input, &tensor, &at_once)) return NULL;
    const spyre_segment *segment = executable_segment(self, index, &number);
    if (!segment) return NULL;
    if (segment->kind != SPYRE_SEGMENT_CARD || input >= segment->input_count)
        return PyErr_Format(PyExc_IndexError, "input %u of %u", input, segment->input_count);
    if (!tensor_of_object(tensor, &t) ||
        !executable_move_input(segment, input, t.storage, at_once != 0, &moved))
        return core_raise();
    return PyBool_FromLong(moved);
}

// ---- launches on tensors that the caller made

#define NO_CARD UINT32_MAX
enum { MOST_TENSORS = 256 };     // of a kind

// The address of a tensor whose storage has the bytes of the layout; all when none is known. The
// first tensor says which card it is.
static bool address_of(PyObject *tensor, uint32_t number, const spyre_layout *layout,
                       uint32_t *card, uint64_t *out)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return false;
    if (!t.storage || !t.storage->typed)
        return core_fail(SPYRE_INVALID_ARGUMENT, "argument %u is not on the card", number);
    if (!storage_own(t.storage)) return false;
    spyre_format given = t.storage->layout.format;
    if (layout->rank && given != layout->format)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "argument %u is %s on the card, the kernel was compiled for %s", number,
                         spyre_format_name(given), spyre_format_name(layout->format));
    int64_t bytes = layout->rank ? spyre_layout_bytes(layout) : t.storage->card_bytes;
    if (bytes != t.storage->card_bytes)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "argument %u has %lld bytes on the card, the kernel wants %lld", number,
                         (long long)t.storage->card_bytes, (long long)bytes);
    if (*card == NO_CARD) *card = t.storage->card;
    *out = t.storage->address;
    return check_card(number, t.storage->card, *card);
}

static bool run_on(spyre_executable *executable, const spyre_segment *segment, PyObject *tensors)
{
    uint32_t card = NO_CARD;
    uint64_t inputs[MOST_TENSORS], buffers[MOST_TENSORS];
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
    return executable_start(executable, 0, card, inputs, buffers, NULL);
}

// Every tensor of the call is an input or an output that has a buffer, by its number.
static bool is_kernel(const spyre_segment *segment)
{
    if (!segment || segment->kind != SPYRE_SEGMENT_CARD) return false;
    uint32_t count = segment->input_count + segment->output_count;
    bool good = segment->input_count <= MOST_TENSORS && segment->buffer_count <= MOST_TENSORS;
    for (uint32_t i = 0; good && i < segment->input_count; i++) good = segment->inputs[i] < count;
    for (uint32_t i = 0; good && i < segment->output_count; i++)
        good = segment->outputs[i].value < count &&
               segment->outputs[i].buffer < segment->buffer_count;
    return good;
}

PyObject *executable_run(PyObject *self, PyObject *arguments)
{
    spyre_executable *executable = executable_of_object(self);
    const spyre_segment *segment = spyre_executable_segment(executable, 0);
    if (!is_kernel(segment)) {
        core_fail(SPYRE_INVALID_ARGUMENT, "run: not a kernel of compile_op_specs() with at most %d "
                  "inputs and %d outputs", MOST_TENSORS, MOST_TENSORS);
        return core_raise();
    }
    PyObject *tensors = PySequence_Tuple(arguments);
    if (!tensors) return NULL;
    uint32_t wanted = segment->input_count + segment->output_count;
    bool ok = PyTuple_Size(tensors) == (Py_ssize_t)wanted
                  ? run_on(executable, segment, tensors)
                  : core_fail(SPYRE_INVALID_ARGUMENT, "the kernel takes %u tensors, %zd are given",
                              wanted, PyTuple_Size(tensors));
    Py_DECREF(tensors);
    if (!ok) return core_raise();
    Py_RETURN_NONE;
}
