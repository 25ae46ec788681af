# SPDX-License-Identifier: Apache-2.0
"""Numbers of autograd's nodes, which tie an operator of a backward pass to that of the forward."""

from __future__ import annotations

import torch


def last_node_number() -> int:
    """The number of the node that this thread made last; within an operator that autograd records,
    of the node of that operator. -1 when there was none."""
    number: int = torch._C._autograd._get_sequence_nr() - 1
    return number


def calling_node_number() -> int | None:
    """The number of the node whose gradient this thread computes, or None outside of a backward
    pass."""
    node = torch._C._current_autograd_node()
    if node is None:
        return None
    number: int = node._sequence_nr()
    return number


def forward_stack() -> list[str]:
    """Where the forward operator was called whose gradient this thread computes, outermost frame
    first, as text; in anomaly mode only, else empty."""
    node = torch._C._current_autograd_node()
    if node is None:
        return []
    metadata: dict[str, list[str]] = node.metadata  # type: ignore[assignment]
    return list(metadata.get("traceback_", ()))


__all__ = ["calling_node_number", "forward_stack", "last_node_number"]
