# SPDX-License-Identifier: Apache-2.0
"""`torch._weight_norm` and its backward function, of which PyTorch has no decomposition."""

from __future__ import annotations

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import FLOATS

_aten = torch.ops.aten


def _others(v: torch.Tensor, dim: int) -> list[int]:
    """Dims of which a norm is taken. None of a vector, where PyTorch's functions take them for
    all."""
    return [d for d in range(v.dim()) if d != dim % v.dim()]


@part(_aten._weight_norm_interface.default)
def weight_norm(
    v: torch.Tensor, g: torch.Tensor, dim: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """v * g / norms along `dim`, and the norms, in float32 where g is bfloat16."""
    others = _others(v, dim)
    kept = torch.float32 if g.dtype is torch.bfloat16 else g.dtype
    norms = v.norm(2, others, keepdim=True, dtype=kept) if others else v.abs().to(kept)
    return v * (g / norms.to(g.dtype)), norms


@part(_aten._weight_norm_interface_backward.default)
def weight_norm_backward(
    grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    """Gradients of v and of g, where g scales v / norms along `dim`; in float32, since what is left
    of `grad` beside v may be little."""
    if v.dtype not in FLOATS or v.numel() == 0:
        return NOT_TAKEN
    others = _others(v, dim)
    wide, along = grad.float(), v.float()
    norms = norms.float()
    to_g = (wide * along).sum(others, keepdim=True) / norms if others else wide * along / norms
    to_v = g.float() / norms * (wide - along * (to_g / norms))
    return to_v.to(v.dtype), to_g.to(g.dtype)
