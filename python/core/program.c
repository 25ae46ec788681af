// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode directories from Python: prepare_kernel(), launch_jobplan(), launch_kernel().
//
// The tensors are bound by their bytes as the card lays them out, in the order of the launch
// arguments, and come back changed.
#include "core.h"

#include <stdlib.h>

#include "spyre/program.h"

typedef struct {
    PyObject_HEAD spyre_program *program;
} plan_object;

static PyTypeObject *plan_type;

static spyre_program *of(PyObject *self)
{
    return ((plan_object *)self)->program;
}

static void plan_free(PyObject *self)
{
    spyre_program_close(of(self));
    object_free(self);
}

static PyObject *open_plan(const char *directory)
{
    spyre_program *program;
    if (!core_check(spyre_program_open(directory, &program))) return core_raise();
    PyObject *plan = object_new(plan_type);
    if (plan)
        ((plan_object *)plan)->program = program;
    else
        spyre_program_close(program);
    return plan;
}

// prepare_kernel(spyrecode_dir, stream=None) -> JobPlan. Constants go to the card with each launch,
// in the order of its stream.
static PyObject *py_prepare_kernel(PyObject *self, PyObject *args, PyObject *keywords)
{
    (void)self;
    static char *names[] = {"spyrecode_dir", "stream", NULL};
    const char *directory;
    PyObject *stream = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|O", names, &directory, &stream))
        return NULL;
    return open_plan(directory);
}

static PyObject *plan_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<JobPlan steps=%u job_allocation_size=%lld arguments=%u>",
                                spyre_program_step_count(of(self)),
                                (long long)spyre_program_allocation_bytes(of(self)),
                                spyre_program_argument_count(of(self)));
}

static PyObject *plan_argument_count(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(spyre_program_argument_count(of(self)));
}

static PyObject *plan_num_steps(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(spyre_program_step_count(of(self)));
}

static PyObject *plan_allocation_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(spyre_program_allocation_bytes(of(self)));
}

// get_step_type(index) -> "HostCompute", "H2D", "D2H" or "Compute"
static PyObject *plan_step_type(PyObject *self, PyObject *index)
{
    static const char *const NAMES[] = {
        [SPYRE_STEP_HOST_COMPUTE] = "HostCompute",
        [SPYRE_STEP_TO_CARD] = "H2D",
        [SPYRE_STEP_TO_HOST] = "D2H",
        [SPYRE_STEP_COMPUTE] = "Compute",
    };
    long number = PyLong_AsLong(index);
    uint32_t count = spyre_program_step_count(of(self));
    if (number == -1 && PyErr_Occurred()) return NULL;
    if (number < 0 || number >= (long)count)
        return PyErr_Format(PyExc_RuntimeError, "Step index out of range: %ld of %u steps", number,
                            count);
    return PyUnicode_FromString(NAMES[spyre_program_step_at(of(self), (uint32_t)number)]);
}

// ---- launches

typedef struct {
    const spyre_program *program;
    uint32_t count;
    storage **storages;
    spyre_program_buffer *buffers;
} binding;

static void binding_free(binding *b)
{
    for (uint32_t i = 0; b->buffers && i < b->count; i++) free(b->buffers[i].bytes);
    free(b->buffers);
    free(b->storages);
}

static bool bind_tensor(binding *b, uint32_t index, PyObject *tensor)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return false;
    if (!t.storage || !tensor_settle(&t))
        return core_fail(SPYRE_INVALID_ARGUMENT, "argument %u of a launch is not on the card",
                         index);
    int64_t bytes = t.storage->card_bytes;
    int64_t wanted = spyre_program_argument_bytes(b->program, index);
    if (wanted && wanted != bytes)
        return core_fail(
            SPYRE_INVALID_ARGUMENT,
            "argument %u of a launch has %lld bytes on the card, the program wants %lld", index,
            (long long)bytes, (long long)wanted);
    if (!core_check(spyre_program_check_argument(b->program, index, &t.storage->layout)))
        return false;
    b->storages[index] = t.storage;
    b->buffers[index] = (spyre_program_buffer){malloc((size_t)bytes), bytes};
    if (!b->buffers[index].bytes) return core_fail(SPYRE_OUT_OF_MEMORY, "no memory for a launch");
    return storage_read_raw(t.storage, b->buffers[index].bytes);
}

static bool run_bound(binding *b, PyObject *tensors)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (!bind_tensor(b, i, PyTuple_GetItem(tensors, (Py_ssize_t)i))) return false;
    spyre_context *context = device_context();
    uint32_t card = b->count ? b->storages[0]->card : (uint32_t)device_current();
    if (!context || !core_check(spyre_program_run(context, card, b->program, b->buffers)))
        return false;
    for (uint32_t i = 0; i < b->count; i++)
        if (!storage_write_raw(b->storages[i], b->buffers[i].bytes)) return false;
    return true;
}

// `tensors` is a tuple, which keeps them.
static bool run(const spyre_program *program, PyObject *tensors)
{
    binding b = {.program = program, .count = spyre_program_argument_count(program)};
    if (PyTuple_Size(tensors) != (Py_ssize_t)b.count)
        return core_fail(SPYRE_INVALID_ARGUMENT, "the program takes %u tensors, %zd were given",
                         b.count, PyTuple_Size(tensors));
    b.storages = calloc((size_t)b.count + 1, sizeof *b.storages);
    b.buffers = calloc((size_t)b.count + 1, sizeof *b.buffers);
    bool ok = b.storages && b.buffers ? run_bound(&b, tensors)
                                      : core_fail(SPYRE_OUT_OF_MEMORY, "no memory for a launch");
    binding_free(&b);
    return ok;
}

static bool launch(const spyre_program *program, PyObject *sequence)
{
    PyObject *tensors = PySequence_Tuple(sequence);
    bool ok = tensors && run(program, tensors);
    Py_XDECREF(tensors);
    return ok;
}

// launch_jobplan(job_plan, args)
static PyObject *py_launch_jobplan(PyObject *self, PyObject *args, PyObject *keywords)
{
    (void)self;
    static char *names[] = {"job_plan", "args", NULL};
    PyObject *plan, *tensors;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO", names, &plan, &tensors)) return NULL;
    if (!PyObject_TypeCheck(plan, plan_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a JobPlan of prepare_kernel()");
        return NULL;
    }
    if (!launch(of(plan), tensors)) return core_raise();
    Py_RETURN_NONE;
}

// launch_kernel(directory, tensors)
static PyObject *py_launch_kernel(PyObject *self, PyObject *args)
{
    (void)self;
    const char *directory;
    PyObject *tensors;
    if (!PyArg_ParseTuple(args, "sO", &directory, &tensors)) return NULL;
    PyObject *plan = open_plan(directory);
    if (!plan) return NULL;
    bool ok = launch(of(plan), tensors);
    Py_DECREF(plan);
    if (!ok) return core_raise();
    Py_RETURN_NONE;
}

// _card_bytes(tensor) -> bytes: the storage as it lies on the card.
static PyObject *py_card_bytes(PyObject *self, PyObject *tensor)
{
    (void)self;
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    if (!t.storage || !t.storage->typed) {
        PyErr_SetString(PyExc_RuntimeError, "expected a tensor of the spyre device");
        return NULL;
    }
    void *bytes = malloc((size_t)t.storage->card_bytes);
    if (!bytes) return PyErr_NoMemory();
    PyObject *result = NULL;
    if (storage_read_raw(t.storage, bytes))
        result = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)t.storage->card_bytes);
    else
        core_raise();
    free(bytes);
    return result;
}

static PyMethodDef plan_methods[] = {
    {"num_steps", plan_num_steps, METH_NOARGS, "Steps of a launch."},
    {"get_step_type", plan_step_type, METH_O, "(index) -> HostCompute, H2D, D2H or Compute"},
    {"job_allocation_size", plan_allocation_size, METH_NOARGS, "Bytes that the code asks for."},
    {"argument_count", plan_argument_count, METH_NOARGS, "Tensors that a launch binds."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, plan_free},
    {Py_tp_repr, plan_repr},
    {Py_tp_methods, plan_methods},
    {0, NULL},
};

static PyType_Spec spec = {"torch_spyre._C.JobPlan", sizeof(plan_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

static PyMethodDef methods[] = {
    {"prepare_kernel", (PyCFunction)(void (*)(void))py_prepare_kernel,
     METH_VARARGS | METH_KEYWORDS, "(spyrecode_dir, stream=None) -> JobPlan"},
    {"launch_jobplan", (PyCFunction)(void (*)(void))py_launch_jobplan,
     METH_VARARGS | METH_KEYWORDS, "(job_plan, args)"},
    {"launch_kernel", py_launch_kernel, METH_VARARGS, "(SpyreCode directory, tensors)"},
    {"_card_bytes", py_card_bytes, METH_O, "The storage of a tensor as it lies on the card."},
    {NULL, NULL, 0, NULL},
};

bool program_register(PyObject *module)
{
    plan_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return plan_type && PyModule_AddType(module, plan_type) == 0 &&
           PyModule_AddFunctions(module, methods) == 0;
}
