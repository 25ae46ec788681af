// SPDX-License-Identifier: Apache-2.0
//
// Operators one by one, without Python: the programs of calls that torch_spyre/eager.py has
// compiled before.
//
// A call is known by bytes: the operator, and of every argument its number or its type, view and
// layout. glue.cpp writes them with eager_value() and eager_tensor(). A call that is not known goes
// on to Python, whose kernel tells by remember() what it launches; the next equal call finds it.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { MOST_INPUTS = 8, ASK_PYTHON = -1, FAILED = -2, EMPTY_RESULT = UINT8_MAX };

typedef struct program program;
struct program {
    uint64_t hash;
    uint32_t key_length, card;
    spyre_executable *executable;           // that of `object`, which the program keeps
    PyObject *object;
    atomic_uint users;                      // calls that are at it
    atomic_bool used;                       // since forget_program() has asked
    struct program *next_forgotten;
    uint32_t input_count, result_count;
    uint8_t inputs[MOST_INPUTS];            // of the call's tensors, those that the segment reads
    uint8_t results[GLUE_MOST_RESULTS];     // of the segment's outputs, in the operator's order;
                                            // or EMPTY_RESULT
    bool by_value;                          // no program: look again with the numbers' values
    bool prefers;                           // other layouts of inputs
    int32_t written;                        // tensor of the call that takes the result, or -1
    bool in_place;                          // the program itself writes there
    uint8_t key[];
};

// Open addressing, half full at most. A program that leaves the table while a thread is at it waits
// in a list; whoever comes next with Python's lock frees it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static program **slots;
static size_t slot_count, program_count;
static program *forgotten;

static _Thread_local glue_call *current;

// ---- numbers that are parameters

// The rules of operators by the operator's address, added as Python gets to know operators. Entries
// stay, so that readers need no lock.
enum { MOST_OPERATORS = 1 << 12 };

typedef struct {
    const void *op;
    uint8_t rules[GLUE_MOST_ARGUMENTS];
} operator_rules;

static _Atomic(operator_rules *) operators[MOST_OPERATORS];
static uint32_t operator_count;             // under the lock

static size_t place_of(const void *op)
{
    return (size_t)((uintptr_t)op * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

// Null for an operator without parameters.
static const uint8_t *rules_of(const void *op)
{
    for (size_t at = place_of(op);; at = (at + 1) % MOST_OPERATORS) {
        operator_rules *known = atomic_load_explicit(&operators[at], memory_order_acquire);
        if (!known) return NULL;
        if (known->op == op) return known->rules;
    }
}

static bool add_rules(const void *op, const char *rules, size_t count)
{
    pthread_mutex_lock(&lock);
    operator_rules *made = NULL;
    bool room = operator_count < MOST_OPERATORS / 2 && count <= GLUE_MOST_ARGUMENTS;
    if (room && !rules_of(op)) made = calloc(1, sizeof *made);
    if (made) {
        size_t at = place_of(op);
        made->op = op;
        memcpy(made->rules, rules, count);
        while (atomic_load(&operators[at])) at = (at + 1) % MOST_OPERATORS;
        atomic_store_explicit(&operators[at], made, memory_order_release);
        operator_count++;
    }
    pthread_mutex_unlock(&lock);
    return !room || made || rules_of(op);
}

// ---- the key

void eager_begin(glue_call *call, const void *op)
{
    call->known = true;
    call->length = 0;
    call->tensor_count = 0;
    call->op = op;
    call->rules = rules_of(op);
    call->has_float16 = false;
    call->number_count = call->scalar_count = 0;
    eager_value(call, 'o', (uint64_t)(uintptr_t)op);
}

static void put(glue_call *call, const void *bytes, size_t count)
{
    if (call->length + count > sizeof call->key) {
        call->known = false;
        return;
    }
    memcpy(call->key + call->length, bytes, count);
    call->length += (uint32_t)count;
}

void eager_value(glue_call *call, char kind, uint64_t bits)
{
    put(call, &kind, sizeof kind);
    put(call, &bits, sizeof bits);
}

static void add_number(glue_call *call, size_t index, char kind, uint64_t bits, double value)
{
    if (index < GLUE_MOST_ARGUMENTS && call->number_count < GLUE_MOST_SCALARS)
        call->numbers[call->number_count++] =
            (glue_number){value, call->length, (uint8_t)index, kind == 'i'};
    eager_value(call, kind, bits);
}

void eager_number(glue_call *call, size_t index, char kind, uint64_t bits)
{
    double value;
    if (kind == 'i') value = (double)(int64_t)bits;
    else memcpy(&value, &bits, sizeof value);
    add_number(call, index, kind, bits, value);
}

// A tensor of the host without dimensions: a number to the card.
static void add_number_of_tensor(glue_call *call, size_t index, const tensor_info *t)
{
    uint64_t bits = 0;
    float narrow;
    double value;
    memcpy(&bits, t->base + t->offset * (int64_t)t->element_bytes, t->element_bytes);
    eager_value(call, 's', (uint64_t)t->torch_dtype);
    memcpy(&narrow, &bits, sizeof narrow);
    memcpy(&value, &bits, sizeof value);
    if (t->torch_dtype == aoti_torch_dtype_float64()) add_number(call, index, 'd', bits, value);
    else if (t->torch_dtype == aoti_torch_dtype_float32())
        add_number(call, index, 'd', bits, (double)narrow);
    else if (t->torch_dtype == aoti_torch_dtype_int64())
        add_number(call, index, 'i', bits, (double)(int64_t)bits);
    else eager_value(call, 's', bits);
}

// Puts classes in the place of the values of parameters, which go behind the key: it then begins
// with the key of any such call, and is as a whole that of this one.
static void settle_scalars(glue_call *call)
{
    double limit = core_scalar_limit(call->has_float16), like;
    for (uint32_t i = 0; i < call->number_count && call->known; i++) {
        const glue_number *n = &call->numbers[i];
        spyre_scalar_rule rule = (spyre_scalar_rule)call->rules[n->argument];
        if (!rule || !spyre_scalar_like(rule, n->value, n->is_int, limit, &like)) continue;
        uint8_t *place = call->key + n->at;
        call->scalars[call->scalar_count++] = n->value;
        *place = n->is_int ? 'I' : 'D';
        memcpy(place + 1, &like, sizeof like);
    }
    size_t bytes = call->scalar_count * sizeof *call->scalars;
    call->known = call->known && call->length + bytes <= sizeof call->key;
    if (call->known) memcpy(call->key + call->length, call->scalars, bytes);
}

static uint32_t length_with_values(const glue_call *call)
{
    return call->length + call->scalar_count * (uint32_t)sizeof *call->scalars;
}

void eager_tensor(glue_call *call, size_t index, const void *tensor)
{
    const void *identity = glue_identity(tensor);
    for (uint32_t i = 0; i < call->tensor_count; i++) {
        if (call->identities[i] != identity) continue;
        eager_value(call, '=', i);
        return;
    }
    tensor_info t;
    if (!tensor_describe(tensor_handle(tensor), &t) || call->tensor_count == GLUE_MOST_TENSORS) {
        call->known = false;
        return;
    }
    bool number = t.device_type == aoti_torch_device_type_cpu() && t.rank == 0 && t.base &&
                  t.element_bytes <= sizeof(uint64_t);
    if (number) {
        add_number_of_tensor(call, index, &t);
        return;
    }
    call->has_float16 = call->has_float16 || t.torch_dtype == aoti_torch_dtype_float16();
    call->known = call->known && t.storage && t.storage->typed;
    if (!call->known) return;
    eager_value(call, 't', 0);
    call->length += (uint32_t)tensor_write_key(&t, call->key + call->length,
                                               sizeof call->key - call->length);
    call->known = call->length < sizeof call->key;
    call->storages[call->tensor_count] = t.storage;
    call->identities[call->tensor_count] = identity;
    call->tensors[call->tensor_count++] = tensor;
}

// ---- the table

// FNV-1a over words; keys differ in few of them.
static uint64_t hash_key(const glue_call *call, uint32_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325), word;
    uint32_t at = 0;
    for (; at + sizeof word <= length; at += (uint32_t)sizeof word) {
        memcpy(&word, call->key + at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; at < length; at++) hash = (hash ^ call->key[at]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

// The slot of the call's program, or the empty one for it. Under the lock, with a table.
static program **slot_of(uint64_t hash, const uint8_t *key, uint32_t length)
{
    for (size_t at = hash & (slot_count - 1);; at = (at + 1) & (slot_count - 1)) {
        program *p = slots[at];
        bool same = p && p->hash == hash && p->key_length == length;
        if (!p || (same && memcmp(p->key, key, length) == 0)) return &slots[at];
    }
}

static bool grow(void)
{
    size_t old_count = slot_count;
    program **old = slots, **grown = calloc(old_count ? old_count * 2 : 256, sizeof *grown);
    if (!grown) return false;
    slots = grown;
    slot_count = old_count ? old_count * 2 : 256;
    for (size_t i = 0; i < old_count; i++)
        if (old[i]) *slot_of(old[i]->hash, old[i]->key, old[i]->key_length) = old[i];
    free(old);
    return true;
}

// The caller lets go of it.
static program *find_by(const glue_call *call, uint32_t length)
{
    uint64_t hash = hash_key(call, length);
    pthread_mutex_lock(&lock);
    program *found = slot_count ? *slot_of(hash, call->key, length) : NULL;
    if (found) atomic_fetch_add_explicit(&found->users, 1, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return found;
}

static void let_go(program *p)
{
    atomic_store_explicit(&p->used, true, memory_order_relaxed);
    atomic_fetch_sub_explicit(&p->users, 1, memory_order_release);
}

// The program of any call with such numbers, or where there is none that of these numbers.
static program *find(glue_call *call)
{
    program *found = find_by(call, call->length);
    if (!found || !found->by_value) return found;
    let_go(found);
    return find_by(call, length_with_values(call));
}

// Under the lock: empties a slot, and moves what would not be found any more.
static void take_out(program **slot)
{
    program *p = *slot;
    *slot = NULL;
    program_count--;
    p->next_forgotten = forgotten;
    forgotten = p;
    size_t mask = slot_count - 1;
    for (size_t at = (size_t)(slot - slots + 1) & mask; slots[at]; at = (at + 1) & mask) {
        program *moved = slots[at];
        slots[at] = NULL;
        *slot_of(moved->hash, moved->key, moved->key_length) = moved;
    }
}

// Frees forgotten programs that no thread is at. With Python's lock.
static void free_forgotten(void)
{
    program *idle = NULL;
    pthread_mutex_lock(&lock);
    for (program **at = &forgotten; *at;) {
        program *p = *at;
        if (atomic_load_explicit(&p->users, memory_order_acquire)) {
            at = &p->next_forgotten;
            continue;
        }
        *at = p->next_forgotten;
        p->next_forgotten = idle;
        idle = p;
    }
    pthread_mutex_unlock(&lock);
    while (idle) {
        program *p = idle;
        idle = p->next_forgotten;
        Py_DECREF(p->object);
        free(p);
    }
}

// False when memory is short: the program is then looked up by Python again.
static bool add(program *p)
{
    pthread_mutex_lock(&lock);
    bool room = 2 * (program_count + 1) <= slot_count || grow();
    program **slot = room ? slot_of(p->hash, p->key, p->key_length) : NULL;
    bool fresh = slot && !*slot;
    if (fresh) {
        *slot = p;
        program_count++;
    }
    pthread_mutex_unlock(&lock);
    return fresh;
}

// ---- running

static bool gather_inputs(const program *p, const spyre_segment *segment, const glue_call *call,
                          uint64_t *out_addresses)
{
    for (uint32_t i = 0; i < p->input_count; i++) {
        storage *s = call->storages[p->inputs[i]];
        if (!executable_input(segment, i, p->card, s, &out_addresses[i])) return false;
    }
    return true;
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

static bool launch(const program *p, const glue_call *call, AtenTensorHandle *outputs)
{
    const spyre_segment *segment = spyre_executable_segment(p->executable, 0);
    uint64_t inputs[MOST_INPUTS], buffers[GLUE_MOST_RESULTS];
    if (!device_context() || !gather_inputs(p, segment, call, inputs)) return false;
    for (uint32_t i = 0; i < segment->output_count && !p->in_place; i++)
        if (!executable_output(segment, i, p->card, &outputs[i], buffers)) return false;
    return executable_start(p->executable, 0, p->card, inputs, buffers, call->scalars);
}

// Whether another tensor of the call lies in the memory of the one that is written: eager.py then
// asks PyTorch's rules of overlap, which no key knows.
static bool shares_written(const program *p, const glue_call *call)
{
    const storage *written = call->storages[p->written];
    for (uint32_t i = 0; i < call->tensor_count; i++)
        if (i != (uint32_t)p->written && storage_is_over(call->storages[i], written)) return true;
    return false;
}

// Inputs that this program copies into another layout each time get that layout. The call has then
// another key, which it has not been written for.
static bool move_inputs(const program *p, glue_call *call, bool *out_failed)
{
    const spyre_segment *segment = spyre_executable_segment(p->executable, 0);
    bool moved;
    for (uint32_t i = 0; i < p->input_count; i++) {
        storage *s = call->storages[p->inputs[i]];
        if (!executable_move_input(segment, i, s, false, &moved)) return *out_failed = true;
        if (moved) call->known = false;
    }
    return !call->known;
}

// The results in the operator's order, those without elements made anew.
static bool order_results(const program *p, const AtenTensorHandle *outputs, void **results)
{
    const int64_t size = 0, stride = 1;
    int32_t dtype;
    bool ok = p->result_count == 0 || core_shim(aoti_torch_get_dtype(outputs[0], &dtype));
    for (uint32_t i = 0; ok && i < p->result_count; i++) {
        AtenTensorHandle empty;
        bool made = p->results[i] == EMPTY_RESULT;
        ok = !made || tensor_create(1, &size, &stride, dtype, p->card, &empty);
        if (ok) results[i] = made ? empty : outputs[p->results[i]];
    }
    return ok;
}

static int run(const program *p, glue_call *call)
{
    AtenTensorHandle outputs[GLUE_MOST_RESULTS] = {NULL};
    bool ok = launch(p, call, outputs);
    if (ok && p->written >= 0 && !p->in_place)
        ok = write_result(call->tensors[p->written], outputs[0]);
    ok = ok && (p->written >= 0 || order_results(p, outputs, call->results));
    if (!ok || p->written >= 0) {
        for (uint32_t i = 0; i < GLUE_MOST_RESULTS; i++)
            if (outputs[i]) aoti_torch_delete_tensor_object(outputs[i]);
    }
    if (!ok) return FAILED;
    call->written = p->written >= 0 ? call->tensors[p->written] : NULL;
    return (int)p->result_count;
}

// The number of results; ASK_PYTHON, FAILED.
static int start(const program *p, glue_call *call)
{
    bool failed = false;
    if (p->written >= 0 && shares_written(p, call)) return ASK_PYTHON;
    if (p->prefers && move_inputs(p, call, &failed)) return failed ? FAILED : ASK_PYTHON;
    return run(p, call);
}

int eager_run(glue_call *call)
{
    if (call->rules && call->number_count) settle_scalars(call);
    program *p = call->known ? find(call) : NULL;
    if (!p) return ASK_PYTHON;
    int results = start(p, call);
    let_go(p);
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

// Results: an index of the segment's outputs, or -1 for one without elements.
static bool take_results(PyObject *list, program *p, uint32_t outputs)
{
    int64_t values[GLUE_MOST_RESULTS];
    Py_ssize_t count = PySequence_Size(list);
    uint32_t present = 0;
    if (count < 0 || count > GLUE_MOST_RESULTS || outputs > GLUE_MOST_RESULTS) return false;
    if (core_ints(list, values, GLUE_MOST_RESULTS, "remember") < 0) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (values[i] < -1 || values[i] >= outputs) return false;
        p->results[i] = values[i] < 0 ? EMPTY_RESULT : (uint8_t)values[i];
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
static bool take_inputs(PyObject *tuple, const glue_call *call, program *p)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0 || count > MOST_INPUTS) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        int place = operand_of(call, PyTuple_GetItem(tuple, i));
        if (place < 0) return false;
        p->inputs[i] = (uint8_t)place;
    }
    p->input_count = (uint32_t)count;
    return true;
}

// note_scalars(rules): the operator that PyTorch is calling takes numbers as parameters by these
// rules, one byte an argument.
static PyObject *py_note_scalars(PyObject *self, PyObject *rules)
{
    (void)self;
    char *bytes;
    Py_ssize_t count;
    if (PyBytes_AsStringAndSize(rules, &bytes, &count) < 0) return NULL;
    if (!current || count == 0 || current->rules) Py_RETURN_NONE;
    if (!add_rules(current->op, bytes, (size_t)count)) return PyErr_NoMemory();
    current->rules = rules_of(current->op);
    if (current->rules) settle_scalars(current);
    Py_RETURN_NONE;
}

// Notes that the program of such a call depends on the values of its numbers.
static void note_by_value(const glue_call *call, PyObject *object)
{
    program *p = calloc(1, sizeof *p + call->length);
    if (!p) return;
    p->hash = hash_key(call, call->length);
    p->key_length = call->length;
    p->by_value = true;
    p->object = object;         // it goes with the program
    Py_INCREF(object);
    memcpy(p->key, call->key, call->length);
    if (add(p)) return;
    Py_DECREF(object);
    free(p);
}

// remember(executable, inputs, results, written, scalars): the operator that PyTorch is calling
// launches segment 0 of the executable with the tensors `inputs`, if all are the call's own;
// `results` are indices of its outputs, -1 for a result of size [0] and the dtype of the first one;
// `written` is the tensor that takes the only result, or None; `scalars` numbers of the call are
// parameters.
static PyObject *py_remember(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object, *inputs, *results, *written;
    unsigned scalars;
    if (!PyArg_ParseTuple(args, "OO!OOI", &object, &PyTuple_Type, &inputs, &results, &written,
                          &scalars))
        return NULL;
    spyre_executable *executable = executable_of_object(object);
    if (!executable) return NULL;
    const glue_call *call = current;
    if (!call || !call->known || call->tensor_count == 0) Py_RETURN_NONE;
    const spyre_segment *segment = spyre_executable_segment(executable, 0);
    if (scalars && scalars != call->scalar_count) Py_RETURN_NONE;
    bool by_value = call->scalar_count > scalars;
    uint32_t length = by_value ? length_with_values(call) : call->length;
    program *p = calloc(1, sizeof *p + length);
    if (!p) return PyErr_NoMemory();
    p->hash = hash_key(call, length);
    p->key_length = length;
    p->card = call->storages[0]->card;
    p->executable = executable;
    p->object = object;
    p->prefers = executable_prefers(segment);
    p->written = written == Py_None ? -1 : operand_of(call, written);
    memcpy(p->key, call->key, length);
    int32_t there = segment->output_count == 1 ? segment->outputs[0].input : -1;
    bool fits = take_inputs(inputs, call, p) &&
                take_results(results, p, segment->output_count) &&
                (there >= 0 || executable_owns_outputs(segment)) &&
                p->input_count == segment->input_count &&
                (written == Py_None || (p->written >= 0 && p->result_count == 1));
    p->in_place = fits && there >= 0;
    fits = fits && (there < 0 || p->inputs[there] == p->written);
    for (uint32_t i = 0; i < call->tensor_count; i++)
        fits = fits && call->storages[i]->card == p->card;
    if (PyErr_Occurred()) PyErr_Clear();
    Py_INCREF(object);
    if (!fits || !add(p)) {
        Py_DECREF(object);
        free(p);
    }
    if (fits && by_value) note_by_value(call, object);
    free_forgotten();
    Py_RETURN_NONE;
}

// register_operator(name): calls of the aten operator look for a program here first, then go on to
// its kernel of the key PrivateUse2. "" does so for all operators without a kernel.
static PyObject *py_register_operator(PyObject *self, PyObject *name)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    if (!glue_register_operator(text)) return NULL;
    Py_RETURN_NONE;
}

// forget_program(executable, always): no operator launches it any more; with `always` false, and
// when one has since the last time this was asked, only the note of that goes. Whether it is
// forgotten.
static PyObject *py_forget_program(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object;
    int always;
    if (!PyArg_ParseTuple(args, "Op", &object, &always)) return NULL;
    bool used = false;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < slot_count && !always; at++)
        if (slots[at] && slots[at]->object == object)
            used = atomic_exchange(&slots[at]->used, false) || used;
    for (size_t at = 0; at < slot_count && !used;)
        if (slots[at] && slots[at]->object == object) take_out(&slots[at]);
        else at++;
    pthread_mutex_unlock(&lock);
    free_forgotten();
    return PyBool_FromLong(!used);
}

// trace_attention(whole): whether graphs that this thread traces keep attention with gradients one
// node, whose gradient the tracer then takes apart. Gives what held before.
static PyObject *py_trace_attention(PyObject *self, PyObject *whole)
{
    (void)self;
    int wanted = PyObject_IsTrue(whole);
    return wanted < 0 ? NULL : PyBool_FromLong(glue_trace_attention(wanted));
}

// forget_operators(): every operator asks Python again.
static PyObject *py_forget_operators(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < slot_count; at++) {
        if (!slots[at]) continue;
        slots[at]->next_forgotten = forgotten;
        forgotten = slots[at];
        slots[at] = NULL;
    }
    program_count = 0;
    pthread_mutex_unlock(&lock);
    free_forgotten();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"remember", py_remember, METH_VARARGS,
     "(executable, inputs, results, written, scalars) -> None"},
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
