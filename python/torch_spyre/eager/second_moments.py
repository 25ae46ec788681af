# SPDX-License-Identifier: Apache-2.0
"""Squares of gradients that optimizers keep. The card's 16 bits end at 2^-31, so (1 - 0.999) g^2 is
0 for gradients below 7e-4, and a step divided by its root as large as eps lets it be. Fused steps
compute in float32 and round what they keep, so optimizers that have one take it by default."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

_FUSED = (torch.optim.Adam, torch.optim.Adagrad)  # AdamW is an Adam
_PLAIN = (torch.optim.RMSprop, torch.optim.NAdam, torch.optim.RAdam)
_LEAST_EPS = 1e-4
_NARROW = (torch.float16, torch.bfloat16)
_warned: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


def _is_narrow(group: dict[str, Any]) -> bool:
    """Whether a step is of tensors of the card, some of them of 16 bits."""
    parameters = group["params"]
    return any(p.dtype in _NARROW for p in parameters) and all(
        p.device.type == "spyre" and p.is_floating_point() for p in parameters
    )


def _take_fused(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
    group["fused"] = True
    for p in group["params"]:
        state = optimizer.state.get(p, {})
        if "step" in state:  # of a checkpoint, on the host
            state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=p.device)


def _warn(optimizer: torch.optim.Optimizer) -> None:
    _warned.add(optimizer)
    warnings.warn(
        f"spyre: {type(optimizer).__name__} keeps squares of gradients in 16 bits, where those "
        f"below 2^-31 are 0: steps may be far too large. Keep parameters in float32, with "
        f"torch.autocast, or give eps={_LEAST_EPS} or more",
        stacklevel=4,
    )


def before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """PyTorch's hook before the step of any optimizer."""
    if torch.compiler.is_compiling():
        return
    for group in optimizer.param_groups:
        if isinstance(optimizer, _FUSED):
            chosen = group.get("fused") is not None or group.get("foreach") is not None
            plain = not group.get("capturable") and not group.get("differentiable")
            if not chosen and plain and _is_narrow(group):
                _take_fused(optimizer, group)
        known = optimizer in _warned or not isinstance(optimizer, _PLAIN)
        if not known and group["eps"] < _LEAST_EPS and _is_narrow(group):
            _warn(optimizer)


def install() -> None:
    register_optimizer_step_pre_hook(before_step)
