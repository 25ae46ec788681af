# SPDX-License-Identifier: Apache-2.0
"""State of PyTorch's optimizers: making it before the first step, and the dtype it is loaded in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch.optim import Adam, Optimizer


def outside_of_graphs(function: Callable[..., None]) -> Callable[..., None]:
    """Traced by no torch.compile; as torch.compiler.disable(), which would import Dynamo now."""
    return _disable_dynamo(function)


def makes_adams_state(optimizer: Optimizer) -> bool:
    """Whether a step is Adam's own: a class with another one may have another state."""
    return inspect.unwrap(type(optimizer).step) is inspect.unwrap(Adam.step)


def make_adams_state(optimizer: Optimizer, group: dict[str, Any]) -> None:
    """The state of parameters that have a gradient and no state."""
    optimizer._init_group(group, *([] for _ in range(6)))  # type: ignore[attr-defined]


def load_as(dtype_of: Callable[[torch.Tensor, torch.Tensor, Any], torch.dtype | None]) -> None:
    """Asks dtype_of(parameter, value, key) for the dtype in which the value of a checkpoint becomes
    state of a parameter; None is PyTorch's answer, the parameter's."""
    usual = Optimizer._process_value_according_to_param_policy

    def process(
        param: torch.Tensor, value: torch.Tensor, param_id: int, param_groups: Any, key: Any = None
    ) -> torch.Tensor:
        dtype = dtype_of(param, value, key)
        if dtype is None:
            return usual(param, value, param_id, param_groups, key)
        return value.to(dtype=dtype, device=param.device)

    Optimizer._process_value_according_to_param_policy = staticmethod(  # type: ignore[method-assign]
        process
    )


__all__ = ["load_as", "make_adams_state", "makes_adams_state"]
