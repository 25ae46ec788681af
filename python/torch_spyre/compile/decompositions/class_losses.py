# SPDX-License-Identifier: Apache-2.0
"""Gradients of losses over classes. In graphs every element is compared with the class that is
wanted there: PyTorch's decompositions write the few into zeros, which is a pass more over the
result and a scatter that what stands around it waits for. Alone, that is the shorter way. What is
no class has been refused by the loss."""

from __future__ import annotations

import torch

from ..register_decomposition import alone, part
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
    dim, target = _by_class(x, target)
    grad = _of_targets(grad, x, reduction, total_weight)
    by_class = [-1 if d == dim else 1 for d in range(x.dim())]
    if weight is not None:
        grad = grad * weight.reshape(by_class)
    counts = torch.where(target != ignore_index, -grad, 0)
    classes = count(x.shape[dim], x).reshape(by_class)
    return as_stored(torch.where(classes == target, counts, 0), x)


@alone(_aten.nll_loss_backward.default, _aten.nll_loss2d_backward.default, narrow=True)
def _nll_loss_backward_alone(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    """The same."""
    dim, target = _by_class(x, target)
    grad = _of_targets(grad, x, reduction, total_weight)
    counted = target != ignore_index
    target = torch.where(counted, target, 0)
    if weight is not None:
        grad = grad * weight[target]
    counts = torch.where(counted, -grad, 0).to(x.dtype)
    return as_stored(torch.zeros_like(x).scatter(dim, target, counts), x)


def _by_class(x: torch.Tensor, target: torch.Tensor) -> tuple[int, torch.Tensor]:
    """The dim of classes, and targets with that of one element."""
    if x.dim() > 1:
        return 1, target.unsqueeze(1)
    return 0, target.reshape(1)


def _of_targets(
    grad: torch.Tensor, x: torch.Tensor, reduction: int, total_weight: torch.Tensor
) -> torch.Tensor:
    """The gradient of each target's loss, of one element along the dim of classes."""
    if reduction == _MEAN:
        grad = grad / total_weight
    return grad.unsqueeze(1) if 0 < grad.dim() < x.dim() else grad
