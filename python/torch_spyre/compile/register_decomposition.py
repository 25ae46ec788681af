# SPDX-License-Identifier: Apache-2.0
"""How the files of decompositions/ register the device's own: part(), alone(), traced_part() and
library_part(). decomposition_table.py makes one table of them and PyTorch's; those of users are
registered.py's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from .._pytorch.dispatch import OperatorBase, OpOverload


class NotTaken:
    """The type of NotImplemented, which type checkers take for that of any value."""


# What a function of an operator returns for arguments that it leaves to the host.
NOT_TAKEN: Final[NotTaken] = cast(NotTaken, NotImplemented)

# The device's own decompositions, in decompositions/.
parts: dict[OpOverload, Callable[..., Any]] = {}

Function = TypeVar("Function", bound=Callable[..., Any])


def part(*ops: OpOverload, narrow: bool = False) -> Callable[[Function], Function]:
    """Registers a decomposition; `narrow` says that its integers are positions and counts, which
    fit 32 bits whatever the operands are."""

    def register(function: Function) -> Function:
        for op in ops:
            parts[op] = function
        if narrow:
            _narrow.add(function)
        return function

    return register


# Decompositions of calls outside of graphs, where those of parts fuse with what a graph has around
# them and cost more alone.
alone_parts: dict[OpOverload, Callable[..., Any]] = {}


def alone(*ops: OpOverload, narrow: bool = False) -> Callable[[Function], Function]:
    """As part(), of the same operators' calls outside of graphs."""

    def register(function: Function) -> Function:
        alone_parts.update(dict.fromkeys(ops, function))
        if narrow:
            _narrow.add(function)
        return function

    return register


# Decompositions that only the table has: a call without a program runs on the CPU, not as these,
# and where PyTorch itself traces parts of the operator, these stay (whole_operators.py).
traced_parts: dict[OperatorBase, Callable[..., Any]] = {}


def traced_part(*ops: OpOverload) -> Callable[[Function], Function]:
    """As part(), for the table only."""

    def register(function: Function) -> Function:
        traced_parts.update(dict.fromkeys(ops, function))
        return function

    return register


# Those of operators of other libraries, by full name: they come when the library is imported.
library_parts: dict[str, Callable[..., Any]] = {}


def library_part(name: str, narrow: bool = False) -> Callable[[Function], Function]:
    """The same for "library::operator"."""

    def register(function: Function) -> Function:
        library_parts[name] = function
        if narrow:
            _narrow.add(function)
        return function

    return register


_narrow: set[Callable[..., Any]] = set()


def keeps_narrow(decomposition: Callable[..., Any]) -> bool:
    """Whether the integers of a decomposition fit 32 bits by its own account."""
    layer: Callable[..., Any] | None = decomposition
    while layer is not None and layer not in _narrow:
        layer = getattr(layer, "__wrapped__", None)
    return layer is not None
