# SPDX-License-Identifier: Apache-2.0
"""The backward function of `torch._weight_norm`, of which PyTorch has no decomposition."""

from __future__ import annotations

import torch

from ..registered import NOT_TAKEN, NotTaken, part
from .lines import FLOATS

_aten = torch.ops.aten


@part(_aten._weight_norm_interface_backward.default)
def weight_norm_backward(
    grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    """Gradients of v and of g, where g scales v / norms along `dim`; in float32, since what is left
    of `grad` beside v may be little."""
    if v.dtype not in FLOATS or v.numel() == 0:
        return NOT_TAKEN
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    wide, along = grad.float(), v.float()
    norms = norms.float()
    to_g = (wide * along).sum(others, keepdim=True) / norms if others else wide * along / norms
    to_v = g.float() / norms * (wide - along * (to_g / norms))
    return to_v.to(v.dtype), to_g.to(g.dtype)
