# SPDX-License-Identifier: Apache-2.0
"""Where the lengths of a graph are in the sizes of its tensors.

A length is known by its number: first come the measures, a size or a few rows more, and behind them
the products of sizes along which views join dims (n times 8, n times m). At the end of a bucket a
measure is a multiple of rows; of a product, rows that do not count lie between those that do, in
an order that the view tells which joins the dims.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sympy
import torch

from ..._pytorch import pytree
from ..._pytorch.fake import FakeTensorMode
from ..._pytorch.fx import SYMBOLIC
from ..operators import TAKES_SIZES
from ..sizes import NodeValues

Node = torch.fx.Node


class Seen(Exception):
    """A node sees what is behind a length."""


class Measure(NamedTuple):
    """A length: the size that it follows, and what is added; None for one that is no such sum."""

    symbol: sympy.Symbol
    more: int | None


Factors = tuple[tuple[bool, int], ...]  # of joined dims, outermost first: a length, or a size


def measures(gm: torch.fx.GraphModule, lengths: set[sympy.Symbol]) -> list[Measure]:
    """The lengths that tensors of the graph have or are made with."""
    found = dict[Measure, None]()
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            takes = [user.op == "output" or user.target in TAKES_SIZES for user in node.users]
            sizes: Iterable[Any] = [value] if any(takes) else []
        else:
            sizes = (size for part in pytree.tree_leaves(value)
                     if isinstance(part, torch.Tensor) for size in part.shape)  # fmt: skip
        for size in sizes:
            measure = measure_of(size, lengths)
            if measure and measure.more is not None:
                found[measure] = None
    return list(found)


def measure_of(size: Any, lengths: set[sympy.Symbol]) -> Measure | None:
    """None for a number that has no length in it."""
    if not isinstance(size, SYMBOLIC) or not size.node.expr.free_symbols & lengths:
        return None
    symbol = min(size.node.expr.free_symbols & lengths, key=str)
    more = size.node.expr - symbol
    return Measure(symbol, int(more) if more.is_Integer else None)


class Dims:
    """The lengths of one graph's tensors."""

    def __init__(
        self, values: NodeValues, of: Sequence[Measure], alike: Sequence[int], ends: Sequence[int]
    ) -> None:
        """`alike` has for each measure the first that is as long."""
        self.values = values
        self.measures, self.alike = of, alike
        self.ends = list(ends)  # of the buckets, by number
        self.symbols = {measure.symbol for measure in of}
        self.mode = FakeTensorMode()
        self._products: list[sympy.Expr] = []  # sizes behind the measures
        self._orders: dict[int, Factors] = {}  # of these, once a view has told

    # ---- of sizes

    def has_length(self, value: Any) -> bool:
        return measure_of(value, self.symbols) is not None

    def length(self, size: Any) -> int | None:
        """Number of the length that a size is, None for one that has none in it; the first of equal
        ones. Raises: Seen."""
        size = size.meta.get("val") if isinstance(size, Node) else size
        measure = measure_of(size, self.symbols)
        if measure is None:
            return None
        if measure.more is None:
            return self._product(size.node.expr)
        return self._number(measure)

    def known_length(self, node: Node) -> int | None:
        """That of a node that is a number, None for one that no tensor is as long as."""
        if not isinstance(node.meta.get("val"), SYMBOLIC):
            return None
        try:
            return self.length(node)
        except Seen:
            return None

    def at_end_of(self, node: Node) -> Any:
        """A number of the graph, where its length ends; None for one that has a length in it."""
        if not self.has_length(node.meta["val"]):
            return self.values[node]
        number = self.known_length(node)
        return None if number is None else self.ends[number]

    def _number(self, measure: Measure) -> int:
        if measure not in self.measures:
            raise Seen(f"a size is {measure.symbol + measure.more}")
        return self.alike[self.measures.index(measure)]

    # ---- of joined dims

    def is_product(self, number: int | None) -> bool:
        return number is not None and number >= len(self.measures)

    def size_of(self, number: int) -> sympy.Expr:
        if self.is_product(number):
            return self._products[number - len(self.measures)]
        measure = self.measures[number]
        assert measure.more is not None
        return measure.symbol + measure.more

    def order_of(self, number: int) -> Factors | None:
        """Of a product; None until a view has told."""
        return self._orders.get(number)

    def _product(self, size: sympy.Expr) -> int:
        """Of a size along which views join dims: rows are not one behind another there."""
        if size not in self._products:
            of = self._factors(size)
            self._products.append(size)
            self.ends.append(math.prod(self.ends[n] if is_length else n for is_length, n in of))
        return len(self.measures) + self._products.index(size)

    def _factors(self, size: sympy.Expr) -> Factors:
        found: list[tuple[bool, int]] = []
        for factor, times in size.as_powers_dict().items():
            if factor.is_Integer and times == 1:
                found.append((False, int(factor)))
            elif factor in self.symbols and times.is_Integer and times > 0:
                found += [(True, self._number(Measure(factor, 0)))] * int(times)
            else:
                raise Seen(f"a size is {size}")
        return tuple(found)

    # ---- of tensors

    def of(self, node: object) -> dict[int, int]:
        """The lengths of a tensor, by dim."""
        value = node.meta.get("val") if isinstance(node, Node) else None
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else ()
        return {dim: number for dim, size in sizes if (number := self.length(size)) is not None}

    def are_joined(self, node: Node) -> bool:
        """Whether dims are joined in a node, or in what it is made of."""
        numbers = [self.known_length(source) for source in node.all_input_nodes]
        for each in (node, *node.all_input_nodes):
            numbers += self.of(each).values()
        return any(map(self.is_product, numbers))

    def at_end(self, node: Node) -> torch.Tensor:
        """A tensor of the graph, where its lengths end."""
        value: torch.Tensor = self.values[node]
        dims = self.of(node)
        if not dims:
            return value
        sizes = [self.ends[dims[d]] if d in dims else size for d, size in enumerate(value.shape)]
        strides = value.stride()
        order = sorted(range(value.dim()), key=lambda d: (-strides[d], d))
        with self.mode:
            made = torch.empty([sizes[d] for d in order], dtype=value.dtype, device=value.device)
            return made.permute([order.index(d) for d in range(value.dim())])

    def count(self, node: Node, dims: Collection[int]) -> sympy.Expr:
        """How many elements a tensor has along dims."""
        lengths, of = self.of(node), self.values[node]
        count = sympy.Integer(1)
        for dim in dims:
            count *= self.size_of(lengths[dim]) if dim in lengths else of.shape[dim]
        return count

    def is_same(self, source: Node, node: Node) -> bool:
        """Whether a view in another shape has every element of a length where it was. The first
        that joins dims tells their order for all of the graph."""
        numbers = [*self.of(source).values(), *self.of(node).values()]
        open_ones = {n for n in numbers if self.is_product(n) and n not in self._orders}
        if not open_ones:
            return self._trailing(source) == self._trailing(node)
        if len(open_ones) > 1:
            return False
        (number,) = open_ones
        for order in itertools.permutations(self._factors(self.size_of(number))):
            if self._trailing(source, order) == self._trailing(node, order):
                self._orders[number] = order
                return True
        return False

    def _trailing(self, node: Node, order: Factors = ()) -> list[tuple[int, int, list[int]]]:
        """Of each length, outermost first, what one step along it goes over: elements of other
        dims, and lengths. `order` is of products that have none yet."""
        found = []
        elements, behind = 1, list[int]()
        dims = self.of(node)
        for dim in reversed(range(self.values[node].dim())):
            number, size = dims.get(dim), self.values[node].shape[dim]
            factors: Factors = ((number is not None, size if number is None else number),)
            if number is not None and self.is_product(number):
                factors = self._orders.get(number, order)
            for is_length, n in reversed(factors):
                if is_length:
                    found.append((n, elements, sorted(behind)))
                    behind.append(n)
                else:
                    elements *= n
        return found
