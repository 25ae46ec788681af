# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre: activations and norms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ... import _C
from ..._pytorch.fake import has_values
from .declare_operator import operator


@operator("(Tensor input, float beta=1.0, float threshold=20.0) -> Tensor")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return F.softplus(input, beta, threshold)


@operator("(Tensor input, str approximate='none') -> Tensor")
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(input, approximate=approximate)


@operator("(Tensor input) -> Tensor")
def silu(input: Tensor) -> Tensor:
    return F.silu(input)


@operator("(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor")
def clamp(input: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    return input.clone() if min is None and max is None else torch.clamp(input, min, max)


@operator("(Tensor input) -> Tensor")
def logical_not(input: Tensor) -> Tensor:
    return torch.logical_not(input)


def _check_shape(name: str, normalized_shape: Sequence[int]) -> None:
    if len(normalized_shape) != 1:
        raise _C.Unsupported(
            f"spyre::{name}: a normalized_shape of length {len(normalized_shape)}, "
            "only 1 is supported"
        )


_NORM = "(Tensor x, int[] normalized_shape, Tensor? weight=None, {}float eps=1e-05) -> Tensor"


@operator(_NORM.format("Tensor? bias=None, "))
def layer_norm(
    x: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    _check_shape("layer_norm", normalized_shape)
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


@operator(_NORM.format(""))
def rms_norm(
    x: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    _check_shape("rms_norm", normalized_shape)
    return F.rms_norm(x, normalized_shape, weight, eps)


@operator(
    "(Tensor distances, Tensor part, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)"
    " -> Tensor"
)
def counted_layer_norm(
    distances: Tensor,
    part: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """What layer_norm does with distances from the mean along the last dim, of which those that
    count are each `part` of a whole, float32 of rank 0, and the others are 0."""
    x, dtype = distances.float(), distances.dtype
    mean, square = ((of.sum(-1, True) * part).to(dtype).float() for of in (x, x * x))
    made = (x - mean) * ((square - mean * mean).clamp_min(0) + eps).rsqrt().to(dtype)
    made = made if weight is None else made * weight
    return (made if bias is None else made + bias).to(dtype)


# The steps of layer_norm. On the card the first two hold a pair of numbers in the place of one,
# which no tensor of PyTorch has; there are shapes to trace with, and values in layer_norm alone.


def _step(name: str, x: Tensor, result: Tensor) -> Tensor:
    if not has_values(x):
        return result
    raise _C.Unsupported(
        f"spyre::{name} is a step of spyre::layer_norm and has no values by itself"
    )


@operator("(Tensor x, float exx2Scale, bool useZeroMean) -> Tensor")
def exx2(x: Tensor, exx2Scale: float, useZeroMean: bool) -> Tensor:  # noqa: N803
    return _step("exx2", x, x.new_empty(x.shape[:-1]))


@operator("(Tensor x, float eps) -> Tensor")
def layernormscale(x: Tensor, eps: float) -> Tensor:
    return _step("layernormscale", x, torch.empty_like(x))


@operator(
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
