// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables on the card, copied where they lie: each run of rows is a few pieces of storages.
#include "core.h"

#include <stdlib.h>

// A table [rows, width] on the card: where a stick of a row is, in bytes of its storage.
typedef struct {
    int64_t rows, sticks, start, row_bytes, stick_step, stick_bytes;
} table;

// The rows and sticks of a storage whose rows are `step` elements apart; false for another form.
static bool describe_rows(const storage *s, int64_t step, table *out)
{
    const spyre_layout *layout = &s->layout;
    uint32_t last = layout->rank - 1;
    int64_t bytes = s->card_bytes, stick = layout->device_size[last];
    *out = (table){.rows = 1, .sticks = 1};
    for (uint32_t i = 0; i < last; i++) {
        int64_t size = layout->device_size[i], moves = layout->stride_map[i];
        bytes /= size;
        if (size == 1) continue;
        if (moves == step && out->rows == 1) out->rows = size, out->row_bytes = bytes;
        else if (moves == stick && out->sticks == 1) out->sticks = size, out->stick_step = bytes;
        else return false;
    }
    out->stick_bytes = bytes;
    if (out->rows == 1) out->row_bytes = bytes;
    return layout->stride_map[last] == 1;
}

// Rows of a storage, or whole sticks of them, as a view gives them; false for another tensor.
static bool describe_table(const tensor_info *t, table *out)
{
    const storage *s = t->storage;
    if (!s || !s->typed || t->rank != 2 || t->numel == 0 || glue_is_lazy(t->handle) ||
        dtype_of_torch(t->torch_dtype) != s->dtype || s->layout.rank < 2)
        return false;
    int64_t step = t->stride[0], width = t->size[1];
    int64_t stick = s->layout.device_size[s->layout.rank - 1];
    if (t->stride[1] != 1 || step < width || !describe_rows(s, step, out)) return false;
    int64_t row = t->offset / step, column = t->offset % step, used = (width + stick - 1) / stick;
    bool whole = column % stick == 0 && (width % stick == 0 || width == step);
    if (!whole || column + width > step || column / stick + used > out->sticks ||
        row + t->size[0] > out->rows)
        return false;
    out->start = row * out->row_bytes + column / stick * out->stick_step;
    out->rows = t->size[0];
    out->sticks = used;
    return true;
}

// Rows first .. first + count of the source, at row `to` of the target.
typedef struct {
    int64_t to, first, count;
} run_of_rows;

static bool read_run(PyObject *item, const table *target, const table *source, run_of_rows *out)
{
    if (!core_parse(item, "a run of rows", "LLL", &out->to, &out->first, &out->count))
        return false;
    bool fits = out->to >= 0 && out->first >= 0 && out->count >= 0 &&
                out->to + out->count <= target->rows && out->first + out->count <= source->rows;
    if (!fits)
        PyErr_Format(PyExc_IndexError, "%lld rows from %lld to %lld: tables of %lld and %lld rows",
                     (long long)out->count, (long long)out->first, (long long)out->to,
                     (long long)source->rows, (long long)target->rows);
    return fits;
}

// The pieces of a run: a stick of all its rows, or of each where sticks of rows lie apart.
static uint32_t put_pieces(const run_of_rows *run, const table *to, const table *from,
                           spyre_piece *out)
{
    bool joined = to->row_bytes == to->stick_bytes && from->row_bytes == from->stick_bytes;
    int64_t each = joined ? run->count : 1, count = 0;
    for (int64_t stick = 0; stick < to->sticks; stick++)
        for (int64_t row = 0; row < run->count; row += each)
            out[count++] = (spyre_piece){
                .target = to->start + stick * to->stick_step + (run->to + row) * to->row_bytes,
                .source = from->start + stick * from->stick_step +
                          (run->first + row) * from->row_bytes,
                .bytes = each * to->stick_bytes};
    return (uint32_t)count;
}

static bool copy_runs(const storage *to, const storage *from, const table *target,
                      const table *source, PyObject *runs)
{
    Py_ssize_t count = PyList_Size(runs);
    int64_t rows = 0;
    run_of_rows run;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!read_run(PyList_GetItem(runs, i), target, source, &run)) return false;
        rows += run.count;
    }
    spyre_piece *pieces = calloc((size_t)(rows * target->sticks) + 1, sizeof *pieces);
    if (!pieces) return PyErr_NoMemory() != NULL;
    uint32_t used = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!read_run(PyList_GetItem(runs, i), target, source, &run)) break;
        used += put_pieces(&run, target, source, pieces + used);
    }
    bool ok = core_check(spyre_copy_pieces(device_context(), to->card, stream_current(to->card),
                                           to->address, from->address, pieces, used));
    free(pieces);
    return ok || core_raise() != NULL;
}

// copy_rows(target, source, runs) -> bool: for each (to, first, count) of a list, rows of a table
// [rows, width] of the card into another; a table may be rows and whole sticks of its storage.
// False, and nothing done, for tensors that do not lie so.
static PyObject *py_copy_rows(PyObject *Py_UNUSED(self), PyObject *arguments)
{
    PyObject *to, *from, *runs;
    tensor_info target, source;
    table into, out_of;
    if (!PyArg_ParseTuple(arguments, "OOO!", &to, &from, &PyList_Type, &runs)) return NULL;
    if (!tensor_of_object(to, &target) || !tensor_of_object(from, &source)) return core_raise();
    bool fits = describe_table(&target, &into) && describe_table(&source, &out_of) &&
                target.storage->dtype == source.storage->dtype &&
                target.storage->card == source.storage->card && target.size[1] == source.size[1] &&
                into.sticks == out_of.sticks && into.stick_bytes == out_of.stick_bytes;
    if (!fits) Py_RETURN_FALSE;
    if (!storage_own(target.storage)) return core_raise();
    if (!copy_runs(target.storage, source.storage, &into, &out_of, runs)) return NULL;
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"copy_rows", py_copy_rows, METH_VARARGS, "(target, source, runs) -> whether it has copied"},
    {NULL, NULL, 0, NULL},
};

bool copy_rows_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
