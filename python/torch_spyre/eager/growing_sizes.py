# SPDX-License-Identifier: Apache-2.0
"""Operators whose sizes grow from call to call: one program for all sizes of a bucket.

A decoder calls the same operators with every token, on masks, ids and caches that are a row longer
each time. What a call is compared by are the numbers of its operands: sizes of what they are views
of, where the views begin, how long they are. When they have moved by the same step twice, all that
moves is a length, and the call becomes a graph of one node over it (length_graph.py). Calls that
have no such graph keep a program a size.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from .. import _C
from .._pytorch.dispatch import Arguments, OpOverload, schema_of
from ..compile.dynamic_sizes.grown_arguments import LEAST, keep
from .growing_operands import Operands, Refused

if TYPE_CHECKING:
    from .length_graph import Grown, LengthGraph, Table

_log = logging.getLogger("spyre.eager")

MOST_STEP = 16  # elements from one call to the next
MOST_KINDS = 32  # of calls of an operator; the one that was asked for longest ago goes
MOST_CALLS = 8  # of a kind: calls that may grow, and graphs of those that have


class Family:
    """Calls of an operator that differ by a length."""

    def __init__(self, op: OpOverload, numbers: list[int], moved: set[int]) -> None:
        self.op = op
        self.moved = sorted(moved)
        self.still = [n for i, n in enumerate(numbers) if i not in moved]
        self.apart = self._apart(numbers)
        self.graph: LengthGraph | None = None  # before its first call, and where it has none
        self.is_refused = False

    def _apart(self, numbers: list[int]) -> list[int]:
        return [numbers[i] - numbers[self.moved[0]] for i in self.moved]

    def takes(self, numbers: list[int]) -> bool:
        """Whether a call with these numbers is one of the family."""
        still = [n for i, n in enumerate(numbers) if i not in self.moved]
        is_long = min(numbers[i] for i in self.moved) >= LEAST
        return is_long and still == self.still and self._apart(numbers) == self.apart

    def find(self, values: Arguments, operands: Operands, programs: Table) -> Grown | None:
        """The program of one of the calls, or None."""
        from .length_graph import LengthGraph

        if self.is_refused:
            return None
        try:
            self.graph = self.graph or LengthGraph(self.op, values, operands, set(self.moved))
            found = self.graph.find(operands, programs)
        except (Refused, _C.Unsupported, RuntimeError, TypeError, ValueError) as reason:
            _log.info("%s: a program for each size of what grows: %s", self.op, reason)
            found = None
        self.is_refused = found is None
        return found


class Kind:
    """Calls of an operator that differ by their numbers."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], set[int]]] = []  # and what has moved there
        self.families: list[Family] = []

    def family(self, op: OpOverload, numbers: list[int]) -> Family | None:
        """That of a call, or None where it has none yet."""
        for family in self.families:
            if family.takes(numbers):
                return family
        moved = self._moved(numbers)
        if not moved or min(numbers[i] for i in moved) < LEAST:
            return None
        family = Family(op, numbers, moved)
        self.families = [*self.families[-MOST_CALLS + 1 :], family]
        return family

    def _moved(self, numbers: list[int]) -> set[int]:
        """What moves, if it has twice; the call is noted."""
        for index, (before, moved) in enumerate(self.seen):
            step = {n - b for n, b in zip(numbers, before, strict=True)} - {0}
            if len(step) != 1 or not 0 < min(step) <= MOST_STEP:
                continue
            now = {i for i, (n, b) in enumerate(zip(numbers, before, strict=True)) if n != b}
            self.seen[index] = (numbers, now)
            return now if now == moved else set()
        self.seen = [*self.seen[-MOST_CALLS + 1 :], (numbers, set())]
        return set()


class Growing:
    """Of one operator: the calls that have grown."""

    def __init__(self, op: OpOverload, programs: Table) -> None:
        returns = schema_of(op).returns
        self.op = op
        self.programs = programs
        self.gives_tensors = all(isinstance(r.type, torch.TensorType) for r in returns)
        self.kinds: dict[Any, Kind] = {}

    def find(self, values: Arguments, settings: Any) -> Grown | None:
        """The program of a call that has grown, or None. `values` are in the order of the schema,
        `settings` what else programs are compared by."""
        if not self.gives_tensors:
            return None
        try:
            operands = Operands(values)
        except Refused:
            return None
        key, numbers = (settings, operands.kind), operands.numbers
        kind = self.kinds.pop(key, None) or Kind()
        keep(self.kinds, key, kind, MOST_KINDS)
        family = kind.family(self.op, numbers)
        return family.find(values, operands, self.programs) if family else None
