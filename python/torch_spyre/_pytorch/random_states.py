# SPDX-License-Identifier: Apache-2.0
"""Random numbers of a graph that checkpoints activations: what the forward pass draws, the backward
pass draws again.

PyTorch's partitioner puts two higher-order operators around such an operator, which save the state
of a generator and draw from that state; their kernels are for a list of devices, which cannot be
added to. Calls for other devices go on to PyTorch's functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .. import _C
from . import pytree
from .dispatch import HigherOrderOperator

_KEY = torch._C.DispatchKey.BackendSelect  # the first that a call meets


def _generator(arguments: Any) -> torch.Generator | None:
    """Of the card of the first tensor or device among the arguments, if one has any."""
    for value in pytree.tree_leaves(arguments):
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, torch.device) and device.type == "spyre":
            return _C._get_default_generator(device.index or 0)
    return None


def _save(generator: torch.Generator, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return generator.get_state(), op(*args, **kwargs)


def _draw_again(
    generator: torch.Generator,
    state: torch.Tensor,
    op: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    current = generator.get_state()
    generator.set_state(state.cpu())
    try:
        return op(*args, **kwargs)
    finally:
        generator.set_state(current)


def _extend(op: HigherOrderOperator, own: Callable[..., Any]) -> None:
    original: Callable[..., Any] = op.py_kernels[_KEY]

    @functools.wraps(original)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        generator = _generator((args, kwargs))
        return original(*args, **kwargs) if generator is None else own(generator, *args, **kwargs)

    op.py_kernels[_KEY] = kernel
    op._dispatch_cache.clear()


def install() -> None:
    """Installed at the first use of the device."""
    _extend(torch.ops.higher_order.run_and_save_rng_state, _save)
    _extend(torch.ops.higher_order.run_with_rng_state, _draw_again)
