# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre: creation, copies, casts, names of dims."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from .declare_operator import operator


@operator("(int[] size, Device device, ScalarType? dtype=None) -> Tensor")
def empty(size: list[int], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(size, dtype=dtype, device=device)


@operator("(Scalar fill_value, ScalarType dtype, Device device) -> Scalar")
def constant(fill_value: float, dtype: torch.dtype, device: torch.device) -> float:
    """Marks a number; it is the number."""
    return fill_value


@operator("(Tensor input, ScalarType dtype) -> Tensor")
def to_dtype_cpu(input: Tensor, dtype: torch.dtype) -> Tensor:
    return input.to(dtype, copy=True)


@operator("(Tensor input, int[] shape) -> Tensor")
def reshape_via_cpu(input: Tensor, shape: list[int]) -> Tensor:
    return input.reshape(shape).clone()


@operator("(Tensor x) -> Tensor")
def restickify(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


@operator("(Tensor x) -> Tensor")
def compact(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


@operator("(Tensor x, int dim) -> Tensor")
def tile_dim_marker(x: Tensor, dim: int) -> Tensor:
    """A copy: tiles are chosen without the mark."""
    return x.clone()


# Where a tensor begins in its memory travels with the tensor: the offsets say nothing more.


@operator("(Tensor src, Tensor(a!) dst, int src_off=0, int dst_off=0) -> ()")
def copy_from_d2d(src: Tensor, dst: Tensor, src_off: int = 0, dst_off: int = 0) -> None:
    dst.copy_(src)


@operator("(Tensor src, ScalarType dtype, int src_off=0) -> Tensor")
def to_dtype_d2d(src: Tensor, dtype: torch.dtype, src_off: int = 0) -> Tensor:
    return src.to(dtype, copy=True)


@operator("(Tensor src, Tensor dst) -> Tensor")
def copy_forced(src: Tensor, dst: Tensor) -> Tensor:
    """A new tensor of dst's shape and dtype with the values of src; dst stays as it is."""
    return torch.empty_like(dst).copy_(src)


@operator("(Tensor value, Tensor acc) -> Tensor")
def opaque_copy_(value: Tensor, acc: Tensor) -> Tensor:
    """The new value of a loop's accumulator: `acc = opaque_copy_(value, acc)`."""
    return value.clone()


@operator("(Tensor x) -> Tensor")
def stagger_to_standard_ea(x: Tensor) -> Tensor:
    """A copy in the order of the host, which casts of this stack keep."""
    return x.clone(memory_format=torch.contiguous_format)


def _part(output: Tensor, input: Tensor, dims: Sequence[int], offsets: Sequence[int]) -> Tensor:
    rank = input.dim()
    if len(dims) != len(offsets) or not all(-rank <= dim < rank for dim in dims):
        text = f"dims {dims}, offsets {offsets}: expected as many offsets as dims of 0..{rank - 1}"
        raise ValueError(f"overwrite: {text}")
    for dim, offset in zip(dims, offsets, strict=True):
        output = output.narrow(dim, offset, input.shape[dim])
    return output


@operator("(Tensor input, Tensor(a!) output, int[] dims, int[] offsets) -> ()")
def overwrite(input: Tensor, output: Tensor, dims: list[int], offsets: list[int]) -> None:
    """Writes input into output from offsets on."""
    warnings.warn(
        "spyre::overwrite is deprecated: a slice of the output takes copy_()",
        DeprecationWarning,
        stacklevel=2,
    )
    _part(output, input, dims, offsets).copy_(input)


@operator("(Tensor input, Tensor output, int[] dims, int[] offsets) -> Tensor")
def overwrite_f(input: Tensor, output: Tensor, dims: list[int], offsets: list[int]) -> Tensor:
    result = output.clone()
    _part(result, input, dims, offsets).copy_(input)
    return result


@operator("(Tensor tensor, str names) -> ()")
def name_dims(tensor: Tensor, names: str) -> None:
    """A mark that compile.py reads; what name_tensor_dims() is inside of a compiled function."""
