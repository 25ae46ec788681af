# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre: products, convolutions, reductions, orders."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .declare_operator import operator


@operator("(Tensor x, Tensor y) -> Tensor")
def batched_matmul(x: Tensor, y: Tensor) -> Tensor:
    return torch.matmul(x, y)


_CONVOLUTION = (
    "(Tensor input, Tensor weight, {}int[] stride, int[] padding, int[] dilation, int groups)"
    " -> Tensor"
)


@operator(_CONVOLUTION.format(""))
def conv2d(
    input: Tensor,
    weight: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    return F.conv2d(input, weight, None, stride, padding, dilation, groups)


@operator(_CONVOLUTION.format("Tensor? bias, "))
def conv2d_with_bias(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


@operator("(Tensor input, int dim, bool keepdim=False) -> Tensor")
def prod_dim_int(input: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    return torch.prod(input, dim, keepdim)


@operator(
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


@operator("(Tensor x, int k, int dim) -> Tensor")
def topkvalue(x: Tensor, k: int, dim: int) -> Tensor:
    return torch.topk(x, k, dim).values


@operator("(Tensor x, int k, int dim) -> Tensor")
def topkindex(x: Tensor, k: int, dim: int) -> Tensor:
    """Indices in the dtype of x."""
    return torch.topk(x, k, dim).indices.to(x.dtype)


@operator("(Tensor values, Tensor indices, int dim, Scalar fill_value) -> Tensor")
def keep_by_index(values: Tensor, indices: Tensor, dim: int, fill_value: float) -> Tensor:
    """values where an index of their line names them, else fill_value."""
    places = indices.to(torch.int64)
    return torch.full_like(values, fill_value).scatter(dim, places, values.gather(dim, places))


@operator("(Tensor input) -> Tensor")
def max_default_int64_fallback(input: Tensor) -> Tensor:
    return torch.amax(input)


@operator("(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)")
def max_dim_int64_fallback(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(input, dim, keepdim)
    return values, indices


@operator("(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)")
def min_dim_int64_fallback(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.min(input, dim, keepdim)
    return values, indices
