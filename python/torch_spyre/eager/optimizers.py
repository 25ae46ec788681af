# SPDX-License-Identifier: Apache-2.0
"""Steps of fused optimizers and of the gradient scaler, of the card's operators: in float32, as
PyTorch's kernels compute them, whatever the dtype that parameters and states are kept in."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Tensors = Sequence[Tensor]


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float32)


def _gradient(
    grad: Tensor, x: Tensor, scale: Tensor | None, maximize: bool, decay: float
) -> Tensor:
    """Without its scale, which the kernels take out of the gradient itself, and with the decay of
    the weight."""
    if scale is not None:
        grad.copy_(_wide(grad) / scale)
    wide = -_wide(grad) if maximize else _wide(grad)
    return wide + decay * _wide(x) if decay else wide


def _adam(
    decoupled: bool,
    parameters: Tensors,
    grads: Tensors,
    means: Tensors,
    squares: Tensors,
    largest: Tensors,
    steps: Tensors,
    *,
    lr: float | Tensor,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
) -> None:
    """torch.optim.Adam; of AdamW the decay is `decoupled` from the gradient."""
    rate, decay = float(lr), 0.0 if decoupled else weight_decay
    for n, (x, grad, mean, square) in enumerate(
        zip(parameters, grads, means, squares, strict=True)
    ):
        step = steps[n].item()
        g = _gradient(grad, x, grad_scale, maximize, decay)
        value = _wide(x) * (1 - rate * weight_decay) if decoupled and weight_decay else _wide(x)
        m = beta1 * _wide(mean) + (1 - beta1) * g
        v = beta2 * _wide(square) + (1 - beta2) * g * g
        most = torch.maximum(_wide(largest[n]), v) if amsgrad else v
        root = most.sqrt() / math.sqrt(1 - beta2**step) + eps
        x.copy_(value - rate / (1 - beta1**step) * (m / root))
        mean.copy_(m)
        square.copy_(v)
        if amsgrad:
            largest[n].copy_(most)


def _sgd(
    parameters: Tensors,
    grads: Tensors,
    buffers: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
) -> None:
    for n, (x, grad) in enumerate(zip(parameters, grads, strict=True)):
        g = _gradient(grad, x, grad_scale, maximize, weight_decay)
        if momentum:
            kept = g if is_first_step else momentum * _wide(buffers[n]) + (1 - dampening) * g
            buffers[n].copy_(kept)
            g = g + momentum * kept if nesterov else kept
        x.copy_(_wide(x) - float(lr) * g)


def _adagrad(
    parameters: Tensors,
    grads: Tensors,
    sums: Tensors,
    steps: Tensors,
    *,
    lr: float | Tensor,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
) -> None:
    for x, grad, total, step in zip(parameters, grads, sums, steps, strict=True):
        g = _gradient(grad, x, grad_scale, maximize, weight_decay)
        s = _wide(total) + g * g
        rate = float(lr) / (1 + (step.item() - 1) * lr_decay)
        x.copy_(_wide(x) - rate * (g / (s.sqrt() + eps)))
        total.copy_(s)


def _unscale(grads: Tensors, found_inf: Tensor, inverse: Tensor) -> None:
    """Notes a gradient that is no number before it loses its scale."""
    for grad in grads:
        broken = (~torch.isfinite(grad)).any().to(torch.float32)
        found_inf.copy_(torch.maximum(found_inf, broken))
        grad.copy_(_wide(grad) * inverse)


def _update_scale(
    scale: Tensor, tracker: Tensor, found_inf: Tensor, growth: float, backoff: float, interval: int
) -> Tensor:
    """Smaller after a step that was left out, larger after `interval` steps that were not."""
    broken, steps = found_inf > 0, tracker + 1
    grown = scale * growth
    grows = (steps == interval) & torch.isfinite(grown)
    done = torch.where(broken | (steps == interval), 0, steps)
    scale.copy_(torch.where(broken, scale * backoff, torch.where(grows, grown, scale)))
    tracker.copy_(done)
    return scale


def _unless_broken(update: Callable[..., None]) -> Callable[..., None]:
    """A step that is left out where the scaler has found a gradient that is no number."""

    def step(*args: Any, found_inf: Tensor | None = None, **options: Any) -> None:
        if found_inf is None or not found_inf.item():
            update(*args, **options)

    return step


def register(aten: torch.library.Library, untraced: Callable[[Any], Any]) -> None:
    adam, adamw = (functools.partial(_adam, decoupled) for decoupled in (False, True))
    updates: dict[str, Callable[..., None]] = {
        "adam": adam,
        "adamw": adamw,
        "sgd": _sgd,
        "adagrad": _adagrad,
    }
    for name, update in updates.items():
        for overload in ("", ".tensor_lr"):
            aten.impl(f"_fused_{name}_{overload}", untraced(_unless_broken(update)))
    aten.impl("_amp_foreach_non_finite_check_and_unscale_", untraced(_unscale))
    aten.impl("_amp_update_scale_", untraced(_update_scale))
