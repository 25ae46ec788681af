// SPDX-License-Identifier: Apache-2.0
//
// Streams and events, for Python and for PyTorch's device guard.
#include "core.h"

#include "glue.h"

static const char *failed(bool ok)
{
    return ok ? NULL : core_error_message();
}

static int call_device_count(void)
{
    return (int)device_count();
}

static const char *call_device_set(int device)
{
    return failed(device_set_current(device));
}

static int call_device_of(const void *pointer)
{
    return (int)storage_card(pointer);
}

static const char *call_device_synchronize(int device)
{
    if (!device_started() && !device_is_forked()) return NULL;
    spyre_context *context = device_context();
    uint32_t card = (uint32_t)(device < 0 ? device_current() : device);
    return failed(context && core_check(spyre_card_synchronize(context, card)));
}

static const char *call_allocate(int device, size_t bytes, void **out_pointer)
{
    return failed(storage_create_raw((uint32_t)device, (int64_t)bytes, out_pointer) != NULL);
}

static const char *call_copy(void *target, const void *source, size_t bytes)
{
    return failed(storage_copy_bytes(target, source, (int64_t)bytes));
}

static bool call_statistics(int device, spyre_memory_statistics *out)
{
    if (!device_started()) return false;
    spyre_memory_read_statistics(device_context(), (uint32_t)device, out);
    return true;
}

static void call_reset_peak(int device)
{
    if (device_started()) spyre_memory_reset_peak(device_context(), (uint32_t)device);
}

static void call_reset_totals(int device)
{
    if (device_started()) spyre_memory_reset_totals(device_context(), (uint32_t)device);
}

static void call_empty_cache(void)
{
    for (uint32_t card = 0; device_started() && card < device_count(); card++)
        spyre_memory_empty_cache(device_context(), card);
}

static int64_t call_stream_current(int device)
{
    return stream_current((uint32_t)device);
}

static int64_t call_stream_exchange(int device, int64_t stream)
{
    return stream_exchange((uint32_t)device, (uint32_t)stream);
}

static int64_t call_stream_new(int device, bool high)
{
    spyre_context *context = device_context();
    return context ? spyre_stream_from_pool(context, (uint32_t)device, high) : 0;
}

static bool call_stream_query(int device, int64_t stream)
{
    return !device_started() ||
           spyre_stream_query(device_context(), (uint32_t)device, (uint32_t)stream);
}

static const char *call_stream_synchronize(int device, int64_t stream)
{
    if (!device_started() && !device_is_forked()) return NULL;
    spyre_context *context = device_context();
    return failed(context && core_check(spyre_stream_synchronize(context, (uint32_t)device,
                                                                 (uint32_t)stream)));
}

static const char *call_event_record(void **event, int device, int64_t stream)
{
    spyre_context *context = device_context();
    if (!context) return core_error_message();
    spyre_event *recorded = *event;
    bool ok =
        core_check(spyre_event_record(context, (uint32_t)device, (uint32_t)stream, &recorded));
    *event = recorded;
    return failed(ok);
}

static const char *call_event_wait(void *event, int64_t stream)
{
    if (event && !device_context()) return core_error_message();
    return event ? failed(core_check(spyre_event_wait(event, (uint32_t)stream))) : NULL;
}

static bool call_event_query(const void *event)
{
    return !event || spyre_event_query(event);
}

static const char *call_event_synchronize(const void *event)
{
    if (event && !device_context()) return core_error_message();
    if (event) spyre_event_synchronize(event);
    return NULL;
}

static double call_event_elapsed(const void *begin, const void *end)
{
    return spyre_event_elapsed_ms(begin, end);
}

static void call_event_destroy(void *event)
{
    spyre_event_destroy(event);
}

static const glue_calls table = {
    .started = device_started,
    .forked = device_is_forked,
    .device_count = call_device_count,
    .device_current = device_current,
    .device_set = call_device_set,
    .device_of = call_device_of,
    .device_synchronize = call_device_synchronize,
    .allocate = call_allocate,
    .release = storage_release,
    .copy = call_copy,
    .statistics = call_statistics,
    .reset_peak = call_reset_peak,
    .reset_totals = call_reset_totals,
    .empty_cache = call_empty_cache,
    .stream_current = call_stream_current,
    .stream_exchange = call_stream_exchange,
    .stream_new = call_stream_new,
    .stream_query = call_stream_query,
    .stream_synchronize = call_stream_synchronize,
    .event_record = call_event_record,
    .event_wait = call_event_wait,
    .event_query = call_event_query,
    .event_synchronize = call_event_synchronize,
    .event_elapsed_ms = call_event_elapsed,
    .event_destroy = call_event_destroy,
};

// ---- Python methods; a stream is (card, id)

static bool card_argument(int card)
{
    if (card >= 0 && (uint32_t)card < device_count()) return true;
    PyErr_Format(PyExc_RuntimeError, "invalid device ordinal %d: this process uses %u device(s)",
                 card, device_count());
    return false;
}

static bool stream_arguments(PyObject *args, int *card, int *stream)
{
    if (!PyArg_ParseTuple(args, "ii", card, stream) || !card_argument(*card)) return false;
    if (*stream >= 0 && *stream <= SPYRE_LOW_STREAMS + SPYRE_HIGH_STREAMS) return true;
    PyErr_Format(PyExc_ValueError, "stream id %d is not in 0..%d", *stream,
                 SPYRE_LOW_STREAMS + SPYRE_HIGH_STREAMS);
    return false;
}

static PyObject *py_stream_from_pool(PyObject *self, PyObject *args)
{
    (void)self;
    int card, high;
    if (!PyArg_ParseTuple(args, "ip", &card, &high) || !card_argument(card)) return NULL;
    if (!device_context()) return core_raise();
    return PyLong_FromLongLong(call_stream_new(card, high != 0));
}

static PyObject *py_current_stream(PyObject *self, PyObject *args)
{
    (void)self;
    int card;
    if (!PyArg_ParseTuple(args, "i", &card) || !card_argument(card)) return NULL;
    return PyLong_FromUnsignedLong(stream_current((uint32_t)card));
}

static PyObject *py_exchange_stream(PyObject *self, PyObject *args)
{
    (void)self;
    int card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    return PyLong_FromUnsignedLong(stream_exchange((uint32_t)card, (uint32_t)stream));
}

static PyObject *py_stream_query(PyObject *self, PyObject *args)
{
    (void)self;
    int card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    return PyBool_FromLong(call_stream_query(card, stream));
}

static PyObject *py_stream_failed(PyObject *self, PyObject *args)
{
    (void)self;
    int card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    return PyBool_FromLong(device_started() && spyre_stream_failed(device_context(), (uint32_t)card,
                                                                   (uint32_t)stream));
}

static PyObject *raise_or_none(const char *error)
{
    if (!error) Py_RETURN_NONE;
    PyErr_SetString(PyExc_RuntimeError, error);
    return NULL;
}

static PyObject *py_stream_synchronize(PyObject *self, PyObject *args)
{
    (void)self;
    int card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    const char *error;
    Py_BEGIN_ALLOW_THREADS error = call_stream_synchronize(card, stream);
    Py_END_ALLOW_THREADS return raise_or_none(error);
}

static PyObject *py_synchronize(PyObject *self, PyObject *args)
{
    (void)self;
    int card;
    if (!PyArg_ParseTuple(args, "i", &card) || !card_argument(card)) return NULL;
    const char *error;
    Py_BEGIN_ALLOW_THREADS error = call_device_synchronize(card);
    Py_END_ALLOW_THREADS return raise_or_none(error);
}

static PyObject *py_default_generator(PyObject *self, PyObject *args)
{
    (void)self;
    int card = -1;
    if (!PyArg_ParseTuple(args, "|i", &card)) return NULL;
    if (card < 0) card = device_current();
    return card_argument(card) ? glue_default_generator(card) : NULL;
}

static PyMethodDef methods[] = {
    {"_stream_from_pool", py_stream_from_pool, METH_VARARGS, "(card, high) -> id"},
    {"_current_stream", py_current_stream, METH_VARARGS, "(card) -> id"},
    {"_exchange_stream", py_exchange_stream, METH_VARARGS, "(card, id) -> id before"},
    {"_stream_query", py_stream_query, METH_VARARGS, "(card, id) -> idle"},
    {"_stream_failed", py_stream_failed, METH_VARARGS, "(card, id) -> has a sticky error"},
    {"_stream_synchronize", py_stream_synchronize, METH_VARARGS, "(card, id)"},
    {"_synchronize", py_synchronize, METH_VARARGS, "(card): waits for all its streams"},
    {"_get_default_generator", py_default_generator, METH_VARARGS, "([card])"},
    {NULL, NULL, 0, NULL},
};

bool stream_register(PyObject *module)
{
    glue_register(&table);
    return PyModule_AddFunctions(module, methods) == 0;
}
