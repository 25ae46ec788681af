# SPDX-License-Identifier: Apache-2.0
"""A form that is being made: its graph, what nodes have become, and the arguments and masks that
tell a node of it where a length ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sympy
import torch

from ..._pytorch.dispatch import schema_of
from ..._pytorch.fake import refusals_are_raised
from ..._pytorch.fx import SYMBOLIC, arguments_of, overload_of
from ...constants import DEVICE_NAME
from ..dynamic_sizes.grown_arguments import Growing
from ..traced_sizes import fake_of
from .dims import Dims, Seen

_aten = torch.ops.aten
Node = torch.fx.Node


class Places(NamedTuple):
    """An argument of a form: the numbers of the rows before a length; of all rows up to the end of
    its bucket, whose number is `end_of`; without rows, a number itself, in float32. Of joined dims
    (end, size), outermost first, the numbers of the rows that count, and zeros behind them."""

    length: sympy.Expr
    rows: int
    end_of: int | None = None
    joined: tuple[tuple[int, sympy.Expr], ...] = ()


def device_of(values: Iterable[Any]) -> torch.device:
    """Where a graph with these arguments computes: on the card, if one is there."""
    devices = [value.device for value in values if isinstance(value, torch.Tensor)]
    return next((device for device in devices if device.type == DEVICE_NAME), devices[0])


class Draft:
    """Of one graph; rules write into it."""

    def __init__(self, gm: torch.fx.GraphModule, growing: Sequence[Growing], dims: Dims) -> None:
        self.growing, self.dims = growing, dims
        self.graph = torch.fx.Graph()
        self.sources = list(gm.graph.find_nodes(op="placeholder"))
        self.device = device_of([node.meta["val"] for node in self.sources])
        self.made: dict[Node, Any] = {}  # by node of the graph: its node here, or a number
        self.places: dict[Places, Node] = {}
        self.kept: set[Node] = set()  # zeros behind their only length
        self.counts: set[Node] = set()  # each element is its place
        self.written: dict[Node, Node] = {}  # arguments with rows more
        self.offset = 0  # the most that a size differs from the end of a bucket
        self._valid: dict[int, Node] = {}
        self._last: Node | None = None  # placeholder

    # ---- nodes

    def emit(self, op: Any, args: Sequence[Any], like: Node, **kwargs: Any) -> Node:
        """A node whose value is what the operator makes of those of its operands."""
        node = self.graph.call_function(op, tuple(args), kwargs)

        def of(source: Node) -> Any:
            value = source.meta["val"]
            strides, offset = value.stride(), value.storage_offset()
            return fake_of(self.dims.mode, value, value.shape, strides, offset)

        given = torch.fx.map_arg((node.args, kwargs), of)
        try:
            with self.dims.mode, refusals_are_raised():
                value = op(*given[0], **given[1])
        except (RuntimeError, ValueError) as error:  # sizes that do not fit at the ends
            raise Seen(f"{like.format_node()}: {error}") from error
        node.meta = {**like.meta, "val": value}
        return node

    def given(self, node: Node) -> tuple[Any, Any]:
        """Arguments of the node here."""
        given: tuple[Any, Any] = torch.fx.map_arg((node.args, node.kwargs), self.made.__getitem__)
        return given

    def keep(self, node: Node, ragged: Sequence[Node], same: bool) -> None:
        """Notes zeros behind the length, where the node has the elements of one that has them."""
        alone = same and len(ragged) == 1 and len(self.dims.of(node)) == 1
        if alone and ragged[0] in self.kept and ragged[0] is arguments_of(node)[0]:
            self.kept.add(node)

    # ---- arguments

    def argument(self, node: Node) -> None:
        """One that the graph has."""
        if isinstance(node.meta.get("val"), SYMBOLIC):
            self.made[node] = self.dims.at_end_of(node)
            return
        self._last = self.made[node] = self.graph.placeholder(node.name)
        self.made[node].meta = {**node.meta, "val": self.dims.at_end(node)}
        if len(self.dims.of(node)) == 1:
            self.kept.add(node)

    def place(self, number: int, rows: int) -> Node:
        """The places of the last rows of a length."""
        size = self.dims.size_of(number)
        if self.dims.is_product(number):
            raise Seen(f"places in joined dims, {size}")
        return self._argument(Places(size, rows))

    def all_places(self, number: int) -> Node:
        """Those up to the end of a length's bucket."""
        end = self.dims.ends[number]
        return self._argument(Places(sympy.Integer(end), end, number))

    def rows_first(self, made: Node, dim: int, number: int, like: Node) -> Node:
        """Joined dims with the rows that count before all others."""
        order = list(self.dims.order_of(number))
        width = 1  # of elements that lie together
        while not order[-1][0]:
            width *= order.pop()[1]
        joined = tuple(
            (self.dims.ends[n], self.dims.size_of(n)) if is_length else (n, sympy.Integer(n))
            for is_length, n in order
        )
        rows = self.dims.ends[number] // width
        places = self._argument(Places(self.dims.size_of(number) / width, rows, joined=joined))
        shape = list(made.meta["val"].shape)
        if width > 1:
            split = [*shape[:dim], rows, width, *shape[dim + 1 :]]
            made = self.emit(_aten.view.default, (made, split), like)
        made = self.emit(_aten.index_select.default, (made, dim, places), like)
        return self.emit(_aten.view.default, (made, shape), like) if width > 1 else made

    def number(self, value: sympy.Expr, is_whole: bool, like: Node) -> Node:
        """A number that follows from lengths: int64, or float32."""
        given = self._argument(Places(value + 1, 1) if is_whole else Places(value, 0))
        return self.emit(_aten.view.default, (given, []), like)

    def times(self, made: Node, number: sympy.Expr, like: Node) -> Node:
        """A product with a number that follows from lengths."""
        return self.emit(_aten.mul.Tensor, (made, self.number(number, False, like)), like)

    def _argument(self, places: Places) -> Node:
        """One behind all that the graph has."""
        if places not in self.places:
            assert self._last is not None
            with self.graph.inserting_after(self._last):
                self._last = self.graph.placeholder(f"places_{len(self.places)}")
            kind = torch.int64 if places.rows else torch.float32
            with self.dims.mode:
                made = torch.empty(places.rows or 1, dtype=kind, device=self.device)
            self._last.meta["val"] = made
            self.places[places] = self._last
        return self.places[places]

    # ---- masks

    def without(
        self, operand: Node, value: float, dims: Collection[int] | None = None,
        instead: Node | None = None,
    ) -> Node:  # fmt: skip
        """The operand, or what has its sizes, with a number behind its length, where that is along
        one of some dims."""
        made: Node = instead or self.made[operand]
        lengths = {d: n for d, n in self.dims.of(operand).items() if dims is None or d in dims}
        if not lengths or (operand in self.kept and value == 0 and instead is None):
            return made
        of = operand.meta["val"]
        for dim, number in lengths.items():
            shape = [-1, *[1] * (of.dim() - 1 - dim)]
            valid = self.emit(_aten.view.default, (self.valid(number, operand), shape), operand)
            nothing = self.scalar(value, made.meta["val"].dtype, operand)
            made = self.emit(_aten.where.self, (valid, made, nothing), operand)
        return made

    def scalar(self, value: float, dtype: torch.dtype, like: Node) -> Node:
        if dtype is torch.bool:
            value = bool(value)
        elif not dtype.is_floating_point:  # the card has 32 bits of int64
            ends = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
            value = int(min(max(value, ends.min), ends.max))
        kind = {"dtype": dtype, "device": self.device}
        return self.emit(_aten.scalar_tensor.default, (value,), like, **kind)

    def valid(self, number: int, like: Node) -> Node:
        """Which places are before the length: bool [1, end]."""
        if self.dims.is_product(number):
            return self._valid_of_joined(number, like)
        if number not in self._valid:
            places, last = self.all_places(number), self.place(number, 1)
            shaped = self.emit(_aten.view.default, (last, [1, 1]), like)
            self._valid[number] = self.emit(_aten.le.Tensor, (places, shaped), like)
        return self._valid[number]

    def _valid_of_joined(self, number: int, like: Node) -> Node:
        made: Node | None = None
        for is_length, n in self.dims.order_of(number):
            kind = {"dtype": torch.bool, "device": self.device}
            part = self.valid(n, like) if is_length else self.emit(
                _aten.full.default, ([1, n], True), like, **kind)  # fmt: skip
            if made is None:
                made = part
                continue
            made = self.emit(_aten.view.default, (made, [-1, 1]), like)
            made = self.emit(_aten.bitwise_and.Tensor, (made, part), like)
            made = self.emit(_aten.view.default, (made, [1, -1]), like)
        assert made is not None
        return made


def named_arguments(node: Node) -> dict[str, Any]:
    """The arguments of a node that it is called with, by name."""
    names = [argument.name for argument in schema_of(overload_of(node)).arguments]
    return {**dict(zip(names, arguments_of(node), strict=False)), **node.kwargs}


# What a node becomes, or a list of what its results become; None for one that the rule is not of.
Rule = Callable[[Draft, Node], Any]
