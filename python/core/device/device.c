// SPDX-License-Identifier: Apache-2.0
//
// The one context of the process, the current card of a thread and its streams.
//
// The runtime starts with the first call that needs a card, never with an import. A child of fork()
// and a compile worker of PyTorch share no card with their parent: there the device is refused.
#include "core.h"

#include "spyre/device.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool profiling;              // records are wanted, as soon as there is a context
static _Atomic(spyre_context *) context_of_process;
static int requested_device = -1; // set_device() before the start
static int first_device;
static uint32_t cards_of_context;
static bool forked;
static PyObject *_Atomic completion; // of the registration with PyTorch, by Python
static _Thread_local int device_of_thread = -1;
static _Thread_local uint32_t stream_of_thread[CORE_MAX_CARDS];

// Distinct valid indices of the comma list; -1 when the variable is unset.
// The text of a variable; null when it is unset or empty, which mean the same.
static const char *variable_text(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

static int listed_devices(const char *text)
{
    if (!text) return -1;
    bool seen[CORE_MAX_CARDS] = {false};
    int count = 0;
    while (*text) {
        char *end;
        long index = strtol(text, &end, 10);
        if (end == text) {
            text++;
            continue;
        }
        text = end;
        if (index < 0 || index >= CORE_MAX_CARDS || seen[index]) continue;
        seen[index] = true;
        count++;
    }
    return count;
}

static bool check_list(void)
{
    const char *given = variable_text("SPYRE_DEVICES");
    bool good = !given || !given[strspn(given, "0123456789, ")];
    for (const char *at = given; good && at && *at; at += strspn(at, "0123456789")) {
        at += strspn(at, ", ");
        good = !*at || strtol(at, NULL, 10) < CORE_MAX_CARDS;
    }
    return good || core_fail(SPYRE_INVALID_ARGUMENT,
                             "SPYRE_DEVICES=%s: expected numbers of cards, 0 to %d, between "
                             "commas, as in 0,2",
                             given, CORE_MAX_CARDS - 1);
}

// A whole number of the environment; `*out` stays when the variable is not set.
static bool read_number(const char *variable, long lowest, const char *rule, long *out)
{
    const char *given = variable_text(variable);
    if (!given) return true;
    char *end;
    errno = 0;
    long value = strtol(given, &end, 10);
    bool plain = *given >= '0' && *given <= '9' && !*end && !errno;
    if (!plain || value < lowest)
        return core_fail(SPYRE_INVALID_ARGUMENT, "%s=%s: expected %s", variable, given, rule);
    *out = value;
    return true;
}

static bool read_world_size(long *out)
{
    const char *rule = "the number of cards, 1 to 8";
    _Static_assert(CORE_MAX_CARDS == 8, "the rule names it");
    return read_number("AIU_WORLD_SIZE", 1, rule, out) &&
           (*out <= CORE_MAX_CARDS ||
            core_fail(SPYRE_INVALID_ARGUMENT, "AIU_WORLD_SIZE=%s: expected %s",
                      getenv("AIU_WORLD_SIZE"), rule));
}

// More processes than cards take turns, unless somebody said how many cards there are.
static bool read_rank(long *out)
{
    if (!read_number("LOCAL_RANK", 0, "the number of a card, 0 or more", out)) return false;
    if (!variable_text("AIU_WORLD_SIZE") && !variable_text("SPYRE_DEVICES"))
        *out %= CORE_MAX_CARDS;
    return true;
}

// Of torchrun: as many processes on this host, a card each.
static bool read_local_size(long *out)
{
    return read_number("LOCAL_WORLD_SIZE", 1, "the number of processes, 1 or more", out);
}

// SPYRE_DEVICES lists the cards in use, AIU_WORLD_SIZE caps (or, alone, gives) their number.
// Without both there are as many as processes of the host, at least up to this one's.
static uint32_t configured_count(void)
{
    int listed = listed_devices(variable_text("SPYRE_DEVICES"));
    long cap = 0, alone = 1, rank = 0;
    if (!read_world_size(&cap)) cap = 0; // start() complains
    if (!read_local_size(&alone)) alone = 1;
    if (read_rank(&rank) && rank >= alone) alone = rank + 1;
    long count = listed >= 0 ? listed : alone;
    if (cap > 0) count = listed >= 0 && listed < cap ? listed : cap;
    return (uint32_t)(count > CORE_MAX_CARDS ? CORE_MAX_CARDS : count);
}

bool device_started(void)
{
    return context_of_process != NULL && !forked;
}

uint32_t device_count(void)
{
    return device_started() ? cards_of_context : configured_count();
}

bool device_check(int64_t card)
{
    uint32_t count = device_count();
    return (card >= 0 && card < count) ||
           core_fail(SPYRE_INVALID_ARGUMENT,
                     "invalid device ordinal %lld: this process uses %u spyre device(s)",
                     (long long)card, count);
}

// Of Inductor's compiler: it makes programs and never runs any.
static bool is_compile_worker(void)
{
    const char *worker = getenv("IS_INDUCTOR_SPAWNED_SUBPROCESS");
    return worker && strcmp(worker, "1") == 0;
}

bool device_is_forked(void)
{
    return forked || is_compile_worker();
}

static void mark_forked(void)
{
    if (context_of_process) forked = true;
}

// Variables that choose a card for other runtimes. Here every kind is the emulated card, so they
// change nothing, but what no runtime takes is a mistake of the caller.
static const struct {
    const char *variable, *rule, *values[6];
} kinds[] = {
    {"FLEX_DEVICE", "PF, VF, VFIO, COMPILE or MOCK, which a version may follow",
     {"PF", "VF", "VFIO", "COMPILE", "MOCK", NULL}},
    {"FLEX_COMPUTE", "SENTIENT, SENULATOR or NULL", {"SENTIENT", "SENULATOR", "NULL", NULL}},
};

static bool check_kinds(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *given = variable_text(kinds[i].variable);
        bool known = !given;
        for (size_t k = 0; !known && kinds[i].values[k]; k++)
            known = strcmp(given, kinds[i].values[k]) == 0;
        known = known || (i == 0 && strncmp(given, "MOCK", 4) == 0); // MOCK1p0
        if (!known)
            return core_fail(SPYRE_INVALID_ARGUMENT, "%s=%s: expected %s", kinds[i].variable, given,
                             kinds[i].rule);
    }
    return true;
}

static bool start(void)
{
    if (is_compile_worker())
        return core_fail(SPYRE_IO,
                         "a worker of the compiler (IS_INDUCTOR_SPAWNED_SUBPROCESS=1) has no "
                         "spyre device");
    if (forked)
        return core_fail(SPYRE_IO, // of the process, no argument's: RuntimeError in every operator
                         "Cannot use spyre in a forked subprocess: start it with 'spawn'");
    long rank = 0, size = 0;
    long processes = 0;
    if (!read_world_size(&size) || !read_local_size(&processes) || !read_rank(&rank) ||
        !check_list() || !check_kinds())
        return false;
    uint32_t count = configured_count();
    if (count == 0)
        return core_fail(SPYRE_NOT_FOUND, "no spyre device: SPYRE_DEVICES=%s lists none of 0..%d",
                         getenv("SPYRE_DEVICES"), CORE_MAX_CARDS - 1);
    long device = requested_device >= 0 ? requested_device : rank;
    if (device >= (long)count)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "invalid device ordinal %ld: this process uses %u spyre device(s)%s",
                         device, count, requested_device >= 0 ? "" : " (LOCAL_RANK)");
    spyre_context *created = NULL;
    if (!core_check(spyre_context_create(count, &created))) return false;
    first_device = (int)device;
    cards_of_context = count;
    context_of_process = created;
    spyre_set_interrupt(core_interrupted);
    spyre_set_caller(core_caller);
    core_use_pytorch_threads();
    if (profiling) spyre_profile_enable(created, true);
    return true;
}

static PyObject *py_complete(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    PyObject *function = completion;
    if (!function) Py_RETURN_NONE;
    Py_INCREF(function); // the call drops it
    PyObject *result = PyObject_CallNoArgs(function);
    Py_DECREF(function);
    return result;
}

// A ValueError is what the environment says that it must not; other errors are printed, since
// callers have no traceback.
static void fail_completion(void)
{
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Print();
        core_fail(SPYRE_INTERNAL, "the device could not be registered with PyTorch: the error "
                                  "above says why");
        return;
    }
    PyErr_Fetch(&type, &value, &trace);
    PyObject *said = value ? PyObject_Str(value) : NULL;
    const char *words = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
    core_fail(SPYRE_INVALID_ARGUMENT, "%s", words ? words : "a variable of the environment");
    Py_XDECREF(said);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyErr_Clear();
}

// The same for callers outside of Python.
static bool complete_registration(void)
{
    if (!completion) return true;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *result = py_complete(NULL, NULL);
    bool ok = result;
    if (!ok) {
        fail_completion();
    }
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return ok;
}

spyre_context *device_context(void)
{
    spyre_context *context = context_of_process;
    if (context && !forked) return context;
    if (!complete_registration()) return NULL; // without the lock: it takes the interpreter's
    pthread_mutex_lock(&start_lock);
    bool ok = context_of_process && !forked ? true : start();
    pthread_mutex_unlock(&start_lock);
    return ok ? context_of_process : NULL;
}

bool device_open(void)
{
    return device_context() != NULL;
}

void device_profile(bool enabled)
{
    pthread_mutex_lock(&start_lock);
    profiling = enabled;
    if (device_started()) spyre_profile_enable(context_of_process, enabled);
    pthread_mutex_unlock(&start_lock);
}

int device_current(void)
{
    if (device_of_thread >= 0) return device_of_thread;
    if (device_started()) return first_device;
    if (requested_device >= 0) return requested_device;
    long rank = 0;
    return read_rank(&rank) && rank < (long)device_count() ? (int)rank : 0;
}

bool device_set_current(int index)
{
    // Before the start any number that a card can have: start() complains.
    if ((index < 0 || device_started()) && !device_check(index)) return false;
    if (!device_started()) requested_device = index;
    device_of_thread = index;
    return true;
}

bool device_synchronize(int card)
{
    if (!device_started() && !device_is_forked()) return true;
    spyre_context *context = device_context();
    uint32_t which = (uint32_t)(card < 0 ? device_current() : card);
    return context && core_check(spyre_card_synchronize(context, which));
}

void device_cancel(void)
{
    for (uint32_t card = 0; device_started() && card < cards_of_context; card++)
        spyre_card_cancel(context_of_process, card);
}

uint32_t stream_current(uint32_t card)
{
    return stream_of_thread[card];
}

uint32_t stream_exchange(uint32_t card, uint32_t stream)
{
    uint32_t before = stream_of_thread[card];
    stream_of_thread[card] = stream;
    return before;
}

// ---- Python methods

static PyObject *py_start_runtime(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    if (!device_context()) return core_raise_runtime();
    Py_RETURN_NONE;
}

static PyObject *py_free_runtime(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    // Tensors may outlive this call, so the cards stay; what is under way is finished.
    for (uint32_t card = 0; device_started() && card < device_count(); card++)
        if (!core_check(spyre_card_synchronize(device_context(), card))) return core_raise();
    Py_RETURN_NONE;
}

// _leave(): the process ends; handlers of signals are no longer called.
static PyObject *py_leave(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    spyre_set_interrupt(NULL);
    Py_BEGIN_ALLOW_THREADS
    device_cancel();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *py_is_started(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(device_started());
}

static PyObject *py_is_forked(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(device_is_forked());
}

static PyObject *py_device_count(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    long world = 0;
    bool ok = read_world_size(&world) && check_list();
    return ok ? PyLong_FromUnsignedLong(device_count()) : core_raise();
}

static PyObject *py_current_device(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLong(device_current());
}

static PyObject *py_set_device(PyObject *Py_UNUSED(self), PyObject *index)
{
    long value = PyLong_AsLong(index);
    if (value == -1 && PyErr_Occurred()) return NULL;
    if (value != (int)value) {
        PyErr_Format(PyExc_RuntimeError, "invalid device ordinal %ld", value);
        return NULL;
    }
    if (!device_set_current((int)value)) return core_raise_runtime();
    Py_RETURN_NONE;
}

static PyObject *py_card_constants(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    PyObject *constants = PyDict_New();
    const spyre_card_constant *row;
    for (uint32_t i = 0; constants && (row = spyre_card_constant_at(i)); i++) {
        PyObject *value = PyFloat_FromDouble(row->value);
        if (!value || PyDict_SetItemString(constants, row->name, value) < 0) Py_CLEAR(constants);
        Py_XDECREF(value);
    }
    return constants;
}

// _on_first_use(function or None): what py_complete() calls until it is None.
static PyObject *py_on_first_use(PyObject *Py_UNUSED(self), PyObject *function)
{
    PyObject *before = completion;
    completion = function == Py_None ? NULL : Py_NewRef(function);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_card_constants", py_card_constants, METH_NOARGS, "Geometry and timing by name: numbers."},
    {"_on_first_use", py_on_first_use, METH_O, NULL},
    {"_complete", py_complete, METH_NOARGS,
     "Registers with PyTorch what only programs of the device need; once."},
    {"start_runtime", py_start_runtime, METH_NOARGS, "Opens the cards of this process."},
    {"free_runtime", py_free_runtime, METH_NOARGS, "Waits for everything that is under way."},
    {"_leave", py_leave, METH_NOARGS, "Drops what is queued, as the process ends."},
    {"is_started", py_is_started, METH_NOARGS, NULL},
    {"is_in_bad_fork", py_is_forked, METH_NOARGS, NULL},
    {"device_count", py_device_count, METH_NOARGS, "Cards in use; opens none."},
    {"current_device", py_current_device, METH_NOARGS,
     "The number of this thread's current card; opens none."},
    {"set_device", py_set_device, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

bool device_register(PyObject *module)
{
    pthread_atfork(NULL, NULL, mark_forked);
    return PyModule_AddFunctions(module, methods) == 0;
}
