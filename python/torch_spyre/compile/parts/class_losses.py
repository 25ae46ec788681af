# SPDX-License-Identifier: Apache-2.0
"""Gradients of losses over classes: every element is compared with the class that is wanted there.
PyTorch's decompositions write the few into zeros, which is a pass more over the result and a
scatter that what stands around it waits for. What is no class has been refused by the loss."""

from __future__ import annotations

import torch

from ..registered import part
from .lines import as_stored, count

_aten = torch.ops.aten
_MEAN = 1  # of PyTorch's Reduction


@part(_aten.nll_loss_backward.default, _aten.nll_loss2d_backward.default, narrow=True)
def _nll_loss_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    """Of x [N, C, ..] or [C] with targets [N, ..] or one: -grad * weight at the target's class."""
    dim = 1 if x.dim() > 1 else 0
    by_class = [-1 if d == dim else 1 for d in range(x.dim())]
    target = target.reshape(-1)[0] if dim == 0 else target
    target = target.unsqueeze(dim)
    if reduction == _MEAN:
        grad = grad / total_weight
    if 0 < grad.dim() < x.dim():
        grad = grad.unsqueeze(dim)
    if weight is not None:
        grad = grad * weight.reshape(by_class)
    counts = torch.where(target != ignore_index, -grad, 0)
    classes = count(x.shape[dim], x).reshape(by_class)
    return as_stored(torch.where(classes == target, counts, 0), x)
