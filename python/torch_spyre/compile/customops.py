# SPDX-License-Identifier: Apache-2.0
"""The operators that torch-spyre defines beside PyTorch's: torch.ops.spyre.

Names and arguments are those of torch-spyre/torch-spyre, `torch_spyre/_inductor/customops.py`. All
are made of PyTorch's operators, on every device, for fake tensors and with gradients, and the
compiler sees those. Where a name says `cpu` or `fallback`, the compiler chooses the place all the
same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import _C
from .._pytorch.fake import has_values

FP8_MOST = 448.0  # the largest float8_e4m3fn

Function = TypeVar("Function", bound=Callable[..., Any])

_operators: list[tuple[str, Callable[..., Any]]] = []


def _operator(schema: str) -> Callable[[Function], Function]:
    """Decorator: the function is the operator of this schema and of its own name."""

    def add(function: Function) -> Function:
        _operators.append((schema, function))
        return function

    return add


# ---- activations, norms


@_operator("(Tensor input, float beta=1.0, float threshold=20.0) -> Tensor")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return F.softplus(input, beta, threshold)


@_operator("(Tensor input, str approximate='none') -> Tensor")
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(input, approximate=approximate)


@_operator("(Tensor input) -> Tensor")
def silu(input: Tensor) -> Tensor:
    return F.silu(input)


@_operator("(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor")
def clamp(input: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    return input.clone() if min is None and max is None else torch.clamp(input, min, max)


@_operator("(Tensor input) -> Tensor")
def logical_not(input: Tensor) -> Tensor:
    return torch.logical_not(input)


def _check_shape(name: str, normalized_shape: Sequence[int]) -> None:
    if len(normalized_shape) != 1:
        raise _C.Unsupported(
            f"spyre::{name}: a normalized_shape of length {len(normalized_shape)}, "
            "only 1 is supported"
        )


_NORM = "(Tensor x, int[] normalized_shape, Tensor? weight=None, {}float eps=1e-05) -> Tensor"


@_operator(_NORM.format("Tensor? bias=None, "))
def layer_norm(
    x: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    _check_shape("layer_norm", normalized_shape)
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


@_operator(_NORM.format(""))
def rms_norm(
    x: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    _check_shape("rms_norm", normalized_shape)
    return F.rms_norm(x, normalized_shape, weight, eps)


# The steps of layer_norm. On the card the first two hold a pair of numbers in the place of one,
# which no tensor of PyTorch has; there are shapes to trace with, and values in layer_norm alone.


def _step(name: str, x: Tensor, result: Tensor) -> Tensor:
    if not has_values(x):
        return result
    raise _C.Unsupported(
        f"spyre::{name} is a step of spyre::layer_norm and has no values by itself"
    )


@_operator("(Tensor x, float exx2Scale, bool useZeroMean) -> Tensor")
def exx2(x: Tensor, exx2Scale: float, useZeroMean: bool) -> Tensor:  # noqa: N803
    return _step("exx2", x, x.new_empty(x.shape[:-1]))


@_operator("(Tensor x, float eps) -> Tensor")
def layernormscale(x: Tensor, eps: float) -> Tensor:
    return _step("layernormscale", x, torch.empty_like(x))


@_operator(
    "(Tensor x, Tensor mean, Tensor norm_mean, Tensor? weight=None, Tensor? bias=None) -> Tensor"
)
def layernormnorm(
    x: Tensor,
    mean: Tensor,
    norm_mean: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    return _step("layernormnorm", x, torch.empty_like(x))


# ---- matrices, reductions


@_operator("(Tensor x, Tensor y) -> Tensor")
def batched_matmul(x: Tensor, y: Tensor) -> Tensor:
    return torch.matmul(x, y)


@_operator(
    "(Tensor input, int[] kernel_size, int[]? dilation=None, int[]? padding=None, "
    "int[]? stride=None) -> Tensor"
)
def unfold(
    input: Tensor,
    kernel_size: list[int],
    dilation: list[int] | None = None,
    padding: list[int] | None = None,
    stride: list[int] | None = None,
) -> Tensor:
    """im2col: [N, C, H, W] -> [N, C * kernel elements, places]."""
    return F.unfold(
        input, tuple(kernel_size), tuple(dilation or [1]), tuple(padding or [0]),
        tuple(stride or [1]),
    )  # fmt: skip


@_operator("(Tensor x, int k, int dim) -> Tensor")
def topkvalue(x: Tensor, k: int, dim: int) -> Tensor:
    return torch.topk(x, k, dim).values


@_operator("(Tensor x, int k, int dim) -> Tensor")
def topkindex(x: Tensor, k: int, dim: int) -> Tensor:
    """Indices in the dtype of x."""
    return torch.topk(x, k, dim).indices.to(x.dtype)


@_operator("(Tensor input) -> Tensor")
def max_default_int64_fallback(input: Tensor) -> Tensor:
    return torch.amax(input)


@_operator("(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)")
def max_dim_int64_fallback(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(input, dim, keepdim)
    return values, indices


@_operator("(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)")
def min_dim_int64_fallback(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.min(input, dim, keepdim)
    return values, indices


# ---- creation, copies, casts


@_operator("(int[] size, Device device, ScalarType? dtype=None) -> Tensor")
def empty(size: list[int], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(size, dtype=dtype, device=device)


@_operator("(Scalar fill_value, ScalarType dtype, Device device) -> Scalar")
def constant(fill_value: float, dtype: torch.dtype, device: torch.device) -> float:
    """Marks a number; it is the number."""
    return fill_value


@_operator("(Tensor input, ScalarType dtype) -> Tensor")
def to_dtype_cpu(input: Tensor, dtype: torch.dtype) -> Tensor:
    return input.to(dtype, copy=True)


@_operator("(Tensor input, int[] shape) -> Tensor")
def reshape_via_cpu(input: Tensor, shape: list[int]) -> Tensor:
    return input.reshape(shape).clone()


@_operator("(Tensor x) -> Tensor")
def restickify(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


@_operator("(Tensor src, Tensor(a!) dst) -> ()")
def copy_from_d2d(src: Tensor, dst: Tensor) -> None:
    dst.copy_(src)


def _part(output: Tensor, input: Tensor, dims: Sequence[int], offsets: Sequence[int]) -> Tensor:
    rank = input.dim()
    if len(dims) != len(offsets) or not all(-rank <= dim < rank for dim in dims):
        text = f"dims {dims}, offsets {offsets}: expected as many offsets as dims of 0..{rank - 1}"
        raise ValueError(f"overwrite: {text}")
    for dim, offset in zip(dims, offsets, strict=True):
        output = output.narrow(dim, offset, input.shape[dim])
    return output


@_operator("(Tensor input, Tensor(a!) output, int[] dims, int[] offsets) -> ()")
def overwrite(input: Tensor, output: Tensor, dims: list[int], offsets: list[int]) -> None:
    """Writes input into output from offsets on."""
    warnings.warn(
        "spyre::overwrite is deprecated: a slice of the output takes copy_()",
        DeprecationWarning,
        stacklevel=2,
    )
    _part(output, input, dims, offsets).copy_(input)


@_operator("(Tensor input, Tensor output, int[] dims, int[] offsets) -> Tensor")
def overwrite_f(input: Tensor, output: Tensor, dims: list[int], offsets: list[int]) -> Tensor:
    result = output.clone()
    _part(result, input, dims, offsets).copy_(input)
    return result


# ---- names of dims


@_operator("(Tensor tensor, str names) -> ()")
def name_dims(tensor: Tensor, names: str) -> None:
    """A mark that compile.py reads; what name_tensor_dims() is inside of a compiled function."""


# ---- fp8


@_operator("(Tensor input) -> Tensor")
def qfp8ch(input: Tensor) -> Tensor:
    return input.clamp(-FP8_MOST, FP8_MOST).to(torch.float8_e4m3fn)


@_operator("(Tensor input, Tensor scale) -> Tensor")
def quantize_fp8_with_scale(input: Tensor, scale: Tensor) -> Tensor:
    return qfp8ch(input * scale.reciprocal())


@_operator("(Tensor input, Tensor scale) -> Tensor")
def quantize_weight_fp8_with_scale(input: Tensor, scale: Tensor) -> Tensor:
    return quantize_fp8_with_scale(input, scale)


@_operator("(Tensor input, Tensor scale) -> Tensor")
def dequantize_fp8_with_scale(input: Tensor, scale: Tensor) -> Tensor:
    return input.to(scale.dtype) * scale


def composites() -> list[tuple[str, Callable[..., Any]]]:
    """(operator, what it is made of) of all of them."""
    return [(f"spyre.{function.__name__}.default", function) for _, function in _operators]


def register() -> torch.library.Library:
    """Defines the operators; they live as long as what is returned."""
    library = torch.library.Library("spyre", "FRAGMENT")
    for schema, function in _operators:
        library.define(function.__name__ + schema)
        library.impl(function.__name__, function, "CompositeImplicitAutograd")
    return library
