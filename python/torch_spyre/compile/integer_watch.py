# SPDX-License-Identifier: Apache-2.0
"""The int64 arithmetic of a segment of a compiled graph: whether inputs keep it within 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from .._pytorch.fx import arguments_of, overload_of
from .integer_ranges import (
    CARD,
    UNBOUNDED,
    WIDE,
    Range,
    clamped,
    fits,
    hull,
    is_within,
    joined,
    range_of_tensor,
    whole,
    widest,
)
from .integers import (
    BITWISE,
    DIVISIONS,
    FLOATING,
    LEAVES,
    RIGHT_SHIFTS,
    ROUNDING,
    ZERO,
    is_at_risk,
    may_saturate,
    result_of,
    rule_of,
)

_aten = torch.ops.aten

Known = dict[torch.fx.Node, Range]
Found = dict[int, Range] | None  # of inputs, by id; None before there are any
# Results, or second results, are positions among the values of the first operand.
_POSITIONS = {"argmax", "argmin", "argsort"}
_ENDS = {"zeros", "zeros_like", "ones", "ones_like"}
_RANKING = {"topk", "sort", "max", "min", "kthvalue", "median", "mode"}

# Results are among the values of the operands, numbers included.
_KEEPING = {
    "_unsafe_view", "clone", "cat", "stack", "where", "index", "gather", "index_select", "amax",
    "amin", "flip", "repeat", "masked_fill", "copy", "lift_fresh_copy", "_to_copy",
    "prims::convert_element_type",
}  # fmt: skip

# Of these, the ones whose results are among the values of the first operand: others say where.
_LOOKING_UP = {"index", "gather", "index_select"}


def _numbers(arguments: Arguments) -> list[float]:
    return [value for value in arguments if type(value) in (int, float)]


class Watch:
    """The int64 arithmetic of one card segment and the inputs that it depends on. What it makes of
    floating numbers, `casts`, is known behind the launch."""

    def __init__(
        self,
        nodes: Sequence[torch.fx.Node],
        inputs: set[int],
        ids: Mapping[torch.fx.Node, int | list[int]],
        fakes: Mapping[torch.fx.Node, Any],
        positional: Callable[[OpOverload, Arguments, Keywords], list[Any]],
        casts: Collection[int] = (),  # ids of outputs
    ) -> None:
        self.casts = set(casts)
        self.ids, self.fakes, self.inputs, self.positional = ids, fakes, inputs, positional
        self.risky = [node for node in nodes if self._is_risky(node)]
        self.order = self._operands_first(nodes)
        self.read: set[int] = set()
        known: Known = {}
        for node in self.order:
            self._range(node, known)
        self.proved: dict[bool, dict[int, Range]] = {}  # before and behind the launch

    def _is_risky(self, node: torch.fx.Node) -> bool:
        fake = self.fakes.get(node)
        if not isinstance(fake, torch.Tensor) or fake.dtype.is_floating_point:
            return False
        op = overload_of(node)
        name = rule_of(op)
        if name in (None, "_to_copy") or name not in DIVISIONS and fake.dtype is not torch.int64:
            return False
        return is_at_risk(op, self._values(node))

    def _values(self, node: torch.fx.Node) -> list[Any]:
        """Arguments in the order of the schema, fake tensors for nodes."""
        return [
            torch.fx.map_arg(value, lambda node: self.fakes[node])
            for value in self.positional(overload_of(node), node.args, node.kwargs)
        ]

    def _operands_first(self, nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
        """The nodes that ranges of risky ones depend on, in the order of the graph: each range is
        known before it is asked for, however long a chain of nodes is."""
        needed = set(self.risky)
        for node in reversed(nodes):
            if node in needed and self._depends_on_operands(node):
                needed.update(node.all_input_nodes)
        return [node for node in nodes if node in needed]

    def _depends_on_operands(self, node: torch.fx.Node) -> bool:
        fake = self.fakes.get(node)
        if not isinstance(fake, torch.Tensor):
            return False
        of_aten = isinstance(node.target, OpOverload)
        return of_aten and fake.dtype is not torch.bool and self.ids.get(node) not in self.inputs

    def failing(self, values: dict[int, torch.Tensor]) -> tuple[torch.fx.Node, str] | None:
        """A node that the card may have no result of with these values of the inputs, and of the
        casts where they are among them, and why."""
        is_behind = self.casts <= values.keys()
        ids = self.read | self.casts if is_behind else self.read
        found = {id: range_of_tensor(values[id]) for id in ids}
        proved = self.proved.get(is_behind)
        if proved is not None and all(is_within(now, proved[id]) for id, now in found.items()):
            return None
        if node := self._overflowing(found):
            is_division = rule_of(overload_of(node)) in DIVISIONS
            return node, ZERO if is_division else LEAVES
        ranges = widest(list(found.values()), lambda wider: self._holds(found, wider))
        self.proved[is_behind] = dict(zip(found, ranges, strict=True))
        return None

    def bounds(self) -> dict[int, Range] | None:
        """Of inputs, the ranges within which the card has results; None where casts say more, or
        nothing is proved yet."""
        return None if self.casts else self.proved.get(True)

    def _holds(self, found: Mapping[int, Range], wider: Sequence[Range]) -> bool:
        return self._overflowing(dict(zip(found, wider, strict=True))) is None

    def _overflowing(self, found: dict[int, Range]) -> torch.fx.Node | None:
        """A node that leaves 32 bits, or divides by 0, with inputs of these ranges."""
        known: Known = {}
        for node in self.order:
            self._range(node, known, found)
        return next((node for node in self.risky if not fits(known[node])), None)

    def _range(self, node: torch.fx.Node, known: Known, found: Found = None) -> Range:
        """Of a node's values; inputs of the segment are noted in `read`."""
        if node not in known:
            known[node] = self._compute(node, known, found)
        return known[node]

    def _compute(self, node: torch.fx.Node, known: Known, found: Found) -> Range:
        fake = self.fakes.get(node)
        if not isinstance(fake, torch.Tensor):
            return (fake, fake) if isinstance(fake, int) else WIDE
        if fake.dtype is torch.bool:
            return 0, 1
        value = self.ids.get(node)
        if isinstance(value, int) and value in self.inputs and not fake.dtype.is_floating_point:
            self.read.add(value)
            return CARD if found is None else found[value]
        if isinstance(value, int) and value in self.casts:
            return CARD if found is None else found.get(value, (0, 0))
        if fake.dtype.is_floating_point and value in self.inputs:
            return UNBOUNDED  # not read
        if not isinstance(node.target, OpOverload):
            return UNBOUNDED if fake.dtype.is_floating_point else self._positions(node)
        op = overload_of(node)
        arguments = self.positional(op, node.args, node.kwargs)
        ranges = [self._argument(argument, known, found) for argument in arguments]
        if fake.dtype.is_floating_point and rule_of(op) in FLOATING:
            low, high = result_of(op, self._values(node), ranges)
            ends = low - abs(low) * ROUNDING, high + abs(high) * ROUNDING
            return UNBOUNDED if any(map(math.isnan, ends)) else ends
        if self._is_risky(node):
            result = result_of(op, self._values(node), ranges)
            return result if fits(result) or found is not None else CARD
        kept = self._kept(op, arguments, known, found)
        if kept is None and not fake.dtype.is_floating_point:
            return self._wrapped(node, fake.dtype, ranges)
        if kept is None:
            return UNBOUNDED
        if may_saturate(op, fake, self._values(node)):
            return clamped(kept, (CARD[0], CARD[0]), (CARD[1], CARD[1]))
        return kept

    def _wrapped(self, node: torch.fx.Node, dtype: torch.dtype, ranges: Sequence[Range]) -> Range:
        """Of integers of at most 32 bits that PyTorch computes modulo their range, and of those of
        64 that are not at risk."""
        ends = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
        op = overload_of(node)
        if rule_of(op) in (None, "_to_copy"):
            return ends.min, ends.max
        low, high = result_of(op, self._values(node), ranges)
        return (low, high) if ends.min <= low and high <= ends.max else (ends.min, ends.max)

    def _positions(self, node: torch.fx.Node) -> Range:
        """Of the second result of an operator that finds values and where they are."""
        source, *index = arguments_of(node) or (None,)
        op = getattr(source, "target", None)
        if node.op != "call_function" or not isinstance(op, OpOverload) or index != [1]:
            return CARD
        if schema_of(op).name.removeprefix("aten::") not in _RANKING:
            return CARD
        return 0, max(self.fakes[source.args[0]].numel() - 1, 0)

    def _argument(self, argument: object, known: Known, found: Found) -> Range:
        if isinstance(argument, torch.fx.Node):
            return self._range(argument, known, found)
        return (argument, argument) if isinstance(argument, (int, float)) else WIDE

    def _kept(
        self, op: OpOverload, arguments: Arguments, known: Known, found: Found
    ) -> Range | None:
        """Of an operator that makes no new values; None where it is not known to be one."""
        name = schema_of(op).name.removeprefix("aten::")
        if op.is_view:
            is_other = op is _aten.view.dtype  # the same bytes as other numbers
            return None if is_other else self._argument(arguments[0], known, found)
        if name == "arange":
            return hull([0, *_numbers(arguments)])
        if name in _ENDS:
            return 0, 1
        if name in _POSITIONS:
            return 0, max(self.fakes[arguments[0]].numel() - 1, 0)
        if name in ("full", "full_like", "scalar_tensor", "fill"):
            numbers = _numbers(arguments)
            return hull(numbers) if numbers else None
        if name == "clamp":
            bounds = [None if bound is None else self._argument(bound, known, found)
                      for bound in (*arguments[1:3], None, None)]  # fmt: skip
            return clamped(self._argument(arguments[0], known, found), bounds[0], bounds[1])
        if name in DIVISIONS and type(arguments[1]) is int and arguments[1] != 0:
            x = whole(self._argument(arguments[0], known, found))
            return DIVISIONS[name](x, (arguments[1], arguments[1]))
        if name in RIGHT_SHIFTS:
            x = whole(self._argument(arguments[0], known, found))
            return hull([*x, 0 if x[0] >= 0 else -1])
        if name in BITWISE:
            x, y = [whole(self._argument(value, known, found)) for value in arguments[:2]]
            return BITWISE[name](x, y)
        if name in ("minimum", "maximum"):
            pair = [self._argument(value, known, found) for value in arguments[:2]]
            least, most = zip(*pair, strict=True)
            return (min(least), min(most)) if name == "minimum" else (max(least), max(most))
        if name not in _KEEPING:
            return None
        holding = arguments[:1] if name in _LOOKING_UP else arguments
        leaves = [leaf for leaf in pytree.tree_leaves(holding) if isinstance(leaf, torch.fx.Node)]
        ranges = [self._range(leaf, known, found) for leaf in leaves]
        if name in ("where", "masked_fill", "copy"):
            ranges += [(number, number) for number in _numbers(arguments)]
        return joined(ranges) if ranges else None
