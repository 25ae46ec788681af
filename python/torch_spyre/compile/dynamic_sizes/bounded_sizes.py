# SPDX-License-Identifier: Apache-2.0
"""Sizes that torch._dynamo.mark_dynamic(x, dim, min=, max=) bounds: a program for each bucket of
them instead of one for each size.

A bucket's sizes end at a multiple of its granularity (bucket_ends.py); along sticks it is whole
sticks, to the end of which the card moves them anyway. Inputs are filled up to the end of the
bucket, results are cut. That is only done where no element of a result can see what is filled in,
which every node is asked for: nothing may be contracted, reduced, cut or joined along such a dim,
and its size may be nothing but a size. In other graphs sizes that end a bucket may still be one
program (symbolic_sizes.py), and those between have the program of its end (masked_sizes.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch

from ... import _C
from ..._pytorch import pytree
from ..._pytorch.fx import SYMBOLIC, arguments_of, results_of
from ..._pytorch.inductor.index_functions import Max
from ...constants import BYTES_IN_STICK, DEVICE_NAME
from .bucket_ends import end_of_bounded, granularity
from .operator_dims import JOINS, MEETS, SHAPES, is_pure_pointwise

_aten = torch.ops.aten

Symbols = dict[int | None, sympy.Symbol]  # by dim of a tensor; under None that of a size
Sizes = dict[sympy.Symbol, int]


class Buckets:
    """How the arguments of one graph are filled up and its results cut."""

    def __init__(
        self,
        inputs: Sequence[Symbols],
        outputs: Sequence[Symbols] | None,
        step: Sizes,
        most: Sizes,
        offset: int = 0,
        is_exact: bool = True,
    ) -> None:
        self.inputs = inputs  # by placeholder
        self.outputs = outputs  # by result; None: nothing is filled up
        self.fills = outputs is not None
        self.step = step  # granularity
        self.most = most  # largest size
        self.is_exact = is_exact  # sizes of tensors are sums and products of these
        self.offset = offset  # the most that sizes of tensors are more or less than multiples

    def fill(self, args: Sequence[Any]) -> tuple[list[Any], Sizes]:
        """The arguments at the ends of their buckets, and the sizes by symbol."""
        if not self.fills:
            return list(args), {}
        sizes = self.sizes(args)
        ends = {
            symbol: min(end_of_bounded(size, self.step[symbol]), self.most[symbol])
            for symbol, size in sizes.items()
        }
        if ends == sizes:
            return list(args), {}
        return self.at(args, ends), sizes

    def sizes(self, args: Sequence[Any]) -> Sizes:
        """What the arguments have, by symbol."""
        return {
            symbol: value if dim is None else value.shape[dim]
            for symbols, value in zip(self.inputs, args, strict=True)
            for dim, symbol in symbols.items()
        }

    def at(self, args: Sequence[Any], ends: Sizes) -> list[Any]:
        """The arguments filled up with zeros to these sizes, or cut to them; other dims stay."""
        return [
            filled(value, {d: ends[symbol] for d, symbol in symbols.items() if symbol in ends})
            for symbols, value in zip(self.inputs, args, strict=True)
        ]

    def cut(self, results: list[Any], sizes: Sizes) -> list[Any]:
        """The results at the sizes of the call."""
        if not sizes or self.outputs is None:
            return results
        return [
            shortened(result, {dim: sizes[symbol] for dim, symbol in symbols.items()})
            for symbols, result in zip(self.outputs, results, strict=True)
        ]


def filled(value: Any, ends: Mapping[Any, int]) -> Any:
    """A size, or a tensor with zeros up to ends of dims, or cut to them."""
    return ends[None] if None in ends else shortened(value, ends, _in_zeros)


def _in_zeros(value: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    shape = list(value.shape)
    kept, shape[dim] = min(size, shape[dim]), size
    made = value.new_zeros(shape)
    made.narrow(dim, 0, kept).copy_(value.narrow(dim, 0, kept))
    return made


def _cut(value: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    return value.narrow(dim, 0, size).contiguous()


def shortened(
    value: torch.Tensor,
    sizes: Mapping[Any, int],
    otherwise: Callable[[torch.Tensor, int, int], torch.Tensor] = _cut,
) -> torch.Tensor:
    """A tensor of its own of these sizes by dim; `otherwise` makes it where sticks of the card
    cannot be copied as they lie."""
    for dim, size in sizes.items():
        if value.shape[dim] != size:
            made = _C.resize(value, dim, size) if value.device.type == DEVICE_NAME else None
            value = otherwise(value, dim, size) if made is None else made
    return value


def plan(gm: torch.fx.GraphModule) -> Buckets | None:
    """None when no size has buckets, or that of an argument is more than one."""
    steps, most = _bounded(gm.graph.find_nodes(op="placeholder"))
    if not steps:
        return None
    _round_to_sticks(gm, steps, most)
    if places := _places(gm, steps):
        return Buckets(*places, steps, most)
    inputs = _places_of_inputs(gm, steps)
    if inputs is None:
        return None
    return Buckets(inputs, None, steps, most, _offset(gm), _is_exact(gm))


def _round_to_sticks(gm: torch.fx.GraphModule, steps: Sizes, most: Sizes) -> None:
    for node in gm.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if not isinstance(value, torch.Tensor) or not value.dim():
                continue
            size = value.shape[-1]
            symbol = size.node.expr if isinstance(size, torch.SymInt) else None
            if symbol not in steps:
                continue
            step = math.lcm(steps[symbol], BYTES_IN_STICK // value.element_size())
            if step < most[symbol]:
                steps[symbol], most[symbol] = step, end_of_bounded(most[symbol], step)


def _is_exact(gm: torch.fx.GraphModule) -> bool:
    """Whether all sizes are sums and products of the symbols, so that a graph of the largest sizes
    tells those of smaller ones."""
    for node in gm.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor):
                numbers = [*value.shape, *value.stride(), value.storage_offset()]
            else:
                numbers = [value]
            if None in [_polynomial(n) for n in numbers if isinstance(n, SYMBOLIC)]:
                return False
    return True


def _places_of_inputs(
    gm: torch.fx.GraphModule, symbols: Iterable[sympy.Symbol]
) -> list[Symbols] | None:
    dims = _Dims(symbols)
    try:
        return [dims.of(node) for node in gm.graph.find_nodes(op="placeholder")]
    except _Seen:
        return None


def _polynomial(number: Any) -> sympy.Expr | None:
    """The sum of products that a size is, in a stride where it is not 0 (`Max(1, n - 1)`)."""
    plain = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Symbol, sympy.Integer)
    if not isinstance(number, torch.SymInt):
        return None
    size = number.node.expr.replace(Max, _not_one)
    parts = sympy.preorder_traversal(size)
    return size if all(isinstance(part, plain) for part in parts) else None


def _not_one(*choices: sympy.Expr) -> sympy.Expr:
    others = [choice for choice in choices if choice != 1]
    return others[0] if len(others) == 1 else Max(*choices)


def _offset(gm: torch.fx.GraphModule) -> int:
    values = [v for node in gm.graph.nodes for v in pytree.tree_leaves(node.meta.get("val"))]
    sizes: list[Any] = [n for v in values if isinstance(v, torch.Tensor) for n in v.shape]
    sums = [n.node.expr.as_coeff_Add()[0] for n in sizes if isinstance(n, torch.SymInt)]
    return max((abs(int(number)) for number in sums), default=0)


def is_parallel(gm: torch.fx.GraphModule, symbols: Iterable[sympy.Symbol]) -> bool:
    """Whether no element of a result can see what is filled in along dims of these sizes."""
    return _places(gm, symbols) is not None


def _places(
    gm: torch.fx.GraphModule, symbols: Iterable[sympy.Symbol]
) -> tuple[list[Symbols], list[Symbols]] | None:
    """Where the symbols are in inputs and results; None when a node sees what is filled in."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    dims = _Dims(symbols)
    try:
        for node in gm.graph.nodes:
            if node.op == "call_function":
                dims.check(node)
        inputs = [dims.of(node) for node in placeholders]
        return inputs, [dims.of(result, sizes=False) for result in results_of(gm.graph)]
    except _Seen:
        return None


def _bounded(placeholders: Iterable[torch.fx.Node]) -> tuple[Sizes, Sizes]:
    """Granularity and largest size by symbol."""
    steps: Sizes = {}
    most: Sizes = {}
    for node in placeholders:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else [value]:
            if not isinstance(size, torch.SymInt) or not size.node.expr.is_symbol:
                continue
            symbol = size.node.expr
            bounds = size.node.shape_env.var_to_range.get(symbol)  # none: a ragged size
            if bounds is None or not (bounds.lower.is_Integer and bounds.upper.is_Integer):
                continue
            if int(bounds.upper) >= 2**31:
                continue
            most[symbol] = int(bounds.upper)
            steps[symbol] = granularity(int(bounds.lower), most[symbol])
    return steps, most


class _Seen(Exception):
    """A node sees what is filled in."""


_TAKES_SIZES = SHAPES | {
    _aten.expand.default, _aten.full.default, _aten.zeros.default, _aten.ones.default,
}  # fmt: skip


class _Dims:
    """Where the sizes with buckets are."""

    def __init__(self, symbols: Iterable[sympy.Symbol]):
        self.symbols = set(symbols)

    def of(self, node: object, sizes: bool = True) -> Symbols:
        """Symbols by dim of a tensor, {None: symbol} for a size."""
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if isinstance(value, torch.Tensor):
            return {d: s for d, size in enumerate(value.shape) if (s := self._symbol(size))}
        if isinstance(value, SYMBOLIC) and not sizes:
            raise _Seen
        symbol = self._symbol(value)
        return {None: symbol} if symbol else {}

    def _symbol(self, size: Any) -> sympy.Symbol | None:
        if not isinstance(size, SYMBOLIC) or not self.symbols & size.node.expr.free_symbols:
            return None
        if not size.node.expr.is_symbol:
            raise _Seen
        return size.node.expr

    def check(self, node: torch.fx.Node) -> None:
        op, value = node.target, node.meta.get("val")
        if isinstance(value, SYMBOLIC) or getattr(op, "__name__", "") == "getitem":
            return  # what becomes of it is asked of those that use it
        leaves = [a for a in pytree.arg_tree_leaves(*node.args, **node.kwargs)
                  if isinstance(a, torch.fx.Node)]  # fmt: skip
        results = pytree.tree_leaves(value)
        for result in results:
            if isinstance(result, torch.Tensor):
                for size in result.shape:
                    self._symbol(size)
        if op not in _TAKES_SIZES and any(isinstance(a.meta["val"], SYMBOLIC) for a in leaves):
            raise _Seen
        tensors = [a for a in leaves if isinstance(a.meta["val"], torch.Tensor)]
        if not any(self.of(a) for a in tensors):
            return
        if not self._is_parallel(op, node, tensors):
            raise _Seen

    def _is_parallel(
        self, op: object, node: torch.fx.Node, tensors: Sequence[torch.fx.Node]
    ) -> bool:
        args = arguments_of(node)
        if op in SHAPES:
            return self._trailing(tensors[0].meta["val"]) == self._trailing(node.meta["val"])
        if op is _aten.expand.default:
            return True
        if op in (_aten.embedding.default, _aten.index.Tensor):
            return not self.of(tensors[0])  # rows of a table, by numbers that do not meet
        if op is torch.ops.spyre.paged_attention.default:
            return all(set(self.of(a)) <= {0} for a in tensors) and not any(
                self.of(a) for a in node.args[3:5]
            )
        if op is _aten._scaled_mm.default:
            return all(set(self.of(a)) <= {0} for a in (tensors[0], tensors[2])) and not any(
                self.of(a) for i, a in enumerate(tensors) if i not in (0, 2)
            )
        if op is _aten.addmm.default:
            return not self._meets(tensors[1], [-1])
        if op in JOINS:
            dim = args[1] if len(args) > 1 else 0
            return not any(self._meets(a, [dim]) for a in tensors)
        if op in MEETS:
            shape = tensors[0].meta["val"].shape
            return not self._meets(tensors[0], MEETS[op](args, shape))
        return is_pure_pointwise(op)

    def _meets(self, tensor: torch.fx.Node, dims: Iterable[int]) -> bool:
        rank = tensor.meta["val"].dim()
        return any(dim % max(rank, 1) in self.of(tensor) for dim in dims)

    def _trailing(self, value: torch.Tensor) -> list[tuple[sympy.Symbol, str]]:
        """Symbol and elements of one step along it, outermost first."""
        found = []
        for dim, size in enumerate(value.shape):
            symbol = self._symbol(size)
            if symbol:
                found.append((symbol, str(math.prod(value.shape[dim + 1 :]))))
        return found
