// SPDX-License-Identifier: Apache-2.0
//
// The smallest and the largest of the integers of a tensor, which say whether arithmetic stays
// within what the card has of them.
#include "tensor/integer_bounds.h"

#include <stdlib.h>

enum { FEW_BYTES = 1 << 10 };           // read without asking for memory

#define RANGE_OF(name, type)                                                                       \
    static spyre_integer_range name(const void *elements, int64_t count)                           \
    {                                                                                              \
        const type *e = elements;                                                                  \
        type least = e[0], most = e[0];                                                            \
        bool has_zero = false;                                                                     \
        for (int64_t i = 0; i < count; i++) {                                                      \
            least = e[i] < least ? e[i] : least;                                                   \
            most = e[i] > most ? e[i] : most;                                                      \
            has_zero |= e[i] == 0;                                                                 \
        }                                                                                          \
        return (spyre_integer_range){least, most, has_zero};                                       \
    }

RANGE_OF(of_int64, int64_t)
RANGE_OF(of_int32, int32_t)
RANGE_OF(of_int16, int16_t)
RANGE_OF(of_int8, int8_t)
RANGE_OF(of_uint8, uint8_t)

typedef spyre_integer_range of_elements(const void *elements, int64_t count);

static of_elements *function_of(int32_t dtype)
{
    if (dtype == aoti_torch_dtype_int64()) return of_int64;
    if (dtype == aoti_torch_dtype_int32()) return of_int32;
    if (dtype == aoti_torch_dtype_int16()) return of_int16;
    if (dtype == aoti_torch_dtype_int8()) return of_int8;
    bool one_byte = dtype == aoti_torch_dtype_uint8() || dtype == aoti_torch_dtype_bool();
    return one_byte ? of_uint8 : NULL;
}

// By way of the host, for views and for formats and layouts that are not read where they lie.
static bool read_elements(const tensor_info *t, spyre_integer_range *out)
{
    of_elements *function = function_of(t->torch_dtype);
    int64_t few[FEW_BYTES / sizeof(int64_t)], bytes = t->numel * (int64_t)t->element_bytes;
    if (!function) return core_fail(SPYRE_UNSUPPORTED, "the range of what is no integer");
    void *elements = bytes > FEW_BYTES ? malloc((size_t)bytes) : few;
    if (!elements) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to read integers");
    bool ok = copy_read(t, elements);
    if (ok) *out = function(elements, t->numel);
    if (elements != few) free(elements);
    return ok;
}

bool range_of(const tensor_info *t, spyre_integer_range *out)
{
    *out = (spyre_integer_range){0, 0, true};
    if (t->numel == 0) return true;
    bool covers = tensor_covers(t);
    if (covers && storage_kept_range(t->storage, out)) return true;
    bool ok = covers && storage_read_range(t->storage, out);
    if (!ok && covers && core_error_code() != SPYRE_UNSUPPORTED) return false;
    ok = ok || read_elements(t, out);
    if (ok && covers) storage_keep_range(t->storage, out);
    return ok;
}

bool range_is_in(const spyre_integer_range *inner, const spyre_integer_range *outer)
{
    return outer->least <= inner->least && inner->most <= outer->most &&
           (outer->has_zero || !inner->has_zero);
}

// integer_range(tensor) -> (least, most, whether one is 0) of a tensor of the card.
static PyObject *py_integer_range(PyObject *Py_UNUSED(self), PyObject *object)
{
    tensor_info t;
    spyre_integer_range found;
    if (!tensor_of_object(object, &t)) return core_raise();
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = t.numel == 0 || (t.storage && tensor_settle(&t)) ||
         core_fail(SPYRE_INVALID_ARGUMENT, "integer_range: expected a tensor of the card");
    ok = ok && range_of(&t, &found);
    Py_END_ALLOW_THREADS
    if (!ok) return core_raise();
    return Py_BuildValue("(LLO)", (long long)found.least, (long long)found.most,
                         found.has_zero ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"integer_range", py_integer_range, METH_O,
     "(tensor) -> smallest and largest of its integers, whether one is 0"},
    {NULL, NULL, 0, NULL},
};

bool range_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) == 0;
}
