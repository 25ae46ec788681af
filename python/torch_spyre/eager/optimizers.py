# SPDX-License-Identifier: Apache-2.0
"""Steps of fused optimizers and of the gradient scaler, of the card's operators: in float32, as
PyTorch's kernels compute them, whatever the dtype that parameters and states are kept in."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .list_updates import Update

Tensors = Sequence[Tensor]


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float32)


def _sign(maximize: bool) -> float | None:
    return -1.0 if maximize else None


def _gradient(
    grad: Tensor, x: Tensor, scale: Tensor | None, sign: float | None, decay: float | None
) -> Tensor:
    """Without its scale, which the kernels take out of the gradient itself, and with the decay of
    the weight."""
    if scale is not None:
        grad.copy_(_wide(grad) / scale)
    g = _wide(grad) if sign is None else _wide(grad) * sign
    return g if decay is None else g + _wide(x) * decay


def _by_step(
    states: Iterable[tuple[Tensor | None, ...]], steps: Tensors
) -> Iterator[tuple[float, list[tuple[Tensor | None, ...]]]]:
    """States with as many steps behind them, in order."""
    numbers = [step.item() for step in steps]
    for step, pairs in itertools.groupby(zip(numbers, states, strict=True), lambda pair: pair[0]):
        yield step, [state for _, state in pairs]


@Update
def _update_adam(
    x: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    largest: Tensor | None,
    scale: Tensor | None,
    sign: float | None,
    decay: float | None,  # of the gradient
    kept: float | None,  # of the weight
    beta1: float,
    rest1: float,
    beta2: float,
    rest2: float,
    root: float,
    eps: float,
    rate: float,
) -> None:
    g = _gradient(grad, x, scale, sign, decay)
    value = _wide(x) if kept is None else _wide(x) * kept
    m = _wide(mean) * beta1 + g * rest1
    v = _wide(square) * beta2 + g * rest2 * g
    most = v if largest is None else torch.maximum(_wide(largest), v)
    x.copy_(value - m / (most.sqrt() / root + eps) * rate)
    mean.copy_(m)
    square.copy_(v)
    if largest is not None:
        largest.copy_(most)


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
    rate, sign = float(lr), _sign(maximize)
    kept = 1 - rate * weight_decay if decoupled and weight_decay else None
    decay = None if decoupled else weight_decay or None
    betas = (beta1, 1 - beta1, beta2, 1 - beta2)
    most = itertools.repeat(None) if not amsgrad else largest
    states = zip(parameters, grads, means, squares, most, strict=False)
    for step, together in _by_step(states, steps):
        root, rate_of_step = math.sqrt(1 - beta2**step), rate / (1 - beta1**step)
        numbers = (sign, decay, kept, *betas, root, eps, rate_of_step)
        _update_adam(together, grad_scale, *numbers)


@Update
def _update_sgd(
    x: Tensor,
    grad: Tensor,
    buffer: Tensor | None,
    scale: Tensor | None,
    sign: float | None,
    decay: float | None,
    momentum: float | None,  # None where there is no earlier step
    rest: float | None,
    ahead: float | None,  # of Nesterov
    rate: float,
) -> None:
    g = _gradient(grad, x, scale, sign, decay)
    if buffer is not None:
        kept = g
        if momentum is not None and rest is not None:
            kept = _wide(buffer) * momentum + g * rest
        buffer.copy_(kept)
        g = kept if ahead is None else g + kept * ahead
    x.copy_(_wide(x) - g * rate)


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
    how = (grad_scale, _sign(maximize), weight_decay or None)
    old = (None, None) if is_first_step or not momentum else (momentum, 1 - dampening)
    ahead = momentum if nesterov and momentum else None
    kept = buffers if momentum else itertools.repeat(None)
    states = list(zip(parameters, grads, kept, strict=False))
    _update_sgd(states, *how, *old, ahead, float(lr))


@Update
def _update_adagrad(
    x: Tensor,
    grad: Tensor,
    total: Tensor,
    scale: Tensor | None,
    sign: float | None,
    decay: float | None,
    eps: float,
    rate: float,
) -> None:
    g = _gradient(grad, x, scale, sign, decay)
    s = _wide(total) + g * g
    x.copy_(_wide(x) - g / (s.sqrt() + eps) * rate)
    total.copy_(s)


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
    how = (grad_scale, _sign(maximize), weight_decay or None)
    for step, together in _by_step(zip(parameters, grads, sums, strict=True), steps):
        _update_adagrad(together, *how, eps, float(lr) / (1 + (step - 1) * lr_decay))


@Update
def _unscale_one(grad: Tensor, found_inf: Tensor, inverse: Tensor) -> None:
    broken = (~torch.isfinite(grad)).any().to(torch.float32)
    found_inf.copy_(torch.maximum(found_inf, broken))
    grad.copy_(_wide(grad) * inverse)


def _unscale(grads: Tensors, found_inf: Tensor, inverse: Tensor) -> None:
    """Notes a gradient that is no number before it loses its scale."""
    _unscale_one([(grad,) for grad in grads], found_inf, inverse)


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
