// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode directories from Python: prepare_kernel(), launch_jobplan(), launch_kernel().
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "spyre/program.h"

typedef struct {
    PyObject_HEAD spyre_program *program;
    PyObject *name;                     // of its compute steps before their number
    bool named;                         // by the caller
} plan_object;

static PyTypeObject *plan_type;

static spyre_program *of(PyObject *self)
{
    return ((plan_object *)self)->program;
}

static void plan_free(PyObject *self)
{
    for (uint32_t card = 0; device_started() && card < device_count(); card++)
        device_synchronize((int)card); // launches of it; errors stay their stream's
    spyre_program_close(of(self));
    Py_XDECREF(((plan_object *)self)->name);
    object_free(self);
}

// Characters of profiler names, torch-spyre's AIUPTI_ACTIVITY_NAME_MAX_BYTES.
enum { NAME_MOST = 127 };

// "<number>": a compute step's number, or the last step's.
static uint32_t compute_step(const spyre_program *program)
{
    uint32_t last = spyre_program_step_count(program) - 1;
    while (last > 0 && spyre_program_step_at(program, last) != SPYRE_STEP_COMPUTE) last--;
    return last;
}

static PyObject *step_name(PyObject *plan, uint32_t step)
{
    const char *own = spyre_program_step_name(of(plan), step);
    if (own && !((plan_object *)plan)->named) return PyUnicode_FromString(own);
    return PyUnicode_FromFormat("%U#%u", ((plan_object *)plan)->name, step);
}

// As torch-spyre does without a name: the last two folders, which tell the bundle.
static PyObject *directory_name(const char *directory)
{
    size_t length = strlen(directory), start;
    while (length > 1 && directory[length - 1] == '/') length--;
    int folders = 0;
    for (start = length; start > 0; start--)
        if (directory[start - 1] == '/' && ++folders == 2) break;
    PyObject *folder = PyUnicode_DecodeFSDefaultAndSize(directory + start,
                                                        (Py_ssize_t)(length - start));
    PyObject *name = folder ? PyUnicode_FromFormat("%U/bundle.mlir", folder) : NULL;
    Py_XDECREF(folder);
    return name;
}

static bool name_plan(PyObject *plan, const char *directory, const char *name)
{
    bool named = name && *name;
    PyObject *text = named ? PyUnicode_FromString(name) : directory_name(directory);
    ((plan_object *)plan)->name = text;
    ((plan_object *)plan)->named = named;
    PyObject *full = text ? step_name(plan, compute_step(of(plan))) : NULL;
    PyObject *bytes = full ? PyUnicode_AsUTF8String(full) : NULL;
    const char *label = bytes ? PyBytes_AsString(bytes) : NULL;
    bool ok = label != NULL;
    if (ok && named && strlen(label) > NAME_MOST) {
        PyErr_Format(PyExc_RuntimeError, "profiler-visible compute name exceeds AIUPTI limit: %zu "
                     "bytes with the step's number, at most %d are possible", strlen(label),
                     NAME_MOST);
        ok = false;
    }
    if (ok) spyre_program_set_name(of(plan), label);
    Py_XDECREF(bytes);
    Py_XDECREF(full);
    return ok;
}

static PyObject *open_plan(const char *directory, const char *name)
{
    spyre_program *program;
    if (!core_check(spyre_program_open(directory, &program))) return core_raise();
    PyObject *plan = object_new(plan_type);
    if (!plan) {
        spyre_program_close(program);
        return NULL;
    }
    ((plan_object *)plan)->program = program;
    if (!name_plan(plan, directory, name)) Py_CLEAR(plan);
    return plan;
}

// prepare_kernel(spyrecode_dir, stream=None, profiler_name=None) -> JobPlan. Constants go to the
// card with each launch, in the order of its stream.
static PyObject *py_prepare_kernel(PyObject *Py_UNUSED(self), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"spyrecode_dir", "stream", "profiler_name", NULL};
    const char *directory, *name = NULL;
    PyObject *stream = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|Oz", names, &directory, &stream, &name))
        return NULL;
    return open_plan(directory, name);
}

static PyObject *plan_repr(PyObject *self)
{
    return PyUnicode_FromFormat(
        "<JobPlan steps=%u job_allocation_size=%lld expected_inputs=%u pinned_buffers=%u>",
        spyre_program_step_count(of(self)), (long long)spyre_program_allocation_bytes(of(self)),
        spyre_program_argument_count(of(self)), spyre_program_pinned_buffers(of(self)));
}

static PyObject *plan_argument_count(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLong(spyre_program_argument_count(of(self)));
}

static PyObject *plan_num_steps(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLong(spyre_program_step_count(of(self)));
}

static PyObject *plan_allocation_size(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLongLong(spyre_program_allocation_bytes(of(self)));
}

// The step that `index` names; -1 with an exception otherwise.
static long take_step(PyObject *self, PyObject *index)
{
    long number = PyLong_AsLong(index);
    uint32_t count = spyre_program_step_count(of(self));
    if (number == -1 && PyErr_Occurred()) return -1;
    if (number >= 0 && number < (long)count) return number;
    PyErr_Format(PyExc_RuntimeError, "Step index out of range: %ld of %u steps", number, count);
    return -1;
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
    long step = take_step(self, index);
    if (step < 0) return NULL;
    return PyUnicode_FromString(NAMES[spyre_program_step_at(of(self), (uint32_t)step)]);
}

// get_step_name(index) -> the name of a compute step in profiles, else None
static PyObject *plan_step_name(PyObject *self, PyObject *index)
{
    long step = take_step(self, index);
    if (step < 0) return NULL;
    if (spyre_program_step_at(of(self), (uint32_t)step) != SPYRE_STEP_COMPUTE) Py_RETURN_NONE;
    return step_name(self, (uint32_t)step);
}

// get_step_pipeline_barrier(index) -> whether the step waits for what the card does before it
static PyObject *plan_step_barrier(PyObject *self, PyObject *index)
{
    long step = take_step(self, index);
    if (step < 0) return NULL;
    spyre_program_step kind = spyre_program_step_at(of(self), (uint32_t)step);
    return PyBool_FromLong(kind != SPYRE_STEP_HOST_COMPUTE);
}

// ---- launches

// The tensors that symbolic arguments name, by the function that Python adds to this module.
static PyObject *choose(PyObject *module, PyObject *tensors, PyObject *symbolic)
{
    PyObject *function = PyObject_GetAttrString(module, "_chosen_tensors");
    PyObject *chosen =
        function ? PyObject_CallFunctionObjArgs(function, tensors, symbolic, NULL) : NULL;
    Py_XDECREF(function);
    return chosen;
}

// launch_jobplan(job_plan, args, symbolic_args=[], allow_tiled_launch=True). Symbolic arguments say
// which of the tensors the program's arguments are, in its order.
static PyObject *py_launch_jobplan(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"job_plan", "args", "symbolic_args", "allow_tiled_launch", NULL};
    PyObject *plan, *tensors, *symbolic = NULL;
    int tiled = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|Op", names, &plan, &tensors, &symbolic,
                                     &tiled))
        return NULL;
    if (!PyObject_TypeCheck(plan, plan_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a JobPlan of prepare_kernel()");
        return NULL;
    }
    Py_ssize_t count = symbolic ? PyObject_Size(symbolic) : 0;
    if (count < 0) return NULL;
    PyObject *chosen = count ? choose(self, tensors, symbolic) : Py_NewRef(tensors);
    if (!chosen) return NULL;
    bool ok = spyrecode_launch(of(plan), chosen, tiled);
    Py_DECREF(chosen);
    if (!ok) return core_raise();
    Py_RETURN_NONE;
}

// ---- programs of directories, which are read once

static PyObject *plans;         // (directory, its inode and time) -> JobPlan

// The directory of the code: spyreCodeDir in `directory`, as torch-spyre passes it, or that itself.
// dxp makes a new one each time.
static bool find_code(const char *directory, char *out, size_t size, struct stat *out_file)
{
    int length = snprintf(out, size, "%s/spyreCodeDir", directory);
    if (length > 0 && (size_t)length < size && stat(out, out_file) == 0) return true;
    snprintf(out, size, "%s", directory);
    return stat(out, out_file) == 0;
}

// A new reference.
static PyObject *plan_of_directory(const char *directory)
{
    char path[4096];
    struct stat file;
    if (!find_code(directory, path, sizeof path, &file)) return open_plan(path, NULL);
    PyObject *key = Py_BuildValue("(sKLL)", path, (unsigned long long)file.st_ino,
                                  (long long)file.st_mtim.tv_sec, (long long)file.st_mtim.tv_nsec);
    PyObject *known = key ? PyDict_GetItemWithError(plans, key) : NULL;
    PyObject *plan = known || PyErr_Occurred() ? Py_XNewRef(known) : open_plan(path, NULL);
    if (plan && !known && PyDict_SetItem(plans, key, plan) < 0) Py_CLEAR(plan);
    Py_XDECREF(key);
    return plan;
}

// launch_kernel(directory, tensors)
static PyObject *py_launch_kernel(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *directory;
    PyObject *tensors;
    if (!PyArg_ParseTuple(args, "sO", &directory, &tensors)) return NULL;
    PyObject *plan = plan_of_directory(directory);
    if (!plan) return NULL;
    bool ok = spyrecode_launch(of(plan), tensors, true);
    Py_DECREF(plan);
    if (!ok) return core_raise();
    Py_RETURN_NONE;
}

// _card_address(tensor) -> where the storage lies on the card.
static PyObject *py_card_address(PyObject *Py_UNUSED(self), PyObject *tensor)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    if (!t.storage || !tensor_settle(&t)) {
        PyErr_SetString(PyExc_RuntimeError, "expected a tensor of the spyre device");
        return NULL;
    }
    if (!storage_own(t.storage)) return core_raise();
    return PyLong_FromUnsignedLongLong(t.storage->address);
}

// _card_bytes(tensor) -> bytes: the storage as it lies on the card.
static PyObject *py_card_bytes(PyObject *Py_UNUSED(self), PyObject *tensor)
{
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
    {"get_step_name", plan_step_name, METH_O, "(index) -> name of a compute step, else None"},
    {"get_step_pipeline_barrier", plan_step_barrier, METH_O,
     "(index) -> the step waits for the card"},
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
    {"prepare_kernel", (PyCFunction)(void (*)(void))py_prepare_kernel, METH_VARARGS | METH_KEYWORDS,
     "(spyrecode_dir, stream=None, profiler_name=None) -> JobPlan"},
    {"launch_jobplan", (PyCFunction)(void (*)(void))py_launch_jobplan, METH_VARARGS | METH_KEYWORDS,
     "(job_plan, args, symbolic_args=[], allow_tiled_launch=True)"},
    {"launch_kernel", py_launch_kernel, METH_VARARGS,
     "(SpyreCode directory or the one above, tensors)"},
    {"_launch_from_views", spyrecode_launch_from_views, METH_O,
     "Whether launches of directories take a view from where it begins, not its storage."},
    {"_card_address", py_card_address, METH_O, "Where the storage of a tensor lies on the card."},
    {"_card_bytes", py_card_bytes, METH_O, "The storage of a tensor as it lies on the card."},
    {NULL, NULL, 0, NULL},
};

bool spyrecode_register(PyObject *module)
{
    plan_type = (PyTypeObject *)PyType_FromSpec(&spec);
    plans = PyDict_New();
    return plan_type && plans && PyModule_AddType(module, plan_type) == 0 &&
           PyModule_AddFunctions(module, methods) == 0;
}
