# SPDX-License-Identifier: Apache-2.0
"""What AOTAutograd takes apart for graphs of the card."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import (
    OperatorBase,
    OpOverload,
    core_decompositions,
    every_decomposition,
    operator_named,
)
from ..eager.operand_dtypes import checked
from .decompositions import PARTS
from .register_decomposition import alone_parts, library_parts, traced_parts
from .registered import fallback_ops, spyre_decompositions

Table = dict[OperatorBase, Callable[..., Any]]  # decompositions by operator

_added: list[Table] = []
_aten = torch.ops.aten

__all__ = [
    "added",
    "spyre_decompositions",
    "table",
    "taken",
]


# Beyond the core, those that are views and copies, or few parts of the card's.
_COPYING = {
    _aten.as_strided_copy.default, _aten.channel_shuffle.default, _aten.diagonal_copy.default,
    _aten.expand_copy.default, _aten.ldexp.Tensor, _aten.narrow_copy.default,
    _aten.new_empty_strided.default, _aten.permute_copy.default, _aten.squeeze_copy.default,
    _aten.t_copy.default, _aten.transpose_copy.int, _aten.unsqueeze_copy.default,
    _aten.view_copy.default,
}  # fmt: skip


@functools.cache
def _core(alone: bool) -> Table:
    """PyTorch's core decompositions but for the operators that the compiler takes whole, and what
    becomes of parts that are written."""
    core = core_decompositions()
    unknown = {op: function for op, function in core.items() if str(op) not in _rows()}
    own: Table = dict(traced_parts)
    own.update({op: part for op, part in every_decomposition().items() if op in _COPYING})
    for op, part in (PARTS | alone_parts if alone else PARTS).items():
        of_card = _of_card(part)
        own[op] = _first(of_card, unknown[op]) if op in unknown else of_card
    return {op: _checked(op, function) for op, function in (unknown | own).items()}


def taken() -> set[str]:
    """Names of the operators that the compiler has a row for, or the device a decomposition:
    "aten.relu.default"."""
    return {*_rows(), *map(str, PARTS), *map(str, spyre_decompositions)}


@functools.cache
def _rows() -> frozenset[str]:
    return frozenset(_C.op_names())


def _of_card(part: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition for operands of the card: the host has the operator itself."""

    @functools.wraps(part)
    def taken(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        devices = {leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)}
        return NotImplemented if devices == {"cpu"} else part(*args, **kwargs)

    return taken


def _first(part: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """The device's decomposition; PyTorch's where that does not take the arguments."""

    @functools.wraps(part)
    def either(*args: Any, **kwargs: Any) -> Any:
        result = part(*args, **kwargs)
        return other(*args, **kwargs) if result is NotImplemented else result

    return either


def _checked(op: OperatorBase, function: Callable[..., Any]) -> Callable[..., Any]:
    return checked(op, function) if isinstance(op, OpOverload) else function


def _of_libraries() -> Iterator[tuple[OperatorBase, Callable[..., Any]]]:
    for name, function in library_parts.items():
        op = operator_named(name)
        if op is not None:
            yield op, function


def table(alone: bool = False) -> Table:
    """Decompositions by operator: PyTorch's, with those of register_spyre_decomposition() over
    them; what register_fallback() named stays whole. Of an operator `alone`, outside of a graph,
    or of those in graphs."""
    known = _core(alone) | dict(_of_libraries()) | spyre_decompositions
    for more in _added:
        known |= more
    for op in fallback_ops:  # few: whoever looks at each of the others hashes it in Python
        known.pop(op, None)
    return known


@contextlib.contextmanager
def added(table: Mapping[OperatorBase, Callable[..., Any]]) -> Iterator[None]:
    """Graphs that are traced inside know these decompositions, too."""
    _added.append(dict(table))
    try:
        yield
    finally:
        _added.pop()
