# SPDX-License-Identifier: Apache-2.0
"""Sizes of a traced graph as numbers: symbolic ones are what they are in one call."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import sympy
import torch

from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload, schema_of
from .._pytorch.fake import FakeTensor, FakeTensorMode
from .._pytorch.fx import SYMBOLIC, arguments_of


class UnknownSize(Exception):
    """A size depends on data, so that no call tells it beforehand."""


NodeValues = dict[torch.fx.Node, Any]  # fake tensors, numbers, lists of them


def node_values(gm: torch.fx.GraphModule, args: Sequence[Any]) -> NodeValues:
    """Each node's value: fake tensors of static sizes, numbers. Symbolic sizes are what they are in
    this call."""
    sizes = _Sizes(gm, args)
    moved = _moved(gm, args, sizes)
    return {
        node: pytree.tree_map(
            functools.partial(sizes.of_value, moved=moved.get(node, 0)), node.meta.get("val")
        )
        for node in gm.graph.nodes
    }


def _moved(
    gm: torch.fx.GraphModule, args: Sequence[Any], sizes: _Sizes
) -> dict[torch.fx.Node, int]:
    """By how many elements the arguments of a call, and views of them, lie further in their
    storage than those that the graph was traced with: guards do not tell these apart."""
    moved = {}
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), args, strict=True):
        fake = node.meta.get("val")
        if isinstance(fake, torch.Tensor) and isinstance(value, torch.Tensor):
            moved[node] = value.storage_offset() - sizes.number(fake.storage_offset())
    for node in gm.graph.nodes:
        base = _base(node)
        if isinstance(base, torch.fx.Node) and base in moved:
            moved[node] = moved[base]
    return {node: distance for node, distance in moved.items() if distance}


def _base(node: torch.fx.Node) -> Any:
    """The node whose storage a node's results are in, at places that follow its own."""
    arguments = arguments_of(node)
    base = arguments[0] if arguments else None
    if node.target is operator.getitem:
        return base
    if not isinstance(node.target, OpOverload):
        return None
    schema = schema_of(node.target)
    names = [argument.name for argument in schema.arguments]
    named = {**dict(zip(names, arguments, strict=False)), **node.kwargs}
    if named.get("storage_offset") is not None:
        return None  # a place in the storage itself
    return base if any(result.alias_info for result in schema.returns) else None


def fake_of(
    mode: FakeTensorMode,
    like: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> FakeTensor:
    """A value of the mode with the dtype and device of another, which begins in its storage at an
    element `offset`."""
    shape = torch.empty_strided(size, stride, dtype=like.dtype, device="meta")
    if offset:
        steps = zip(size, stride, strict=True)  # of a size 0, none
        extent = offset + sum(max(n - 1, 0) * step for n, step in steps) + 1
        storage = torch.empty(extent, dtype=like.dtype, device="meta")
        shape = storage.as_strided(size, stride, offset)
    return FakeTensor(mode, shape, like.device)


class _Sizes:
    """The symbols of a graph's sizes, and values with numbers in their place."""

    def __init__(self, gm: torch.fx.GraphModule, args: Sequence[Any]):
        self.symbols: dict[sympy.Expr, sympy.Expr] = {}
        self.numbers: dict[sympy.Expr, Any] = {}  # of expressions
        self.mode = FakeTensorMode()
        for node, value in zip(gm.graph.find_nodes(op="placeholder"), args, strict=True):
            fake = node.meta.get("val")
            if isinstance(fake, SYMBOLIC):
                self._bind(fake, value)
            elif isinstance(fake, torch.Tensor) and isinstance(value, torch.Tensor):
                for size, number in zip(fake.shape, value.shape, strict=True):
                    self._bind(size, number)

    def _bind(self, symbolic: Any, number: Any) -> None:
        is_number = not isinstance(number, SYMBOLIC)  # a ragged size is a name: data tells it
        if is_number and isinstance(symbolic, SYMBOLIC) and symbolic.node.expr.is_symbol:
            self.symbols[symbolic.node.expr] = sympy.sympify(number)

    def of_value(self, value: Any, moved: int = 0) -> Any:
        if isinstance(value, SYMBOLIC):
            return self.number(value)
        if not isinstance(value, torch.Tensor):
            return value
        size, stride, offset = value.shape, value.stride(), value.storage_offset()
        if not moved and not any(isinstance(n, SYMBOLIC) for n in (*size, *stride, offset)):
            return value
        sizes, strides = [self.number(n) for n in size], [self.number(n) for n in stride]
        return fake_of(self.mode, value, sizes, strides, self.number(offset) + moved)

    def number(self, value: Any) -> Any:
        if not isinstance(value, SYMBOLIC):
            return value
        expression = value.node.expr
        if expression not in self.numbers:
            number = expression.xreplace(self.symbols)
            if number.free_symbols:
                raise UnknownSize(f"a size {expression} that is known from data only")
            self.numbers[expression] = value.node.pytype(number)
        return self.numbers[expression]
