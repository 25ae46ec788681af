// SPDX-License-Identifier: Apache-2.0
//
// Collectives of compiled graphs: what a node says is read once, when the graph is compiled; a
// start is then one call from Python, without operators of PyTorch in between. Results are
// registered with PyTorch as those of its functional collectives are, so either's wait serves the
// other's start.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <numeric>

#include "comm/comm_job.hpp"
#include "python_tensor.h"

namespace {

using spyreccl::Exchange;

constexpr auto kCapsule = "torch_spyre._C.Exchange";

// Without Python's lock for as long as it lives.
struct Unlocked {
    PyThreadState *state = PyEval_SaveThread();
    ~Unlocked() { PyEval_RestoreThread(state); }
};

// Sizes of the result: an all-gather's and a reduce-scatter's differ in dim 0.
std::vector<int64_t> result_sizes(const Exchange &e, const at::Tensor &input, int64_t ranks)
{
    auto sizes = input.sizes().vec();
    if (sizes.empty()) return sizes;
    if (e.kind == SPYRE_COMM_ALL_GATHER) sizes[0] *= ranks;
    if (e.kind == SPYRE_COMM_REDUCE_SCATTER) sizes[0] /= ranks;
    if (e.kind == SPYRE_COMM_ALL_TO_ALL && !e.receive_rows.empty())
        sizes[0] = std::accumulate(e.receive_rows.begin(), e.receive_rows.end(), int64_t{0});
    return sizes;
}

// The result, or an undefined tensor when the group's backend is another one.
at::Tensor start(const Exchange &e, at::Tensor input)
{
    at::NoGradGuard no_gradients;
    auto group = c10d::resolve_process_group(e.group);
    auto backend = group->getBackend(c10::DeviceType::PrivateUse1);
    auto *ours = dynamic_cast<spyreccl::GraphBackend *>(backend.get());
    if (!ours) return {};
    auto output = at::empty(result_sizes(e, input, group->getSize()), input.options());
    c10d::register_work(output, ours->exchange(e, output, input));
    return output;
}

std::vector<int64_t> numbers_of(PyObject *list)
{
    std::vector<int64_t> numbers;
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++)
        numbers.push_back(PyLong_AsLongLong(PyList_GetItem(list, i)));
    return numbers;
}

void release(PyObject *capsule)
{
    delete static_cast<Exchange *>(PyCapsule_GetPointer(capsule, kCapsule));
}

bool find_kind(const char *name, Exchange *e)
{
    for (int kind = 0; kind < SPYRE_COMM_KIND_COUNT; kind++) {
        e->kind = static_cast<spyre_comm_kind>(kind);
        if (!std::strcmp(name, spyre_comm_kind_name(e->kind))) return true;
    }
    return false;
}

bool find_reduction(const char *name, Exchange *e)
{
    for (int reduction = 0; reduction < SPYRE_REDUCE_COUNT; reduction++) {
        e->reduction = static_cast<spyre_reduction>(reduction);
        if (!std::strcmp(name, spyre_reduction_name(e->reduction))) return true;
    }
    return false;
}

PyObject *plan(PyObject *, PyObject *args)
{
    const char *kind, *reduction, *group;
    long long root;
    PyObject *receives, *sends;
    if (!PyArg_ParseTuple(args, "sssLO!O!", &kind, &group, &reduction, &root, &PyList_Type,
                          &receives, &PyList_Type, &sends))
        return nullptr;
    auto e = std::make_unique<Exchange>();
    if (!find_kind(kind, e.get()) || !find_reduction(reduction, e.get()))
        return PyErr_Format(PyExc_ValueError, "no exchange %s of %s", kind, reduction);
    e->group = group;
    e->root = root;
    e->receive_rows = numbers_of(receives);
    e->send_rows = numbers_of(sends);
    if (PyErr_Occurred()) return nullptr;
    PyObject *capsule = PyCapsule_New(e.get(), kCapsule, release);
    if (capsule) e.release();
    return capsule;
}

const at::Tensor *tensor_of(PyObject *object)
{
    auto *tensor = static_cast<const at::Tensor *>(glue_from_python(object));
    if (!tensor) PyErr_SetString(PyExc_TypeError, "an exchange takes a torch.Tensor");
    return tensor;
}

PyObject *py_start(PyObject *, PyObject *args)
{
    PyObject *capsule, *object;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &object)) return nullptr;
    auto *e = static_cast<const Exchange *>(PyCapsule_GetPointer(capsule, kCapsule));
    auto *input = e ? tensor_of(object) : nullptr;
    if (!input) return nullptr;
    at::Tensor output;
    try {
        Unlocked unlocked;
        output = start(*e, *input);
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
        return nullptr;
    }
    if (output.defined()) return THPVariable_Wrap(std::move(output));
    Py_INCREF(Py_None);
    return Py_None;
}

PyObject *py_wait(PyObject *, PyObject *object)
{
    auto *tensor = tensor_of(object);
    if (!tensor) return nullptr;
    try {
        Unlocked unlocked;
        c10d::wait_tensor(*tensor);
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
        return nullptr;
    }
    Py_INCREF(object);
    return object;
}

// `count` elements of spyre/comm.h are one rank's part of what some operations read.
PyObject *py_price(PyObject *, PyObject *args)
{
    PyObject *capsule;
    long long bytes;
    if (!PyArg_ParseTuple(args, "OL", &capsule, &bytes)) return nullptr;
    auto *e = static_cast<const Exchange *>(PyCapsule_GetPointer(capsule, kCapsule));
    if (!e) return nullptr;
    spyre_exchange_info info{};
    try {
        info.ranks = static_cast<uint32_t>(c10d::resolve_process_group(e->group)->getSize());
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
        return nullptr;
    }
    bool parts = e->kind == SPYRE_COMM_REDUCE_SCATTER || e->kind == SPYRE_COMM_ALL_TO_ALL;
    info.kind = e->kind;
    info.bytes = parts ? bytes / info.ranks : bytes;
    return Py_BuildValue("(Id)", info.ranks, spyre_exchange_us(&info));
}

PyMethodDef methods[] = {
    {"exchange_plan", plan, METH_VARARGS,
     "(kind, group, reduction, root, receive_rows, send_rows) -> what exchange_start() takes"},
    {"exchange_start", py_start, METH_VARARGS,
     "(plan, tensor) -> the result, to be waited for; None when the group has another backend"},
    {"exchange_price", py_price, METH_VARARGS,
     "(plan, bytes of the input) -> (ranks, modelled microseconds)"},
    {"exchange_wait", py_wait, METH_O, "Waits for what has made the tensor, and returns it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

extern "C" bool comm_graph_register(void *module)
{
    return PyModule_AddFunctions(static_cast<PyObject *>(module), methods) == 0;
}
