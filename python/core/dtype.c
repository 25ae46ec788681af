// SPDX-License-Identifier: Apache-2.0
//
// Element types: PyTorch's number, PyTorch's Python object and ours.
#include "core.h"

#include <float.h>
#include <math.h>

enum { TORCH_DTYPES = 64 };

static int32_t torch_of_spyre[SPYRE_DTYPE_COUNT];
static spyre_dtype spyre_of_torch[TORCH_DTYPES];
static PyObject *objects[SPYRE_DTYPE_COUNT]; // torch.float16, ...
static bool downcast_warning = true;

spyre_dtype dtype_of_torch(int32_t torch_dtype)
{
    return torch_dtype >= 0 && torch_dtype < TORCH_DTYPES ? spyre_of_torch[torch_dtype]
                                                          : SPYRE_DTYPE_COUNT;
}

bool dtype_of_card(int32_t torch_dtype, spyre_dtype *out)
{
    *out = dtype_of_torch(torch_dtype);
    bool named = *out != SPYRE_DTYPE_COUNT;
    return (named && spyre_dtype_card_format(*out) != SPYRE_FORMAT_INVALID) ||
           core_fail(SPYRE_UNSUPPORTED, "Spyre backend does not support dtype %s",
                     named ? spyre_dtype_name(*out) : glue_dtype_name(torch_dtype));
}

bool dtype_can_be_stored(int32_t torch_dtype)
{
    return !glue_dtype_is_quantized(torch_dtype) ||
           core_fail(SPYRE_UNSUPPORTED,
                     "quantized tensors (%s) cannot lie on the spyre device: dequantize() them, or "
                     "keep their int_repr() there",
                     glue_dtype_name(torch_dtype));
}

int32_t dtype_to_torch(spyre_dtype dtype)
{
    return torch_of_spyre[dtype];
}

void dtype_narrow_range(int32_t torch_dtype, spyre_number_range *range)
{
    double lowest = -(double)FLT_MAX, largest = (double)FLT_MAX;
    switch ((int)dtype_of_torch(torch_dtype)) {
    case SPYRE_DTYPE_F16: lowest = -65504, largest = 65504; break;
    case SPYRE_DTYPE_I16: lowest = INT16_MIN, largest = INT16_MAX; break;
    case SPYRE_DTYPE_U8: lowest = 0, largest = UINT8_MAX; break;
    case SPYRE_DTYPE_I8: lowest = INT8_MIN, largest = INT8_MAX; break;
    default: break;
    }
    range->lowest = fmax(range->lowest, lowest);
    range->largest = fmin(range->largest, largest);
}

bool dtype_of_object(PyObject *object, spyre_dtype *out)
{
    for (int i = 0; i < SPYRE_DTYPE_COUNT; i++) {
        if (objects[i] != object) continue;
        *out = (spyre_dtype)i;
        return true;
    }
    return false;
}

static void number_dtypes(void)
{
    for (int i = 0; i < TORCH_DTYPES; i++) spyre_of_torch[i] = SPYRE_DTYPE_COUNT;
    torch_of_spyre[SPYRE_DTYPE_F16] = aoti_torch_dtype_float16();
    torch_of_spyre[SPYRE_DTYPE_BF16] = aoti_torch_dtype_bfloat16();
    torch_of_spyre[SPYRE_DTYPE_F32] = aoti_torch_dtype_float32();
    torch_of_spyre[SPYRE_DTYPE_BOOL] = aoti_torch_dtype_bool();
    torch_of_spyre[SPYRE_DTYPE_I64] = aoti_torch_dtype_int64();
    torch_of_spyre[SPYRE_DTYPE_I32] = aoti_torch_dtype_int32();
    torch_of_spyre[SPYRE_DTYPE_I16] = aoti_torch_dtype_int16();
    torch_of_spyre[SPYRE_DTYPE_I8] = aoti_torch_dtype_int8();
    torch_of_spyre[SPYRE_DTYPE_U8] = aoti_torch_dtype_uint8();
    torch_of_spyre[SPYRE_DTYPE_F8_E4M3] = aoti_torch_dtype_float8_e4m3fn();
    torch_of_spyre[SPYRE_DTYPE_F8_E5M2Z] = aoti_torch_dtype_float8_e5m2fnuz();
    torch_of_spyre[SPYRE_DTYPE_F64] = aoti_torch_dtype_float64();
    for (int i = 0; i < SPYRE_DTYPE_COUNT; i++) spyre_of_torch[torch_of_spyre[i]] = (spyre_dtype)i;
}

// ---- Python methods

static PyObject *py_device_dtype(PyObject *Py_UNUSED(self), PyObject *object)
{
    spyre_dtype dtype;
    spyre_format format = SPYRE_FORMAT_INVALID;
    if (dtype_of_object(object, &dtype)) format = spyre_dtype_card_format(dtype);
    return PyLong_FromLong(format);
}

static PyObject *py_format_names(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    CORE_RETURN_LIST(SPYRE_FORMAT_COUNT, PyUnicode_FromString(spyre_format_name((spyre_format)i)));
}

static PyObject *py_elements_per_stick(PyObject *Py_UNUSED(self), PyObject *number)
{
    uint32_t format;
    if (!core_u32(number, &format)) return NULL;
    return PyLong_FromUnsignedLong(spyre_format_elements_per_stick((spyre_format)format));
}

static PyObject *py_get_downcast_warning(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(downcast_warning);
}

static PyObject *py_set_downcast_warning(PyObject *Py_UNUSED(self), PyObject *value)
{
    int truth = PyObject_IsTrue(value);
    if (truth < 0) return NULL;
    downcast_warning = truth != 0;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_device_dtype", py_device_dtype, METH_O, "Number of the card format of a torch.dtype."},
    {"_format_names", py_format_names, METH_NOARGS, "Names of the card formats by number."},
    {"_elements_per_stick", py_elements_per_stick, METH_O, "(format number) -> int"},
    {"get_downcast_warning", py_get_downcast_warning, METH_NOARGS, NULL},
    {"set_downcast_warning", py_set_downcast_warning, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

bool dtype_register(PyObject *module)
{
    number_dtypes();
    PyObject *torch = PyImport_ImportModule("torch");
    for (int i = 0; torch && i < SPYRE_DTYPE_COUNT; i++) {
        objects[i] = PyObject_GetAttrString(torch, spyre_dtype_name((spyre_dtype)i));
        if (!objects[i]) break;
    }
    Py_XDECREF(torch);
    return !PyErr_Occurred() && PyModule_AddFunctions(module, methods) == 0;
}
