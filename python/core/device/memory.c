// SPDX-License-Identifier: Apache-2.0
//
// The memory of cards as the runtime counts it, for Python and for PyTorch's allocator.
#include "core.h"

#include "spyre/device.h"

spyre_memory_statistics memory_statistics(uint32_t card)
{
    spyre_memory_statistics now = {0};
    if (device_started()) spyre_memory_read_statistics(device_context(), card, &now);
    return now;
}

void memory_reset_peak(uint32_t card)
{
    if (device_started()) spyre_memory_reset_peak(device_context(), card);
}

void memory_reset_totals(uint32_t card)
{
    if (device_started()) spyre_memory_reset_totals(device_context(), card);
}

// What forgets programs, a callable of Python, and calls it. An error is no reason to keep memory.
static PyObject *forgets;

static void forget_programs(void)
{
    if (!forgets || !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunctionObjArgs(forgets, NULL);
    if (!result) PyErr_WriteUnraisable(forgets);
    Py_XDECREF(result);
    PyGILState_Release(state);
}

static PyObject *py_on_empty_cache(PyObject *Py_UNUSED(self), PyObject *callable)
{
    if (!PyCallable_Check(callable))
        return PyErr_Format(PyExc_TypeError, "expected a function without arguments, not %R",
                            callable);
    Py_INCREF(callable);
    Py_XDECREF(forgets);
    forgets = callable;
    Py_RETURN_NONE;
}

void memory_empty_caches(void)
{
    forget_programs();
    for (uint32_t card = 0; device_started() && card < device_count(); card++)
        spyre_memory_empty_cache(device_context(), card);
}

// ---- Python methods; without an argument, or with -1, of the current card

static bool card_argument(PyObject *args, uint32_t *out_card)
{
    int card = -1;
    if (!PyArg_ParseTuple(args, "|i", &card)) return false;
    if (card == -1) card = device_current();
    *out_card = (uint32_t)card;
    return device_check(card) || core_raise_runtime();
}

static PyObject *py_statistics(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card;
    if (!card_argument(args, &card)) return NULL;
    spyre_memory_statistics now = memory_statistics(card);
    return Py_BuildValue(
        "{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "allocated_bytes.all.current",
        (long long)now.allocated_bytes, "allocated_bytes.all.peak", (long long)now.peak_bytes,
        "reserved_bytes.all.current", (long long)now.reserved_bytes, "reserved_bytes.all.peak",
        (long long)now.peak_reserved_bytes, "allocation.all.current",
        (long long)now.allocation_count, "allocation.all.allocated",
        (long long)now.total_allocations, "allocation.all.freed", (long long)now.total_frees,
        "limit_bytes", (long long)now.limit_bytes, "cache_limit_bytes",
        (long long)now.cache_limit_bytes);
}

static PyObject *py_reset_peak(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card;
    if (!card_argument(args, &card)) return NULL;
    memory_reset_peak(card);
    Py_RETURN_NONE;
}

static PyObject *py_reset_totals(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card;
    if (!card_argument(args, &card)) return NULL;
    memory_reset_totals(card);
    Py_RETURN_NONE;
}

// check_room(name, dtype, elements): raises OutOfMemoryError when they exceed a segment.
static PyObject *py_check_room(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *name;
    PyObject *object;
    long long elements;
    spyre_dtype dtype;
    spyre_layout layout;
    if (!PyArg_ParseTuple(args, "sOL", &name, &object, &elements)) return NULL;
    if (!dtype_of_object(object, &dtype)) Py_RETURN_NONE;       // not of the card
    const int64_t size[] = {elements};
    spyre_status unknown = spyre_layout_default(size, 1, dtype, &layout);
    int64_t bytes = unknown ? 0 : spyre_layout_bytes(&layout);
    spyre_status_free(unknown);
    int64_t most = (int64_t)spyre_card_constant_named("SEGMENT_BYTES")->value;
    if (bytes <= most) Py_RETURN_NONE;
    core_fail(SPYRE_OUT_OF_MEMORY,
              "%s: a result takes %lld bytes of card memory, a segment has %lld", name,
              (long long)bytes, (long long)most);
    return core_raise();
}

// chunks(tensor) -> [(region, offset, bytes, domain)] of its storage's memory
static PyObject *py_chunks(PyObject *Py_UNUSED(self), PyObject *tensor)
{
    spyre_chunk chunks[SPYRE_MEMORY_DOMAINS];
    uint32_t count;
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return core_raise();
    if (!t.storage || !tensor_settle(&t)) {
        core_fail(SPYRE_INVALID_ARGUMENT, "a composite address is that of a tensor on the card");
        return core_raise();
    }
    if (!core_check(spyre_memory_chunks(device_context(), t.storage->card, t.storage->address,
                                        chunks, &count)))
        return core_raise();
    CORE_RETURN_LIST(count, Py_BuildValue("(IKLI)", chunks[i].region,
                                          (unsigned long long)chunks[i].offset,
                                          (long long)chunks[i].bytes, chunks[i].domain));
}

// memory_domains([card]) -> free bytes of each
static PyObject *py_domains(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card;
    int64_t bytes[SPYRE_MEMORY_DOMAINS];
    if (!card_argument(args, &card)) return NULL;
    if (!device_context() || !core_check(spyre_memory_domains(device_context(), card, bytes)))
        return core_raise();
    return core_int_list(bytes, SPYRE_MEMORY_DOMAINS);
}

// memory_limit() -> bytes of a card that tensors may have, as the environment says
static PyObject *py_limit(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    int64_t bytes;
    return core_check(spyre_memory_limit(&bytes)) ? PyLong_FromLongLong(bytes) : core_raise();
}

// set_memory_limit(card, bytes): the limit of one card from now on
static PyObject *py_set_limit(PyObject *Py_UNUSED(self), PyObject *args)
{
    int card;
    long long bytes;
    if (!PyArg_ParseTuple(args, "iL", &card, &bytes)) return NULL;
    if (!device_check(card)) return core_raise_runtime();
    if (!device_context() ||
        !core_check(spyre_memory_set_limit(device_context(), (uint32_t)card, bytes,
                                           "torch.spyre.set_per_process_memory_fraction()")))
        return core_raise();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_chunks", py_chunks, METH_O, "(tensor) -> [(region, offset, bytes, domain)]"},
    {"_memory_domains", py_domains, METH_VARARGS, "([card]) -> free bytes of each domain"},
    {"_memory_limit", py_limit, METH_NOARGS, "Bytes of a card that tensors may have; opens none."},
    {"_set_memory_limit", py_set_limit, METH_VARARGS, "(card, bytes)"},
    {"_on_empty_cache", py_on_empty_cache, METH_O,
     "(callable): called when the cache of the allocator is emptied"},
    {"check_room", py_check_room, METH_VARARGS, "(name, dtype, elements) -> None"},
    {"_spyre_get_allocator_stats", py_statistics, METH_VARARGS, "([card]) -> counts by name"},
    {"_spyre_reset_peak_stats", py_reset_peak, METH_VARARGS, "([card])"},
    {"_spyre_reset_accumulated_stats", py_reset_totals, METH_VARARGS, "([card])"},
    {NULL, NULL, 0, NULL},
};

bool memory_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
