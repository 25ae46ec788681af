# SPDX-License-Identifier: Apache-2.0
"""The int64 arithmetic of a segment of a compiled graph: whether inputs keep it within 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from ..._pytorch import pytree
from ..._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from ..._pytorch.fx import arguments_of, overload_of
from .integer_overflow import (
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

_aten = torch.ops.aten

Known = dict[torch.fx.Node, Range]
Found = dict[int, Range] | None  # of inputs, by id; None before there are any
# Results, or second results, are positions among the values of the first operand; first results of
# those that rank, and all of the last, are such values.
_POSITIONS = {"argmax", "argmin", "argsort"}
_RANKING = {
    "topk", "sort", "max", "min", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin",
}  # fmt: skip
_TAKING_APART = {"aminmax", "split", "split_with_sizes", "unbind", "chunk"}
_ENDS = {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"}

# Results are among the values of these arguments, tensors and numbers. Indices are none of them.
_KEEPING: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("_unsafe_view", "clone", "cat", "stack", "index", "_unsafe_index", "gather",
         "index_select", "take", "embedding", "amax", "amin", "flip", "roll", "repeat",
         "lift_fresh_copy", "_to_copy", "prims::convert_element_type", "scalar_tensor"), (0,),
    ),
    **dict.fromkeys(("full", "full_like", "fill"), (1,)),
    "new_full": (2,),
    **dict.fromkeys(
        ("copy", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter",
         "max", "min"), (0, 1),
    ),
    "where": (1, 2),
    **dict.fromkeys(
        ("masked_fill", "masked_scatter", "constant_pad_nd", "index_put", "_unsafe_index_put"),
        (0, 2),
    ),
    **dict.fromkeys(("scatter", "index_fill", "index_copy"), (0, 3)),
}  # fmt: skip
_CUTTING = {"tril", "triu"}  # 0, beside the values of the first operand
_JOINING = {"index_put", "_unsafe_index_put"}  # with accumulate, argument 3, results are sums


def _name_of(source: object) -> str:
    """Of the operator that a node calls; empty where there is none."""
    op = getattr(source, "target", None)
    return schema_of(op).name.removeprefix("aten::") if isinstance(op, OpOverload) else ""


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
            return isinstance(fake, (list, tuple))
        if fake.dtype is torch.bool or self.ids.get(node) in self.inputs:
            return False
        return isinstance(node.target, OpOverload) or self._whole_of(node) is not None

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
            return self._part(node, fake.dtype, known, found)
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

    def _part(self, node: torch.fx.Node, dtype: torch.dtype, known: Known, found: Found) -> Range:
        """Of one of the results of an operator that has several."""
        if (whole_of := self._whole_of(node)) is not None:
            return self._range(whole_of, known, found)
        source, *place = arguments_of(node) or (None,)
        if _name_of(source) in _RANKING and place == [1]:
            return 0, max(self.fakes[source.args[0]].numel() - 1, 0)
        return UNBOUNDED if dtype.is_floating_point else CARD

    def _whole_of(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """The node that all values of this one of several results are of."""
        source, *place = arguments_of(node) or (None,)
        name = _name_of(source)
        if name in _TAKING_APART or name in _RANKING and place == [0]:
            whole_of: torch.fx.Node = source.args[0]
            return whole_of
        return None

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
        if name in ("clamp", "clamp_min", "clamp_max"):
            ends = [None, *arguments[1:]] if name == "clamp_max" else arguments[1:]
            bounds = [None if bound is None else self._argument(bound, known, found)
                      for bound in (*ends, None, None)]  # fmt: skip
            return clamped(self._argument(arguments[0], known, found), bounds[0], bounds[1])
        if name == "sign":
            return -1, 1
        if name == "bitwise_not" and self.fakes[arguments[0]].dtype is not torch.uint8:
            x = whole(self._argument(arguments[0], known, found))
            return -x[1] - 1, -x[0] - 1
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
        if name in _CUTTING:
            return joined([(0, 0), self._argument(arguments[0], known, found)])
        makes_new = name in _JOINING and len(arguments) > 3 and arguments[3]
        if name not in _KEEPING or makes_new or name == "scatter" and len(arguments) > 4:
            return None
        given = [arguments[place] for place in _KEEPING[name] if place < len(arguments)]
        leaves = [
            leaf
            for leaf in pytree.tree_leaves(given)
            if isinstance(leaf, torch.fx.Node) or type(leaf) in (int, float)
        ]
        ranges = [self._argument(leaf, known, found) for leaf in leaves]
        return joined(ranges) if ranges else None
