// SPDX-License-Identifier: Apache-2.0
//
// The part of libtorch_python that leads from Python objects to tensors and back, in the limited
// API of Python. PyTorch's own headers (torch/csrc/autograd/python_variable.h,
// torch/csrc/Generator.h) include pybind11, whose inline functions call private functions of one
// Python version (_PyThreadState_UncheckedGet is missing from 3.13 on), so the declarations are
// written out here; names, types and the place of the tensor are those of PyTorch 2.13.
#ifndef CORE_PYTHON_TENSOR_H
#define CORE_PYTHON_TENSOR_H

#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace torch {
// Of torch/csrc/Exceptions.h: an exception that PyTorch's bindings raise as `python_type()`.
struct PyTorchError : public std::exception {
    virtual PyObject *python_type() = 0;
    const char *what() const noexcept override { return msg.c_str(); }
    std::string msg;
};
// Sets the exception as PyTorch's bindings raise it; with Python's lock.
void translate_exception_to_python(const std::exception_ptr &exception);
}  // namespace torch

// Of torch/csrc/Exceptions.h: an exception of Python on its way through C++, which PyTorch's
// bindings set again as it was. Owns the three objects.
struct python_error : public std::exception {
    python_error(void *const exception[3])
        : type(static_cast<PyObject *>(exception[0])),
          value(static_cast<PyObject *>(exception[1])),
          traceback(static_cast<PyObject *>(exception[2]))
    {
    }
    python_error(const python_error &) = delete;
    python_error &operator=(const python_error &) = delete;
    ~python_error() override
    {
        if (!type && !value && !traceback) return;
        PyGILState_STATE gil = PyGILState_Ensure();
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        PyGILState_Release(gil);
    }
    const char *what() const noexcept override { return message.c_str(); }
    PyObject *type, *value, *traceback;

protected:
    std::string message = "python_error";
};

// The head of a torch.Tensor object; more fields follow.
struct THPVariable {
    PyObject_HEAD
    at::Tensor cdata;
};

extern PyObject *THPVariableClass;      // torch.Tensor
extern PyObject *ParameterClass;        // torch.nn.Parameter

// A new reference, or null with an exception set.
PyObject *THPVariable_Wrap(at::TensorBase &&tensor);
PyObject *THPGenerator_Wrap(const at::Generator &generator);

// False for an object whose class cannot be asked, too.
inline bool python_is_tensor(PyObject *object)
{
    PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
    if (type == THPVariableClass || type == ParameterClass) return true;
    int answer = PyObject_IsInstance(object, THPVariableClass);
    if (answer < 0) PyErr_Clear();
    return answer > 0;
}

#endif
