# SPDX-License-Identifier: Apache-2.0
"""Operators whose composition by PyTorch cancels in 16 bits or leaves their range on the way, in
forms that do not."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from ...registry import register_spyre_decomposition
from ..decompositions.lines import computed

_aten = torch.ops.aten
_MEAN, _SUM = 1, 2  # aten's numbers of reductions


_ROOT = -math.sqrt(0.5)
_ROOT_HIGH = round(_ROOT * 4096) / 4096  # times 12 bits it is exact in float32


def _exact_ndtr(x: torch.Tensor) -> torch.Tensor:
    """Of float32. In the tail erfc makes 200 units of the last place of half a unit of its operand:
    what its rounding lost is made up for by the slope."""
    x = x.clamp(-40.0, 40.0)
    large = x * 4097
    high = large - (large - x)
    low = x - high
    root = x * _ROOT
    lost = (high * _ROOT_HIGH - root) + high * (_ROOT - _ROOT_HIGH) + low * _ROOT
    slope = (-root * root).exp() * (2 / math.sqrt(math.pi))
    result: torch.Tensor = (torch.special.erfc(root) - lost * slope) * 0.5
    return result


@register_spyre_decomposition(_aten.special_ndtr.default)
def ndtr(x: torch.Tensor) -> Any:
    """Phi(x) of any sizes. (1 + erf(x / sqrt 2)) / 2 is 0 in 16 bits from x = -3.4 on."""
    if x.dtype not in computed():
        return NotImplemented
    if x.dtype == torch.float32:
        return _exact_ndtr(x)
    return (torch.special.erfc(x.float() * _ROOT) * 0.5).to(x.dtype)


@register_spyre_decomposition(_aten.soft_margin_loss.default)
def soft_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN) -> Any:
    """log(1 + exp(-x * target)), whose exponential leaves the range of 16 bits from 23 on."""
    if not x.is_floating_point():
        return NotImplemented
    loss = F.softplus(-x * target)
    if reduction == _MEAN:
        return loss.mean()
    return loss.sum() if reduction == _SUM else loss


@register_spyre_decomposition(_aten.soft_margin_loss_backward.default)
def soft_margin_loss_backward(
    gradient: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int
) -> Any:
    """-target * e / (1 + e) with the same exponential e."""
    if not x.is_floating_point():
        return NotImplemented
    result = -target * torch.sigmoid(-x * target) * gradient
    return result / result.numel() if reduction == _MEAN else result
