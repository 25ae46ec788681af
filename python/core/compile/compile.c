// SPDX-License-Identifier: Apache-2.0
//
// Calls of the compiler: settings, graphs and OpSpecs to Executables, what it has counted.
#include "core.h"

#include <string.h>

#include "spyre/op_spec.h"
#include "spyre/scratchpad.h"

// {name: text} into settings, whose list settings then borrow from the dict. False: an error is
// set.
static bool set_all(PyObject *dict, spyre_settings *settings)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const char *name_text = PyUnicode_AsUTF8AndSize(name, NULL);
        const char *value_text = name_text ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
        if (!value_text) return false;
        if (!core_check(spyre_settings_set(settings, name_text, value_text))) {
            core_raise();
            return false;
        }
    }
    return true;
}

// check_settings(settings): raises Unsupported or ValueError with the rule that a value breaks.
static PyObject *py_check_settings(PyObject *Py_UNUSED(self), PyObject *settings)
{
    spyre_settings parsed = spyre_settings_default();
    if (!PyDict_Check(settings)) {
        PyErr_SetString(PyExc_TypeError, "check_settings: expected a dict");
        return NULL;
    }
    if (!set_all(settings, &parsed)) return NULL;
    if (!core_check(spyre_compile_check_settings(&parsed))) return core_raise();
    Py_RETURN_NONE;
}

// settings() -> [(name, variable, default as text, rule, summary)]
static PyObject *py_settings(PyObject *Py_UNUSED(self), PyObject *unused)
{
    (void)unused;
    const spyre_settings initial = spyre_settings_default();
    char *values = NULL;
    if (!core_check(spyre_settings_print(&initial, &values))) return core_raise();
    PyObject *list = PyList_New(0);
    char *line = values;
    for (uint32_t i = 0; list && i < spyre_setting_count(); i++) {
        const spyre_setting *row = spyre_setting_at(i);
        char *value = strchr(line, '=') + 1, *end = strchr(value, '\n');
        PyObject *entry = Py_BuildValue("sss#ss", row->name, row->variable, value,
                                        (Py_ssize_t)(end - value), row->rule, row->summary);
        if (!entry || PyList_Append(list, entry) < 0) Py_CLEAR(list);
        Py_XDECREF(entry);
        line = end + 1;
    }
    spyre_string_free(values);
    return list;
}

// compile(graph, settings, dump_dir, host_fallback, loop_pass, plan) -> Executable, new or known
static PyObject *py_compile(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object, *settings, *pass = Py_None;
    spyre_compile_options options = spyre_compile_options_default();
    int fallback;
    if (!PyArg_ParseTuple(args, "OO!zp|Oz", &object, &PyDict_Type, &settings, &options.dump_dir,
                          &fallback, &pass, &options.plan))
        return NULL;
    const spyre_graph *graph = graph_of_object(object);
    if (!graph || !set_all(settings, &options.settings)) return NULL;
    options.host_fallback = fallback != 0;
    options.cache = true;
    options.loop_pass = pass == Py_None ? NULL : loops_call;
    options.loop_context = pass;
    spyre_executable *compiled = NULL;
    spyre_status status;
    Py_BEGIN_ALLOW_THREADS
    status = spyre_compile(graph, &options, &compiled);
    Py_END_ALLOW_THREADS
    if (!core_check(status)) return core_raise_of_graph();
    return executable_to_object(compiled);
}

// compile_op_specs(json, name, settings) -> Executable of one segment
static PyObject *py_compile_op_specs(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *json, *name;
    PyObject *settings;
    spyre_settings parsed = spyre_settings_default();
    spyre_executable *compiled = NULL;
    if (!PyArg_ParseTuple(args, "ssO!", &json, &name, &PyDict_Type, &settings)) return NULL;
    if (!set_all(settings, &parsed)) return NULL;
    if (!core_check(spyre_compile_op_specs(json, name, &parsed, &compiled))) return core_raise();
    return executable_to_object(compiled);
}

// compile_statistics() -> {counter: value}
static PyObject *py_compile_statistics(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    spyre_statistic row;
    PyObject *counters = PyDict_New();
    for (uint32_t i = 0; counters && spyre_statistic_at(i, &row); i++) {
        PyObject *value = PyLong_FromLongLong(row.value);
        if (!value || PyDict_SetItemString(counters, row.name, value) < 0) Py_CLEAR(counters);
        Py_XDECREF(value);
    }
    return counters;
}

// One (bytes, first, last, worth, parents).
static bool take_live_buffer(PyObject *item, spyre_live_buffer *out)
{
    PyObject *parents;
    long long bytes, worth;
    int64_t numbers[SPYRE_LIVE_BUFFER_PARENTS];
    if (!core_parse(item, "a live buffer", "LIILO", &bytes, &out->first, &out->last, &worth,
                    &parents))
        return false;
    int64_t count = core_ints(parents, numbers, SPYRE_LIVE_BUFFER_PARENTS, "parents");
    if (count < 0) return false;
    *out = (spyre_live_buffer){.bytes = bytes, .first = out->first, .last = out->last,
                               .worth = worth, .parent_count = (uint32_t)count};
    for (int64_t p = 0; p < count; p++)
        out->parents[p] = numbers[p] < 0 || numbers[p] > UINT32_MAX ? UINT32_MAX
                                                                    : (uint32_t)numbers[p];
    return true;
}

static PyObject *address_list(const spyre_live_buffer *buffers, uint32_t count)
{
    CORE_RETURN_LIST(count, PyLong_FromLongLong(buffers[i].address));
}

// place_buffers(solver, capacity, alignment, [(bytes, first, last, worth, parents)]) -> [address]
static PyObject *py_place_buffers(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *solver;
    long long capacity, alignment;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "sLLO!", &solver, &capacity, &alignment, &PyList_Type, &list))
        return NULL;
    uint32_t count = (uint32_t)PyList_Size(list);
    spyre_live_buffer *buffers = PyMem_Calloc(count + 1u, sizeof *buffers);
    if (!buffers) return PyErr_NoMemory();
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++)
        good = take_live_buffer(PyList_GetItem(list, (Py_ssize_t)i), &buffers[i]);
    if (good && !core_check(spyre_place_buffers(solver, capacity, alignment, buffers, count)))
        good = core_raise() != NULL;
    PyObject *addresses = good ? address_list(buffers, count) : NULL;
    PyMem_Free(buffers);
    return addresses;
}

static PyMethodDef methods[] = {
    {"place_buffers", py_place_buffers, METH_VARARGS,
     "(solver, capacity, alignment, [(bytes, first, last, worth, parents)]) -> [address]"},
    {"compile_statistics", py_compile_statistics, METH_NOARGS,
     "What the process has counted about compiling and its cache."},
    {"compile", py_compile, METH_VARARGS,
     "(graph, settings, dump_dir, host_fallback, loop_pass, plan) -> Executable"},
    {"compile_op_specs", py_compile_op_specs, METH_VARARGS, "(json, name, settings) -> Executable"},
    {"check_settings", py_check_settings, METH_O, "(settings) -> None"},
    {"settings", py_settings, METH_NOARGS,
     "() -> [(name, variable, default, rule, summary)]"},
    {NULL, NULL, 0, NULL},
};

bool compile_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
