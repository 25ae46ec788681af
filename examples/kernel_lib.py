# SPDX-License-Identifier: Apache-2.0
"""Kernels of the card without PyTorch: libspyre's C interface by ctypes, NumPy arrays in and out.

`build` compiles one operation for the shapes that it gets and returns the kernel as bytes; `Kernel`
runs such bytes, in this process or in another. Numbers are float16.
"""

import ctypes
import os
import pathlib
import sysconfig

import numpy as np

NAMES = ("relu", "matmul", "softmax")


class SpyreError(RuntimeError):
    """What a function of the library answered."""


class HostTensor(ctypes.Structure):  # spyre_host_tensor of include/spyre/deploy.h
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("byte_count", ctypes.c_int64),
        ("dtype", ctypes.c_int),
    ]


def _load():
    package = pathlib.Path(sysconfig.get_path("platlib"), "torch_spyre", "lib")
    path = os.environ.get("SPYRE_LIBRARY") or next(package.glob("libspyre.so.*"), "libspyre.so")
    library = ctypes.CDLL(str(path))
    library.spyre_status_message.restype = ctypes.c_char_p
    return library


_library = _load()


def _call(name, *arguments):
    """Calls a function that returns a status."""
    function = getattr(_library, name)
    function.restype = ctypes.c_void_p
    if status := function(*arguments):
        message = _library.spyre_status_message(ctypes.c_void_p(status)).decode()
        _library.spyre_status_free(ctypes.c_void_p(status))
        raise SpyreError(message)


def _new(name, *arguments):
    """Calls a function whose last argument is where the new object goes."""
    made = ctypes.c_void_p()
    _call(name, *arguments, ctypes.byref(made))
    return made


_context = _new("spyre_context_create", 1)
_float16 = ctypes.c_int()
_call("spyre_dtype_named", b"float16", ctypes.byref(_float16))


# ---- compiling


def result_shape(name, shapes):
    return (*shapes[0][:-1], shapes[1][-1]) if name == "matmul" else tuple(shapes[0])


def graph_of(name, shapes, dim=-1):
    """The operation as a graph (docs/graph-text.md)."""
    calls = {
        "relu": "aten.relu.default(%a)",
        "matmul": "aten.matmul.default(%a, %b)",
        "softmax": f"aten._softmax.default(%a, {dim}, false)",
    }
    inputs = [f"input %{v}: f16{list(s)}" for v, s in zip("ab", shapes, strict=False)]
    result = f"%r = {calls[name]} -> f16{list(result_shape(name, shapes))}"
    return "\n".join([*inputs, result, "return %r", ""])


def build(name, shapes, **parameters):
    """The kernel as bytes, with the library's own version and checksum."""
    text = graph_of(name, shapes, **parameters).encode()
    graph = _new("spyre_graph_parse", text, name.encode())
    executable = _new("spyre_compile", graph, None)
    length = ctypes.c_size_t()
    encoded = ctypes.c_void_p()
    _call("spyre_executable_encode", executable, ctypes.byref(encoded), ctypes.byref(length))
    code = ctypes.string_at(encoded, length.value)
    _library.spyre_bytes_free(encoded)
    _library.spyre_executable_destroy(executable)
    _library.spyre_graph_destroy(graph)
    return code


# ---- running


class Kernel:
    """A kernel from its bytes; called with arrays, it gives an array of `shape`."""

    def __init__(self, code, shape):
        self.shape = tuple(shape)
        self.executable = _new("spyre_executable_decode", code, ctypes.c_size_t(len(code)))

    def __call__(self, *arrays):
        arrays = [np.ascontiguousarray(array, np.float16) for array in arrays]
        result = np.empty(self.shape, np.float16)
        inputs = (HostTensor * len(arrays))(*map(_tensor, arrays))
        output = _tensor(result)
        _call("spyre_executable_run", _context, 0, self.executable, inputs, len(arrays),
              ctypes.byref(output), 1)  # fmt: skip
        return result

    def __del__(self):
        if hasattr(self, "executable"):
            _library.spyre_executable_destroy(self.executable)


def _tensor(array):
    return HostTensor(array.ctypes.data, array.nbytes, _float16)
