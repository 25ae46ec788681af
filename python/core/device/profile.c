// SPDX-License-Identifier: Apache-2.0
//
// What cards do, for PyTorch's profiler (profiler.cpp): recording while a profile is under way, and
// the records by the clock that PyTorch's own events have.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core.h"

// Without memory of its own: the number of records.
static uint64_t drop_all(spyre_context *context)
{
    spyre_activity some[16];
    uint64_t dropped = 0;
    for (uint32_t count; (count = spyre_profile_take(context, some, 16)) > 0;) dropped += count;
    return dropped + spyre_profile_lost(context);
}

static uint32_t take_all(spyre_context *context, spyre_activity **out)
{
    uint32_t count = 0, capacity = 0;
    *out = NULL;
    for (;;) {
        uint32_t grown = capacity ? 2 * capacity : 256;
        spyre_activity *records = realloc(*out, grown * sizeof *records);
        if (!records) break;
        *out = records;
        capacity = grown;
        count += spyre_profile_take(context, records + count, capacity - count);
        if (count < capacity) break;
    }
    return count;
}

void profile_start(void)
{
    // What ended after the profile before this one.
    if (device_started()) drop_all(device_context());
    device_profile(true);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// From CLOCK_MONOTONIC to the time of day.
static int64_t offset_ns(void)
{
    int64_t before = clock_ns(CLOCK_MONOTONIC), day = clock_ns(CLOCK_REALTIME);
    return day - (before + clock_ns(CLOCK_MONOTONIC)) / 2;
}

// A record may cut a text within a character of UTF-8.
static void cut_to_characters(char *text)
{
    size_t length = strlen(text), last = length;
    while (last > 0 && ((unsigned char)text[last - 1] & 0xc0) == 0x80) last--;
    if (last == 0) return;
    unsigned char lead = (unsigned char)text[--last];
    size_t needed = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (last + needed > length) text[last] = '\0';
}

// Kineto writes what it is told into JSON as it is.
static void make_printable(char *text)
{
    cut_to_characters(text);
    for (char *c = text; *c; c++) {
        if (*c == '"') *c = '\'';
        else if (*c == '\\') *c = '/';
        else if ((unsigned char)*c < ' ') *c = ' ';
    }
}

uint32_t profile_stop(spyre_activity **out_records, int64_t *out_offset_ns, uint64_t *out_lost)
{
    device_profile(false);
    *out_records = NULL;
    *out_lost = 0;
    *out_offset_ns = offset_ns();
    if (!device_started()) return 0;
    spyre_context *context = device_context();
    uint32_t count = take_all(context, out_records);
    *out_lost = drop_all(context);
    for (uint32_t n = 0; n < count; n++) {
        make_printable((*out_records)[n].name);
        make_printable((*out_records)[n].source);
    }
    if (core_check(spyre_profile_place(*out_records, count))) return count;
    *out_lost += count;
    return 0;
}

const char *profile_name(const spyre_activity *activity)
{
    bool submission = activity->submission;
    switch (activity->kind) {
    case SPYRE_ACTIVITY_LAUNCH: return submission ? "spyreLaunchKernel" : activity->name;
    case SPYRE_ACTIVITY_KERNEL: return activity->name;
    case SPYRE_ACTIVITY_COPY_TO_CARD: return submission ? "spyreMemcpy" : "Memcpy (HtoD)";
    case SPYRE_ACTIVITY_COPY_TO_HOST: return submission ? "spyreMemcpy" : "Memcpy (DtoH)";
    case SPYRE_ACTIVITY_COPY_ON_CARD: return submission ? "spyreMemcpy" : "Memcpy (DtoD)";
    case SPYRE_ACTIVITY_EXCHANGE: return submission ? "spyreExchange" : activity->name;
    case SPYRE_ACTIVITY_FILL: break;
    }
    return submission ? "spyreMemset" : "Memset (Device)";
}

// ---- Python methods

static bool registered;

static PyObject *py_available(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(registered);
}

static PyMethodDef methods[] = {
    {"profiler_available", py_available, METH_NOARGS, "() -> device events reach torch.profiler"},
    {NULL, NULL, 0, NULL},
};

bool profile_register(PyObject *module)
{
    const char *use = getenv("USE_SPYRE_PROFILER");
    registered = !use || strcmp(use, "0") != 0;
    if (registered) profiler_register();
    return PyModule_AddFunctions(module, methods) == 0;
}
