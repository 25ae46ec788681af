# SPDX-License-Identifier: Apache-2.0
"""Functional collectives in compiled graphs: nodes that the host starts and waits for, on tensors
that stay on the card. PyTorch's own kernels call the process group of each tensor's device."""

from __future__ import annotations

from .._pytorch.dispatch import OpOverload

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")


def is_collective(op: OpOverload) -> bool:
    """Whether the operator moves data between ranks, or waits for one that does."""
    return op.namespace in _NAMESPACES
