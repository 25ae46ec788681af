# SPDX-License-Identifier: Apache-2.0
"""Where the lengths of a graph are in the sizes of its tensors.

A length is known by its number: first come the measures, a size or a few rows more. Behind them are
numbers that grow with one size (half of it), and the products of sizes along which dims are joined
(n times 8, n times m): of these, rows that do not count lie between those that do, in an order that
the view or the concatenation tells which joins the dims.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sympy
import torch

from ..._pytorch import pytree
from ..._pytorch.fake import FakeTensorMode
from ..._pytorch.fx import SYMBOLIC
from ..dynamic_sizes.operator_dims import TAKES_SIZES
from ..traced_sizes import NodeValues

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
        self._others: list[sympy.Expr] = []  # sizes behind the measures
        self._joined: set[int] = set()  # of these, products
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
            return self._other(size.node.expr)
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
        return number in self._joined

    def sizes(self) -> list[sympy.Expr]:
        """By number."""
        return [self.size_of(number) for number in range(len(self.ends))]

    def size_of(self, number: int) -> sympy.Expr:
        if number >= len(self.measures):
            return self._others[number - len(self.measures)]
        measure = self.measures[number]
        assert measure.more is not None
        return measure.symbol + measure.more

    def order_of(self, number: int) -> Factors:
        """Of a product; where nothing tells another one, rows that count come first. Raises:
        Seen."""
        if number not in self._orders:
            of = self._factors(self.size_of(number))
            if sum(is_length for is_length, _ in of) > 1:
                raise Seen(f"dims joined in no order, {self.size_of(number)}")
            self._orders[number] = tuple(sorted(of, reverse=True))
        return self._orders[number]

    def tell_order(self, number: int, order: Factors) -> bool:
        """Whether the dims of a product can be joined in this order."""
        if self._product_of(order) != self.size_of(number):
            return False
        return self._orders.setdefault(number, order) == order

    def comes_first(self, number: int) -> bool:
        """Whether the rows that count lie before all others. Raises: Seen."""
        if not self.is_product(number):
            return True
        first, *rest = self.order_of(number)
        return first[0] and not any(is_length for is_length, _ in rest)

    def _other(self, size: sympy.Expr) -> int:
        if size in self._others:
            return len(self.measures) + self._others.index(size)
        number = len(self.ends)
        if len(size.free_symbols) == 1 and not _is_product(size):
            (symbol,) = size.free_symbols
            end = _grown(size, symbol, self._end_of(symbol))
            if end is None:
                raise Seen(f"a size is {size}")
            self.ends.append(end)
        else:
            of = self._factors(size)
            self.ends.append(math.prod(self.ends[n] if is_length else n for is_length, n in of))
            self._joined.add(number)
        self._others.append(size)
        return number

    def _end_of(self, symbol: sympy.Symbol) -> int:
        """The most that a size of a bucket can be."""
        ends = zip(self.measures, self.ends, strict=False)
        return max(end - (m.more or 0) for m, end in ends if m.symbol == symbol)

    def _product_of(self, factors: Factors) -> sympy.Expr:
        sizes = (self.size_of(n) if is_length else n for is_length, n in factors)
        return math.prod(sizes, start=sympy.Integer(1))

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
        for order in self._orders_of(number, (source, node)):
            if self._trailing(source, order) == self._trailing(node, order):
                self._orders[number] = order
                return True
        return False

    def _orders_of(self, number: int, nodes: Sequence[Node]) -> Iterable[Factors]:
        """In which dims may be joined: as one of the nodes has them side by side, or in any."""
        size = self.size_of(number)
        for node in nodes:
            of = self._factors_along(node)
            for first, last in itertools.combinations(range(len(of) + 1), 2):
                if self._product_of(of[first:last]) == size:
                    yield of[first:last]
        yield from itertools.permutations(self._factors(size))

    def _factors_along(self, node: Node) -> Factors:
        """Of all dims but those of products whose order is open."""
        dims, found = self.of(node), list[tuple[bool, int]]()
        for dim, size in enumerate(self.values[node].shape):
            number = dims.get(dim)
            if number is not None and self.is_product(number):
                found += self._orders.get(number, ())
            else:
                found.append((number is not None, size if number is None else number))
        return tuple(found)

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


@functools.lru_cache(maxsize=256)
def _grown(size: sympy.Expr, symbol: sympy.Symbol, end: int) -> int | None:
    """What follows from a symbol at its end; None where it is less for a larger one."""
    values = [size.xreplace({symbol: sympy.Integer(n)}) for n in range(1, end + 1)]
    if not all(value.is_Integer for value in values):
        return None
    return int(values[-1]) if all(a <= b for a, b in itertools.pairwise(values)) else None


def _is_product(size: sympy.Expr) -> bool:
    return isinstance(size, sympy.Mul | sympy.Pow)
