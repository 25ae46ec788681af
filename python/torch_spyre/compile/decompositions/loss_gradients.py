# SPDX-License-Identifier: Apache-2.0
"""Gradients of losses that are linear far from their targets: what the loss is multiplied with is a
clamp of the distance. PyTorch's decompositions compare it with the bound and take one of two."""

from __future__ import annotations

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import HALVES

_aten = torch.ops.aten
_MEAN = 1  # of PyTorch's Reduction


@part(_aten.smooth_l1_loss_backward.default)
def _smooth_l1_loss_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, beta: float
) -> torch.Tensor | NotTaken:
    """grad * (x - target) / beta, from -grad to grad; of beta 0 grad * sign(x - target)."""
    if beta <= 0:
        return NOT_TAKEN
    return _clamped(grad, x, target, reduction, beta, 1 / beta)


@part(_aten.huber_loss_backward.default)
def _huber_loss_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, delta: float
) -> torch.Tensor | NotTaken:
    """grad * (x - target), from -grad * delta to grad * delta."""
    return _clamped(grad, x, target, reduction, delta, 1.0)


def _clamped(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    reduction: int,
    bound: float,
    factor: float,
) -> torch.Tensor:
    """factor * grad * (x - target), the distance cut at the bounds; in float32, as PyTorch's."""
    wide = torch.float32 if x.dtype in HALVES else x.dtype
    factor = factor / x.numel() if reduction == _MEAN else factor
    distance = (x.to(wide) - target.to(wide)).clamp(-bound, bound)
    result = grad.to(wide) * distance
    return (result if factor == 1 else result * factor).to(x.dtype)
