# SPDX-License-Identifier: Apache-2.0
"""Functional collectives in compiled graphs: nodes that the host starts and waits for, on tensors
that stay on the card. PyTorch's own kernels call the process group of each tensor's device. A group
for tensors of the CPU alone, as graphs for `sendnn` have it, gets copies on the CPU, which have
arrived before the graph goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._pytorch import distributed, pytree
from .._pytorch.dispatch import OpOverload

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")


def is_collective(op: OpOverload) -> bool:
    """Whether the operator moves data between ranks, or waits for one that does."""
    return op.namespace in _NAMESPACES


def exchange(
    op: OpOverload,
    args: list[Any],
    kwargs: dict[str, Any],
    as_placed: Callable[[object], object],
    to_cpu: Callable[[object], object],
) -> Any:
    """Results of a collective whose arguments one of the two functions gives, where the graph has
    them or on the CPU."""
    names = [given for given in args if isinstance(given, str)]  # the group's is the last one
    if not names or distributed.moves_cards_tensors(names[-1]):
        return op(*pytree.tree_map(as_placed, args), **kwargs)
    return pytree.tree_map(_arrived, op(*pytree.tree_map(to_cpu, args), **kwargs))


def _arrived(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.ops._c10d_functional.wait_tensor(value)
    return value
