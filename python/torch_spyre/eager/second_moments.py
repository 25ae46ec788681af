# SPDX-License-Identifier: Apache-2.0
"""Squares of gradients that optimizers keep. The card's 16 bits end at 2^-31, so (1 - 0.999) g^2 is
0 for gradients below 7e-4, and a step divided by its root as large as eps lets it be; float16 of
the host, of which checkpoints are made, ends at 2^-24. Fused steps compute in float32, whatever
they keep, so optimizers that have one take it by default, and keep the squares in float32."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .._pytorch import optimizers

_FUSED = (torch.optim.Adam, torch.optim.Adagrad)  # AdamW is an Adam
_PLAIN = (torch.optim.RMSprop, torch.optim.NAdam, torch.optim.RAdam)
_SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "sum")
_LEAST_EPS = 1e-4
_NARROW = (torch.float16, torch.bfloat16)
_warned: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


def _is_narrow(group: dict[str, Any]) -> bool:
    """Whether a step is of tensors of the card, some of them of 16 bits."""
    parameters = group["params"]
    return any(p.dtype in _NARROW for p in parameters) and all(
        p.device.type == "spyre" and p.is_floating_point() for p in parameters
    )


def _may_take_fused(group: dict[str, Any]) -> bool:
    """Whether nothing was chosen that a fused step has not; nor has it sparse gradients."""
    chosen = group.get("fused") is not None or group.get("foreach") is not None
    if chosen or group.get("capturable") or group.get("differentiable"):
        return False
    return not any(p.grad is not None and p.grad.is_sparse for p in group["params"])


def _take_fused(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
    group["fused"] = True
    for p in group["params"]:
        state = optimizer.state.get(p, {})
        if "step" in state:  # of a checkpoint, on the host
            state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=p.device)


def _widen(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
    """Keeps squares in float32 from the first step on."""
    missing = any(p.grad is not None and not optimizer.state.get(p) for p in group["params"])
    if missing and optimizers.makes_adams_state(optimizer):
        optimizers.make_adams_state(optimizer, group)
    for p in group["params"]:
        state = optimizer.state.get(p, {})
        for key in _SQUARES:
            if torch.is_tensor(state.get(key)) and state[key].dtype in _NARROW:
                state[key] = state[key].to(torch.float32)


def _is_unsafe(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> bool:
    """Whether to warn."""
    known = optimizer in _warned or not isinstance(optimizer, _PLAIN)
    return not known and group.get("eps", 1.0) < _LEAST_EPS


def _warn(optimizer: torch.optim.Optimizer) -> None:
    _warned.add(optimizer)
    warnings.warn(
        f"spyre: {type(optimizer).__name__} keeps squares of gradients in 16 bits, where those "
        f"below 2^-31 are 0: steps may be far too large. Keep parameters in float32, with "
        f"torch.autocast, or give eps={_LEAST_EPS} or more",
        stacklevel=4,
    )


@optimizers.outside_of_graphs
def _prepare(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
    if _may_take_fused(group):
        _take_fused(optimizer, group)
    if group.get("fused"):
        _widen(optimizer, group)


def _is_prepared(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> bool:
    """What compiled steps ask, which leave the compiled graph to prepare. While Dynamo traces, all
    groups say that they are capturable."""
    if group.get("fused"):
        return bool(optimizer.state)
    default = {**group, "capturable": optimizer.defaults.get("capturable")}
    return not _may_take_fused(default)


def before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """PyTorch's hook before the step of any optimizer."""
    compiling = torch.compiler.is_compiling()
    for group in optimizer.param_groups:
        if not _is_narrow(group):
            continue
        if isinstance(optimizer, _FUSED):
            if not compiling or not _is_prepared(optimizer, group):
                _prepare(optimizer, group)
        elif not compiling and _is_unsafe(optimizer, group):
            _warn(optimizer)


def _loaded_dtype(parameter: torch.Tensor, value: torch.Tensor, key: Any) -> torch.dtype | None:
    """Squares that a checkpoint has in float32 stay so."""
    narrow = parameter.device.type == "spyre" and parameter.dtype in _NARROW
    return value.dtype if narrow and key in _SQUARES and value.dtype == torch.float32 else None


def install() -> None:
    register_optimizer_step_pre_hook(before_step)
    optimizers.load_as(_loaded_dtype)
