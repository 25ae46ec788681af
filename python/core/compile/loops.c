// SPDX-License-Identifier: Apache-2.0
//
// The loop IR for passes of Python (spyre/loops.h): a callable gets (point, loops), where loops is
// a capsule that read_loops() and edit_loops() take while the call lasts.
#include "core.h"

#include "spyre/loops.h"

static const char name[] = "spyre_loops", over[] = "spyre_loops, after the call";

static PyObject *loop_object(const spyre_loop *loop)
{
    return Py_BuildValue("LiOOz", (long long)loop->extent, loop->slices,
                         loop->reduced ? Py_True : Py_False, loop->stick ? Py_True : Py_False,
                         loop->dim);
}

static PyObject *access_object(const spyre_loop_access *access, uint32_t loops)
{
    PyObject *strides = core_int_list(access->stride, loops);
    if (!strides) return NULL;
    return Py_BuildValue("ILN", access->buffer, (long long)access->offset, strides);
}

static PyObject *loop_list(const spyre_loop_op *op)
{
    CORE_RETURN_LIST(op->loop_count, loop_object(&op->loops[i]));
}

static PyObject *access_list(const spyre_loop_op *op)
{
    CORE_RETURN_LIST(op->operand_count, access_object(&op->operands[i], op->loop_count));
}

static PyObject *tile_object(const spyre_loop_tiles *tiles)
{
    return Py_BuildValue("ILI", tiles->group, (long long)tiles->count, tiles->cut);
}

static PyObject *tile_list(const spyre_loop_tiles *tiles, uint32_t count)
{
    CORE_RETURN_LIST(count, tile_object(&tiles[i]));
}

static PyObject *order_list(const spyre_loop_buffer *buffer)
{
    CORE_RETURN_LIST(buffer->dim_count, PyLong_FromLong(buffer->order[i]));
}

static PyObject *op_object(const spyre_loops *loops, uint32_t index)
{
    spyre_loop_op op;
    if (!core_check(spyre_loops_op(loops, index, &op))) return core_raise();
    PyObject *loop = loop_list(&op), *accesses = loop ? access_list(&op) : NULL;
    if (!accesses) {
        Py_XDECREF(loop);
        return NULL;
    }
    return Py_BuildValue("sszzNNzN", op.name, op.opfunc, op.location, op.note, loop, accesses,
                         op.hints, tile_list(op.tiles, op.tile_count));
}

static PyObject *buffer_object(const spyre_loops *loops, uint32_t index)
{
    spyre_loop_buffer buffer;
    if (!core_check(spyre_loops_buffer(loops, index, &buffer))) return core_raise();
    return Py_BuildValue("sssOONNiN", buffer.name, buffer.kind, spyre_dtype_name(buffer.dtype),
                         buffer.leaves ? Py_True : Py_False, buffer.in_lx ? Py_True : Py_False,
                         core_int_list(buffer.extent, buffer.dim_count),
                         core_int_list(buffer.stride, buffer.dim_count), buffer.stick,
                         order_list(&buffer));
}

static PyObject *op_list(const spyre_loops *loops)
{
    CORE_RETURN_LIST(spyre_loops_op_count(loops), op_object(loops, i));
}

static PyObject *buffer_list(const spyre_loops *loops)
{
    CORE_RETURN_LIST(spyre_loops_buffer_count(loops), buffer_object(loops, i));
}

PyObject *loops_read(const spyre_loops *loops)
{
    PyObject *ops = op_list(loops), *buffers = ops ? buffer_list(loops) : NULL;
    if (buffers) return Py_BuildValue("NN", ops, buffers);
    Py_XDECREF(ops);
    return NULL;
}

// read_loops(loops) -> (ops, buffers)
static PyObject *py_read_loops(PyObject *Py_UNUSED(self), PyObject *capsule)
{
    const spyre_loops *loops = PyCapsule_GetPointer(capsule, name);
    return loops ? loops_read(loops) : NULL;
}

// One (name, opfunc, [(group, count, 0)], cores, executions, us, memory_us, compute_us, ring_us,
// memory_bytes, reread_bytes, lx_bytes)
static PyObject *cost_object(const spyre_loops *loops, uint32_t index)
{
    spyre_op_cost c;
    if (!core_check(spyre_loops_op_cost(loops, index, &c))) return core_raise();
    PyObject *tiles = tile_list(c.tiles, c.tile_count);
    if (!tiles) return NULL;
    return Py_BuildValue("ssNILddddLLL", c.name, c.opfunc, tiles, c.cores, (long long)c.executions,
                         c.us, c.memory_us, c.compute_us, c.ring_us, (long long)c.memory_bytes,
                         (long long)c.reread_bytes, (long long)c.lx_bytes);
}

PyObject *loops_costs(const spyre_loops *loops)
{
    CORE_RETURN_LIST(spyre_loops_op_count(loops), cost_object(loops, i));
}

// op_costs(loops) -> [what the cost model predicts of an op]
static PyObject *py_op_costs(PyObject *Py_UNUSED(self), PyObject *capsule)
{
    const spyre_loops *loops = PyCapsule_GetPointer(capsule, name);
    return loops ? loops_costs(loops) : NULL;
}

// One (op, slices or None, note or None, stick); slices and note stay those of the object.
static bool take_edit(const spyre_loops *loops, PyObject *item, int32_t *slices,
                      spyre_loop_edit *out)
{
    PyObject *list;
    spyre_loop_op op;
    int64_t values[SPYRE_LOOPS_MOST_LOOPS];
    if (!core_parse(item, "an edit", "IOzi", &out->op, &list, &out->note, &out->stick))
        return false;
    if (list == Py_None) return true;
    if (!core_check(spyre_loops_op(loops, out->op, &op))) return core_raise() != NULL;
    int64_t count = core_ints(list, values, SPYRE_LOOPS_MOST_LOOPS, "slices");
    if (count < 0) return false;
    if (count != op.loop_count) {
        PyErr_Format(PyExc_ValueError, "op %s: %d slices for %d loops", op.name, (int)count,
                     (int)op.loop_count);
        return false;
    }
    for (int64_t i = 0; i < count; i++)
        slices[i] = values[i] < 0 || values[i] > INT32_MAX ? 0 : (int32_t)values[i];
    out->slices = slices;
    return true;
}

// edit_loops(loops, pass, [(op, slices, note, stick)])
static PyObject *py_edit_loops(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *capsule, *list;
    const char *pass;
    if (!PyArg_ParseTuple(args, "OsO!", &capsule, &pass, &PyList_Type, &list)) return NULL;
    spyre_loops *loops = PyCapsule_GetPointer(capsule, name);
    if (!loops) return NULL;
    size_t count = (size_t)PyList_Size(list);
    spyre_loop_edit *edits = PyMem_Calloc(count + 1, sizeof *edits);
    int32_t(*slices)[SPYRE_LOOPS_MOST_LOOPS] = PyMem_Calloc(count + 1, sizeof *slices);
    bool good = edits && slices;
    if (!good) PyErr_NoMemory();
    for (size_t i = 0; good && i < count; i++)
        good = take_edit(loops, PyList_GetItem(list, (Py_ssize_t)i), slices[i], &edits[i]);
    if (good && !core_check(spyre_loops_edit(loops, pass, edits, (uint32_t)count)))
        good = core_raise() != NULL;
    PyMem_Free(edits);
    PyMem_Free(slices);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

// A Python exception stays set in the thread that compiles, where core_raise() finds it.
static bool call(PyObject *pass, spyre_loops_point point, spyre_loops *loops)
{
    PyObject *capsule = PyCapsule_New(loops, name, NULL);
    PyObject *result = capsule ? PyObject_CallFunction(pass, "iO", (int)point, capsule) : NULL;
    bool good = result != NULL;
    if (capsule && PyCapsule_SetName(capsule, over) < 0) good = false;
    Py_XDECREF(result);
    Py_XDECREF(capsule);
    return good;
}

bool loops_call(void *pass, spyre_loops_point point, spyre_loops *loops)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool good = call(pass, point, loops);
    PyGILState_Release(state);
    return good;
}

bool loops_register(PyObject *module)
{
    static PyMethodDef functions[] = {
        {"read_loops", py_read_loops, METH_O, "(loops) -> (ops, buffers)"},
        {"op_costs", py_op_costs, METH_O, "(loops) -> predictions"},
        {"edit_loops", py_edit_loops, METH_VARARGS, "(loops, pass, [(op, slices, note, stick)])"},
        {0}};
    return PyModule_AddFunctions(module, functions) == 0;
}
