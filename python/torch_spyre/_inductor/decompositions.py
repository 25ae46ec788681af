# SPDX-License-Identifier: Apache-2.0
"""What AOTAutograd takes apart for graphs of the card."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping

import torch

from .. import _C
from .registry import fallback_ops, register_spyre_decomposition, spyre_decompositions

register_decomposition = register_spyre_decompositions = register_spyre_decomposition

_added: list[dict] = []

__all__ = [
    "added",
    "register_decomposition",
    "register_spyre_decomposition",
    "register_spyre_decompositions",
    "spyre_decompositions",
    "table",
]


@functools.cache
def _core() -> dict[torch._ops.OperatorBase, Callable]:
    """PyTorch's core decompositions but for the operators that the compiler takes whole."""
    known = set(_C.op_names())
    core = torch._decomp.core_aten_decompositions()
    return {op: function for op, function in core.items() if str(op) not in known}


def table() -> dict[torch._ops.OperatorBase, Callable]:
    """Decompositions by operator: PyTorch's, with those of register_spyre_decomposition() over
    them; what register_fallback() named stays whole."""
    whole = set(fallback_ops)
    known = _core() | spyre_decompositions
    for more in _added:
        known = known | more
    return {op: function for op, function in known.items() if op not in whole}


@contextlib.contextmanager
def added(table: Mapping[torch._ops.OperatorBase, Callable]) -> Iterator[None]:
    """Graphs that are traced inside know these decompositions, too."""
    _added.append(dict(table))
    try:
        yield
    finally:
        _added.pop()
