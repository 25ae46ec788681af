# SPDX-License-Identifier: Apache-2.0
"""Element-wise functions whose decompositions compute in float32 what the card has in 16 bits."""

from __future__ import annotations

import math

import torch

from ...register_decomposition import NOT_TAKEN, NotTaken, part
from ..lines import FLOATS, computed, is_composed

_aten = torch.ops.aten


@part(_aten.gelu_backward.default)
def gelu_backward(
    grad: torch.Tensor, x: torch.Tensor, *, approximate: str = "none"
) -> torch.Tensor | NotTaken:
    """Both forms, as forward has one; in float32 forward has two."""
    if x.dtype not in computed() or grad.dtype != x.dtype:
        return NOT_TAKEN
    if approximate == "tanh" and x.dtype == torch.float32:
        return NOT_TAKEN
    below = (x * -math.sqrt(0.5)).erfc().float() * 0.5  # of the normal distribution, up to x
    wide = x.float()
    density = (wide * wide * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    tail = wide.clamp(-30, 30) * density  # not infinity times 0
    return (grad.float() * (below + tail)).to(x.dtype)


@part(_aten.binary_cross_entropy.default)
def binary_cross_entropy(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, reduction: int = 1
) -> torch.Tensor | NotTaken:
    if x.dtype not in computed() or target.dtype != x.dtype:
        return NOT_TAKEN
    high, low = (y.clamp(min=-100.0) for y in (x.log(), (-x).log1p()))
    loss = (target - 1) * low - target * high
    loss = loss if weight is None else loss * weight
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


@part(_aten.hardshrink.default)
def hardshrink(x: torch.Tensor, limit: float = 0.5) -> torch.Tensor | NotTaken:
    """The opfuncs of both are of 16 bits."""
    if x.dtype != torch.float32:
        return NOT_TAKEN
    return torch.where((x >= -limit) & (x <= limit), 0.0, x)


@part(_aten.softshrink.default)
def softshrink(x: torch.Tensor, limit: float = 0.5) -> torch.Tensor | NotTaken:
    """A NaN stays one."""
    if x.dtype != torch.float32:
        return NOT_TAKEN
    return torch.where(x > limit, x - limit, torch.where(x < -limit, x + limit, x * 0.0))


@part(_aten.hardshrink_backward.default)
def hardshrink_backward(
    grad: torch.Tensor, x: torch.Tensor, limit: float
) -> torch.Tensor | NotTaken:
    if x.dtype not in FLOATS or grad.dtype != x.dtype:
        return NOT_TAKEN
    return torch.where((x >= -limit) & (x <= limit), 0.0, grad)


@part(_aten.softshrink_backward.default)
def softshrink_backward(
    grad: torch.Tensor, x: torch.Tensor, limit: float
) -> torch.Tensor | NotTaken:
    return hardshrink_backward(grad, x, limit)


@part(_aten.rrelu_with_noise_functional.default)
def rrelu(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    """Outside of training, where the slope is the mean and the noise stays."""
    if training or x.dtype not in FLOATS or x.shape != noise.shape:
        return NOT_TAKEN
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise.clone()


@part(_aten.rrelu_with_noise_backward.default)
def rrelu_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> torch.Tensor | NotTaken:
    if training or self_is_result or x.dtype not in FLOATS:
        return NOT_TAKEN
    return torch.where(x > 0, grad, grad * ((lower + upper) / 2))


@part(_aten.tanh.default)
def tanh(x: torch.Tensor) -> torch.Tensor | NotTaken:
    """Of float32: -t / (t + 2) with t = e^(-2 |x|) - 1, away from 0 as 1 - 2 / (e^(2 |x|) + 1);
    within 3.5 units of the last place."""
    if not is_composed(x.dtype):
        return NOT_TAKEN
    size = x.abs()
    below = (size * -2).expm1()
    near = below / (-2 - below)
    size = torch.where(size < 0.5, near, 1 - 2 / ((size * 2).exp() + 1))
    return torch.where(x < 0, -size, size)
