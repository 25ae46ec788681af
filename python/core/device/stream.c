// SPDX-License-Identifier: Apache-2.0
//
// Streams and events, for Python and for PyTorch's device guard.
#include "core.h"

bool stream_check(int64_t stream)
{
    enum { LAST = SPYRE_LOW_STREAMS + SPYRE_HIGH_STREAMS };
    return (stream >= 0 && stream <= LAST) ||
           core_fail(SPYRE_INVALID_ARGUMENT, "stream id %lld is not in 0..%d", (long long)stream,
                     LAST);
}

uint32_t stream_from_pool(uint32_t card, bool high)
{
    spyre_context *context = device_context();
    return context ? spyre_stream_from_pool(context, card, high) : SPYRE_DEFAULT_STREAM;
}

bool stream_is_idle(uint32_t card, uint32_t stream)
{
    return !device_started() || spyre_stream_query(device_context(), card, stream);
}

bool stream_synchronize(uint32_t card, uint32_t stream)
{
    if (!device_started() && !device_is_forked()) return true;
    spyre_context *context = device_context();
    return context && core_check(spyre_stream_synchronize(context, card, stream));
}

bool event_record(void **event, uint32_t card, uint32_t stream)
{
    spyre_context *context = device_context();
    spyre_event *recorded = *event;
    bool ok = context && core_check(spyre_event_record(context, card, stream, &recorded));
    *event = recorded;
    return ok;
}

bool event_wait(void *event, uint32_t card, uint32_t stream)
{
    if (!event) return true;
    spyre_context *context = device_context();
    return context && core_check(spyre_event_wait(context, card, stream, event));
}

bool event_is_done(const void *event)
{
    return !event || spyre_event_query(event);
}

bool event_synchronize(const void *event)
{
    if (event && !device_context()) return false;
    if (!event || core_check(spyre_event_synchronize(event))) return true;
    if (core_error_code() == SPYRE_CANCELLED) device_cancel();
    return false;
}

// ---- Python methods; a stream is (card, id)

static bool card_argument(int card)
{
    return device_check(card) || core_raise_runtime();
}

static bool stream_arguments(PyObject *args, uint32_t *out_card, uint32_t *out_stream)
{
    int card, stream;
    if (!PyArg_ParseTuple(args, "ii", &card, &stream) || !card_argument(card)) return false;
    *out_card = (uint32_t)card;
    *out_stream = (uint32_t)stream;
    return stream_check(stream) || core_raise();
}

static PyObject *py_stream_from_pool(PyObject *Py_UNUSED(self), PyObject *args)
{
    int card, high;
    if (!PyArg_ParseTuple(args, "ip", &card, &high) || !card_argument(card)) return NULL;
    if (!device_context()) return core_raise();
    return PyLong_FromUnsignedLong(stream_from_pool((uint32_t)card, high != 0));
}

static PyObject *py_current_stream(PyObject *Py_UNUSED(self), PyObject *args)
{
    int card;
    if (!PyArg_ParseTuple(args, "i", &card) || !card_argument(card)) return NULL;
    return PyLong_FromUnsignedLong(stream_current((uint32_t)card));
}

static PyObject *py_exchange_stream(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    return PyLong_FromUnsignedLong(stream_exchange(card, stream));
}

static PyObject *py_stream_query(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    return PyBool_FromLong(stream_is_idle(card, stream));
}

static PyObject *py_stream_clock_us(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    double us = device_started() ? spyre_stream_clock_us(device_context(), card, stream) : 0;
    return PyFloat_FromDouble(us);
}

static PyObject *py_stream_failed(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    return PyBool_FromLong(device_started() &&
                           spyre_stream_failed(device_context(), card, stream));
}

static PyObject *none_or_raise(bool ok)
{
    if (!ok) return core_raise_runtime();
    Py_RETURN_NONE;
}

static PyObject *py_stream_synchronize(PyObject *Py_UNUSED(self), PyObject *args)
{
    uint32_t card, stream;
    if (!stream_arguments(args, &card, &stream)) return NULL;
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = stream_synchronize(card, stream);
    Py_END_ALLOW_THREADS
    return none_or_raise(ok);
}

static PyObject *py_synchronize(PyObject *Py_UNUSED(self), PyObject *args)
{
    int card;
    if (!PyArg_ParseTuple(args, "i", &card) || !card_argument(card)) return NULL;
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = device_synchronize(card);
    Py_END_ALLOW_THREADS
    return none_or_raise(ok);
}

static PyObject *py_default_generator(PyObject *Py_UNUSED(self), PyObject *args)
{
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
    {"_stream_clock_us", py_stream_clock_us, METH_VARARGS,
     "(card, id) -> place on the card's virtual clock of the work that the stream has begun"},
    {"_stream_failed", py_stream_failed, METH_VARARGS, "(card, id) -> has a sticky error"},
    {"_stream_synchronize", py_stream_synchronize, METH_VARARGS, "(card, id)"},
    {"_synchronize", py_synchronize, METH_VARARGS, "(card): waits for all its streams"},
    {"_get_default_generator", py_default_generator, METH_VARARGS, "([card])"},
    {NULL, NULL, 0, NULL},
};

bool stream_register(PyObject *module)
{
    glue_register();
    return PyModule_AddIntConstant(module, "LOW_STREAMS", SPYRE_LOW_STREAMS) == 0 &&
           PyModule_AddIntConstant(module, "HIGH_STREAMS", SPYRE_HIGH_STREAMS) == 0 &&
           PyModule_AddFunctions(module, methods) == 0;
}
