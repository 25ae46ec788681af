// SPDX-License-Identifier: Apache-2.0
//
// Operators one by one, without Python: the programs of calls that torch_spyre/eager has compiled
// before.
//
// A call is known by bytes: the operator, and of every argument its number or its type, view and
// layout (eager_key.c). A call that is not known goes on to Python, whose kernel tells by
// remember() what it launches; the next equal call finds it. Where the program is that of a bucket
// of lengths, it tells how operands and results fit; where the values of integers must be within
// bounds, which.
#include <stdlib.h>
#include <string.h>

#include "eager/eager_table.h"

enum { FAILED = -3 };

static _Thread_local glue_call *current;

// ---- running

// The storage that the program reads for an input, or null for an error. *out_made: a tensor that
// the caller deletes, or null.
static storage *find_input(const eager_program *p, const glue_call *call, uint32_t i,
                           AtenTensorHandle *out_made)
{
    const eager_fitting *f = p->fitting;
    tensor_info t;
    *out_made = NULL;
    if (f && f->constants[i])
        return tensor_of_object(f->constants[i], &t) ? t.storage : NULL;
    uint8_t operand = p->inputs[i];
    if (f && !fit_make(&f->inputs[i], tensor_handle(call->tensors[operand]), out_made)) return NULL;
    if (!*out_made) return call->storages[operand];
    return tensor_describe(*out_made, &t) ? t.storage : NULL;
}

static bool gather_inputs(const eager_program *p, const spyre_segment *segment,
                          const glue_call *call, AtenTensorHandle *made, uint64_t *out_addresses)
{
    for (uint32_t i = 0; i < p->input_count; i++) {
        storage *s = find_input(p, call, i, &made[i]);
        if (!s || !executable_input(segment, i, p->card, s, &out_addresses[i])) return false;
    }
    return true;
}

static void delete_all(AtenTensorHandle *tensors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i]) aoti_torch_delete_tensor_object(tensors[i]);
}

// The result becomes the contents of the tensor that the operator writes: the two storages exchange
// their card memory when they agree in all else.
static bool write_result(const void *target, AtenTensorHandle result)
{
    tensor_info to, from;
    AtenTensorHandle handle = tensor_handle(target);
    if (!tensor_describe(handle, &to) || !tensor_describe(result, &from)) return false;
    if (tensor_covers(&to) && tensor_covers(&from) && tensor_same_geometry(&from, &to) &&
        storage_exchange(to.storage, from.storage))
        return true;
    return core_shim(aoti_torch_copy_(handle, result, 0));
}

static bool launch(const eager_program *p, const glue_call *call, AtenTensorHandle *outputs)
{
    const spyre_segment *segment = spyre_executable_segment(p->executable, 0);
    uint64_t inputs[EAGER_MOST_INPUTS], buffers[GLUE_MOST_RESULTS];
    AtenTensorHandle made[EAGER_MOST_INPUTS] = {NULL};
    bool ok = device_context() && gather_inputs(p, segment, call, made, inputs);
    for (uint32_t i = 0; ok && i < segment->output_count && !p->in_place; i++)
        ok = executable_output(segment, i, p->card, &outputs[i], buffers);
    ok = ok && executable_start(p->executable, 0, p->card, inputs, buffers, call->scalars);
    delete_all(made, p->input_count);
    return ok;
}

// Gives the results of a program of other sizes those of the call.
static bool fit_results(const eager_program *p, AtenTensorHandle *outputs)
{
    for (uint32_t i = 0; p->fitting && i < p->result_count; i++) {
        AtenTensorHandle fitted;
        if (p->results[i] >= EAGER_NO_RESULT) continue;
        AtenTensorHandle *output = &outputs[p->results[i]];
        if (!fit_make(&p->fitting->results[i], *output, &fitted)) return false;
        if (!fitted) continue;
        aoti_torch_delete_tensor_object(*output);
        *output = fitted;
    }
    return true;
}

// Whether another tensor of the call lies in the memory of the one that is written: then Python
// asks PyTorch's rules of overlap, which no key knows.
static bool shares_written(const eager_program *p, const glue_call *call)
{
    const storage *written = call->storages[p->written];
    for (uint32_t i = 0; i < call->tensor_count && written; i++)
        if (i != (uint32_t)p->written && call->storages[i] &&
            storage_is_over(call->storages[i], written))
            return true;
    return false;
}

// Inputs that this program copies into another layout each time get that layout.
static bool move_inputs(const eager_program *p, const glue_call *call, bool *out_moved)
{
    const spyre_segment *segment = spyre_executable_segment(p->executable, 0);
    bool moved;
    *out_moved = false;
    for (uint32_t i = 0; p->prefers && i < p->input_count; i++) {
        storage *s = call->storages[p->inputs[i]];
        if (!executable_move_input(segment, i, s, false, &moved)) return false;
        *out_moved = *out_moved || moved;
    }
    return true;
}

// The results in the operator's order, those without elements made anew.
static bool order_results(const eager_program *p, const AtenTensorHandle *outputs, void **results)
{
    const int64_t size = 0, stride = 1;
    int32_t dtype;
    bool ok = p->result_count == 0 || core_shim(aoti_torch_get_dtype(outputs[0], &dtype));
    for (uint32_t i = 0; ok && i < p->result_count; i++) {
        AtenTensorHandle empty;
        bool made = p->results[i] == EAGER_EMPTY_RESULT;
        results[i] = NULL;
        if (p->results[i] == EAGER_NO_RESULT) continue;
        ok = !made || tensor_create(1, &size, &stride, dtype, p->card, &empty);
        if (ok) results[i] = made ? empty : outputs[p->results[i]];
    }
    return ok;
}

static int run(const eager_program *p, glue_call *call)
{
    AtenTensorHandle outputs[GLUE_MOST_RESULTS] = {NULL};
    bool ok = launch(p, call, outputs) && fit_results(p, outputs);
    if (ok && p->written >= 0 && !p->in_place)
        ok = write_result(call->tensors[p->written], outputs[0]);
    ok = ok && (p->written >= 0 || order_results(p, outputs, call->results));
    if (!ok || p->written >= 0) delete_all(outputs, GLUE_MOST_RESULTS);
    if (!ok) return FAILED;
    call->written = p->written >= 0 ? call->tensors[p->written] : NULL;
    return (int)p->result_count;
}

// Results without elements: nothing is launched.
static int make_nothing(const eager_program *p, glue_call *call)
{
    call->written = p->written >= 0 ? call->tensors[p->written] : NULL;
    for (uint32_t i = 0; i < p->result_count && !call->written; i++) {
        const eager_nothing *n = &p->nothing[i];
        AtenTensorHandle made;
        if (!tensor_create(n->rank, n->size, n->stride, n->torch_dtype, p->card, &made)) {
            delete_all((AtenTensorHandle *)call->results, i);
            return FAILED;
        }
        call->results[i] = made;
    }
    return (int)p->result_count;
}

static bool is_within(const eager_bound *b, const glue_call *call, bool *out_within)
{
    tensor_info t;
    spyre_integer_range found;
    if (b->of_number) {
        double value = call->scalars[b->index];
        *out_within = (double)b->range.least <= value && value <= (double)b->range.most;
        return true;
    }
    if (!tensor_describe(tensor_handle(call->tensors[b->index]), &t) || !range_of(&t, &found))
        return false;
    *out_within = range_is_in(&found, &b->range);
    return true;
}

static bool check_bounds(const eager_program *p, const glue_call *call, bool *out_within)
{
    *out_within = true;
    for (uint32_t i = 0; i < p->bound_count && *out_within; i++)
        if (!is_within(&p->bounds[i], call, out_within)) return false;
    return true;
}

static bool is_on_card(const glue_call *call, uint32_t card)
{
    for (uint32_t i = 0; i < call->tensor_count; i++)
        if (call->storages[i] && call->storages[i]->card != card) return false;
    return true;
}

// The number of results, or FAILED, or why there are none.
static int start(const eager_program *p, glue_call *call)
{
    bool moved, within;
    if (!is_on_card(call, p->card)) return EAGER_UNKNOWN; // Python says which tensor is elsewhere
    if (p->nothing) return make_nothing(p, call);
    if (p->written >= 0 && shares_written(p, call)) return EAGER_UNKNOWN;
    if (!move_inputs(p, call, &moved)) return FAILED;
    if (moved) return EAGER_MOVED;
    if (!check_bounds(p, call, &within)) return FAILED;
    return within ? run(p, call) : EAGER_UNKNOWN;
}

int eager_run(glue_call *call)
{
    if (call->rules && call->number_count) eager_settle_scalars(call);
    eager_program *p = call->known ? eager_find(call) : NULL;
    if (!p) return EAGER_UNKNOWN;
    int results = start(p, call);
    eager_let_go(p);
    if (results == FAILED) glue_throw();
    return results;
}

void eager_enter(glue_call *call)
{
    call->outer = current;
    current = call;
}

void eager_leave(glue_call *call)
{
    current = call->outer;
}

// ---- Python methods

// Results: an index of the segment's outputs, -1 for one without elements, -2 for None.
static bool take_results(PyObject *list, eager_program *p, uint32_t outputs)
{
    int64_t values[GLUE_MOST_RESULTS];
    Py_ssize_t count = PySequence_Size(list);
    uint32_t present = 0;
    if (count < 0 || count > GLUE_MOST_RESULTS || outputs > GLUE_MOST_RESULTS) return false;
    if (core_ints(list, values, GLUE_MOST_RESULTS, "remember") < 0) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (values[i] < -2 || values[i] >= outputs) return false;
        p->results[i] = values[i] == -1   ? EAGER_EMPTY_RESULT
                        : values[i] == -2 ? EAGER_NO_RESULT
                                          : (uint8_t)values[i];
        present += values[i] >= 0;
    }
    p->result_count = (uint32_t)count;
    return present == outputs;
}

// The place of a tensor of Python among those of the call, or -1.
static int operand_of(const glue_call *call, PyObject *object)
{
    const void *tensor = glue_from_python(object);
    const void *identity = tensor ? glue_identity(tensor) : NULL;
    for (uint32_t i = 0; identity && i < call->tensor_count; i++)
        if (call->identities[i] == identity) return (int)i;
    return -1;
}

// False for tensors that are none of the call: a kernel made them of what it was called with.
static bool take_inputs(PyObject *tuple, const glue_call *call, eager_program *p)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0 || count > EAGER_MOST_INPUTS) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (p->fitting && p->fitting->constants[i]) continue;
        int place = operand_of(call, PyTuple_GetItem(tuple, i));
        if (place < 0 || !call->storages[place]) return false;
        p->inputs[i] = (uint8_t)place;
    }
    p->input_count = (uint32_t)count;
    return true;
}

static bool read_fits(PyObject *tuple, Py_ssize_t most, fit *out)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0 || count > most) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        if (item != Py_None && !fit_read(item, &out[i])) return false;
    }
    return true;
}

// Of (fits of inputs, fits of results); an input without one is a tensor that every call gets.
static bool take_fits(PyObject *fits, PyObject *inputs, eager_program *p)
{
    PyObject *of_inputs, *of_results;
    if (fits == Py_None) return true;
    p->fitting = calloc(1, sizeof *p->fitting);
    if (!p->fitting || !core_parse(fits, "fits", "O!O!", &PyTuple_Type, &of_inputs,
                                   &PyTuple_Type, &of_results) ||
        PyTuple_Size(of_inputs) != PyTuple_Size(inputs) ||
        !read_fits(of_inputs, EAGER_MOST_INPUTS, p->fitting->inputs) ||
        !read_fits(of_results, GLUE_MOST_RESULTS, p->fitting->results))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(inputs); i++)
        if (PyTuple_GetItem(of_inputs, i) == Py_None)
            p->fitting->constants[i] = Py_NewRef(PyTuple_GetItem(inputs, i));
    return true;
}

// Of (a tensor of the call or the index of a parameter, least, most, whether 0 is left out).
static bool take_bounds(PyObject *tuple, const glue_call *call, eager_program *p)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0 || count > EAGER_MOST_BOUNDS) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *of;
        long long least, most;
        int without_zero;
        if (!core_parse(PyTuple_GetItem(tuple, i), "a bound", "OLLp", &of, &least, &most,
                        &without_zero))
            return false;
        bool number = PyLong_Check(of);
        long index = number ? PyLong_AsLong(of) : operand_of(call, of);
        if (index < 0 || (number && index >= (long)call->scalar_count)) return false;
        p->bounds[i] = (eager_bound){number, (uint8_t)index, {least, most, !without_zero}};
    }
    p->bound_count = (uint32_t)count;
    return true;
}

// note_scalars(rules): the operator that PyTorch is calling takes numbers as parameters by these
// rules, one byte an argument.
static PyObject *py_note_scalars(PyObject *Py_UNUSED(self), PyObject *rules)
{
    char *bytes;
    Py_ssize_t count;
    if (PyBytes_AsStringAndSize(rules, &bytes, &count) < 0) return NULL;
    if (!current || count == 0 || current->rules) Py_RETURN_NONE;
    if (!eager_add_rules(current->op, bytes, (size_t)count)) return PyErr_NoMemory();
    current->rules = eager_rules_of(current->op);
    if (current->rules) eager_settle_scalars(current);
    Py_RETURN_NONE;
}

// A program of a call of such bytes, to be filled in; null when memory is short.
static eager_program *new_program(const glue_call *call, uint32_t length, PyObject *object)
{
    eager_program *p = calloc(1, sizeof *p + length);
    if (!p) return NULL;
    p->hash = eager_hash(call, length);
    p->key_length = length;
    p->card = call->card;
    p->object = Py_NewRef(object);
    p->written = -1;
    memcpy(p->key, call->key, length);
    return p;
}

// Notes that the program of such a call depends on the values of its numbers.
static void note_by_value(const glue_call *call, PyObject *object)
{
    eager_program *p = new_program(call, call->length, object); // it goes with the program
    if (!p) return;
    p->by_value = true;
    if (!eager_add(p)) eager_free(p);
}

typedef struct {
    PyObject *object, *inputs, *results, *written, *bounds, *fits;
    unsigned scalars;
} remembered;

// False where a call without Python would not do the same, maybe with an exception set.
static bool take(const remembered *r, const spyre_segment *segment, const glue_call *call,
                 eager_program *p)
{
    int32_t there = segment->output_count == 1 ? segment->outputs[0].input : -1;
    p->prefers = r->fits == Py_None && executable_prefers(segment);
    p->written = r->written == Py_None ? -1 : operand_of(call, r->written);
    bool fits = take_fits(r->fits, r->inputs, p) && take_inputs(r->inputs, call, p) &&
                take_bounds(r->bounds, call, p) &&
                take_results(r->results, p, segment->output_count) &&
                (there >= 0 || executable_owns_outputs(segment)) &&
                p->input_count == segment->input_count &&
                (r->written == Py_None || (p->written >= 0 && p->result_count == 1));
    p->in_place = fits && there >= 0;
    fits = fits && (there < 0 || p->inputs[there] == p->written);
    return fits && is_on_card(call, p->card);
}

// remember(executable, inputs, results, written, scalars, bounds, fits): the operator that PyTorch
// is calling launches segment 0 of the executable with the tensors `inputs`, if all are the call's
// own; `results` are indices of its outputs, -1 for a result of size [0] and the dtype of the first
// one, -2 for None; `written` is the tensor that takes the only result, or None; `scalars` numbers
// of the call are parameters; integers are within `bounds`; `fits` is None or the fits of inputs
// and results.
static PyObject *py_remember(PyObject *Py_UNUSED(self), PyObject *args)
{
    remembered r;
    if (!PyArg_ParseTuple(args, "OO!OOIO!O", &r.object, &PyTuple_Type, &r.inputs, &r.results,
                          &r.written, &r.scalars, &PyTuple_Type, &r.bounds, &r.fits))
        return NULL;
    spyre_executable *executable = executable_of_object(r.object);
    if (!executable) return NULL;
    const glue_call *call = current;
    if (!call || !call->known || call->tensor_count == 0) Py_RETURN_NONE;
    if (r.scalars && r.scalars != call->scalar_count) Py_RETURN_NONE;
    bool by_value = call->scalar_count > r.scalars;
    uint32_t length = by_value ? eager_length_with_values(call) : call->length;
    eager_program *p = new_program(call, length, r.object);
    if (!p) return PyErr_NoMemory();
    p->executable = executable;
    bool fits = take(&r, spyre_executable_segment(executable, 0), call, p);
    if (PyErr_Occurred()) PyErr_Clear();
    if (!fits || !eager_add(p)) eager_free(p);
    if (fits && by_value) note_by_value(call, r.object);
    eager_free_forgotten();
    Py_RETURN_NONE;
}

static bool take_nothing(PyObject *tensor, eager_nothing *out)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t) || t.numel > 0 || t.rank > SPYRE_MAX_RANK) return false;
    out->rank = t.rank;
    out->torch_dtype = t.torch_dtype;
    memcpy(out->size, t.size, (size_t)t.rank * sizeof *t.size);
    memcpy(out->stride, t.stride, (size_t)t.rank * sizeof *t.stride);
    return true;
}

// Whether all are tensors of the call: else its kernel made them of what it was called with.
static bool are_operands(const glue_call *call, PyObject *tuple)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++)
        if (operand_of(call, PyTuple_GetItem(tuple, i)) < 0) return false;
    return true;
}

// remember_nothing(object, tensors, results, written): the operator that PyTorch is calling with
// these tensors gives `results`, which have no elements, or `written`, the operand as it is, and
// launches nothing; until `object` is forgotten.
static PyObject *py_remember_nothing(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object, *tensors, *results, *written;
    if (!PyArg_ParseTuple(args, "OO!O!O", &object, &PyTuple_Type, &tensors, &PyTuple_Type,
                          &results, &written))
        return NULL;
    const glue_call *call = current;
    Py_ssize_t count = PyTuple_Size(results);
    if (!call || !call->known || call->tensor_count == 0) Py_RETURN_NONE;
    if (count > GLUE_MOST_RESULTS || !are_operands(call, tensors)) Py_RETURN_NONE;
    eager_program *p = new_program(call, call->length, object);
    if (!p) return PyErr_NoMemory();
    p->nothing = calloc((size_t)count + 1, sizeof *p->nothing);
    p->result_count = (uint32_t)count;
    if (written != Py_None) p->written = operand_of(call, written);
    bool fits = p->nothing && (written == Py_None ? count > 0 : p->written >= 0);
    for (Py_ssize_t i = 0; fits && i < count; i++)
        fits = take_nothing(PyTuple_GetItem(results, i), &p->nothing[i]);
    if (PyErr_Occurred()) PyErr_Clear();
    if (!fits || !eager_add(p)) eager_free(p);
    eager_free_forgotten();
    Py_RETURN_NONE;
}

// register_operator(name): calls of the aten operator look for a program here first, then go on to
// its kernel of the key PrivateUse2. "" does so for all operators without a kernel.
static PyObject *py_register_operator(PyObject *Py_UNUSED(self), PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    if (!glue_register_operator(text)) return NULL;
    Py_RETURN_NONE;
}

// forget_program(executable, always): no operator launches it any more; with `always` false, and
// when one has since the last time this was asked, only the note of that goes. Whether it is
// forgotten.
static PyObject *py_forget_program(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object;
    int always;
    if (!PyArg_ParseTuple(args, "Op", &object, &always)) return NULL;
    return PyBool_FromLong(eager_forget(object, always != 0));
}

// trace_attention(whole): whether graphs that this thread traces keep attention with gradients one
// node, whose gradient the tracer then takes apart. Gives what held before.
static PyObject *py_trace_attention(PyObject *Py_UNUSED(self), PyObject *whole)
{
    int wanted = PyObject_IsTrue(whole);
    return wanted < 0 ? NULL : PyBool_FromLong(glue_trace_attention(wanted));
}

// forget_operators(): every operator asks Python again.
static PyObject *py_forget_operators(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    eager_forget_all();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"remember", py_remember, METH_VARARGS,
     "(executable, inputs, results, written, scalars, bounds, fits) -> None"},
    {"remember_nothing", py_remember_nothing, METH_VARARGS,
     "(object, tensors, results, written) -> None"},
    {"note_scalars", py_note_scalars, METH_O, "(rules) -> None"},
    {"forget_program", py_forget_program, METH_VARARGS, "(executable, always) -> forgotten"},
    {"trace_attention", py_trace_attention, METH_O, "(whole) -> before"},
    {"forget_operators", py_forget_operators, METH_NOARGS, "() -> None"},
    {"register_operator", py_register_operator, METH_O, "(name) -> None"},
    {NULL, NULL, 0, NULL},
};

bool eager_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
