# SPDX-License-Identifier: Apache-2.0
"""Python numbers that a compiled graph gets anew with each call: parameters of its programs.

Dynamo hands over a float that changes as a tensor of the host, float64 without dimensions, and an
int as a symbolic size; arithmetic on them is done here, with each call. Where a graph uses its
numbers only as arguments that aten.def calls parameters, one program serves all of their values,
but for those that the compiler tells apart (`_C.scalar_like`). Other graphs have a program per
value.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload, schema_of
from .._pytorch.fx import overload_of
from . import call_compiler, node_arguments

_SYMBOLIC = (torch.SymInt, torch.SymFloat)

_UNTAGGED = {torch.ops.aten.rsub, torch.ops.aten.floor_divide}

Numbers = Mapping[torch.fx.Node, int | float]
Parameters = Mapping[tuple[torch.fx.Node, int], node_arguments.Scalar]  # by node and argument


class _Use(NamedTuple):
    """A number as an argument of an operator."""

    node: torch.fx.Node
    argument: int
    source: torch.fx.Node
    rule: int  # of `_C.op_scalars`; 0 where its value is a part of the program
    range: tuple[float, float]  # the lowest and largest number that its tensors' dtypes hold


class Call(NamedTuple):
    """The numbers of one call."""

    key: tuple[Any, ...]  # of its program among those of the graph
    numbers: Numbers
    parameters: Parameters
    values: tuple[float, ...]  # of the parameters, as launches take them


def number_of(node: torch.fx.Node, numbers: Numbers) -> torch.Tensor | int | float:
    """What the graph has for a number."""
    fake, value = node.meta["val"], numbers[node]
    return torch.tensor(value, dtype=fake.dtype) if isinstance(fake, torch.Tensor) else value


class Scalars:
    """Where the numbers of one graph come from and where they go."""

    def __init__(
        self, places: Mapping[int, torch.fx.Node], chain: list[torch.fx.Node], uses: list[_Use]
    ) -> None:
        self.places = places  # placeholders, by index
        self.chain = chain  # arithmetic on them, in order
        self.uses = uses
        self.by_value = not all(use.rule for use in uses) or not call_compiler.takes_scalars()

    def of_call(self, args: Sequence[Any]) -> Call:
        """The numbers among the arguments of a call, and what follows from them."""
        found: dict[Any, Any] = {node: args[index] for index, node in self.places.items()}
        for node in self.chain:
            arguments = torch.fx.map_arg(node.args, found.__getitem__)
            found[node] = node.target(*arguments, **node.kwargs)  # type: ignore[operator]
        numbers = {n: v.item() if isinstance(v, torch.Tensor) else v for n, v in found.items()}
        others = [None if i in self.places else _key(a) for i, a in enumerate(args)]
        given = [numbers[use.source] for use in self.uses]
        likes = [] if self.by_value else self._likes(given)
        if len(likes) < len(given):
            return Call(("value", *map(repr, given), *others), numbers, {}, ())
        parameters = {
            (use.node, use.argument): node_arguments.Scalar(number, like)
            for number, (use, like) in enumerate(zip(self.uses, likes, strict=True))
        }
        return Call((*likes, *others), numbers, parameters, tuple(map(float, given)))

    def _likes(self, given: Sequence[int | float]) -> list[int | float]:
        """A number of the class of each, to the compiler; fewer where one is by itself."""
        found = []
        for use, value in zip(self.uses, given, strict=True):
            like = _C.scalar_like(use.rule, value, use.range)
            if like is None:
                break
            found.append(type(value)(like))
        return found


def _key(argument: Any) -> Any:
    return _C.tensor_key(argument) if isinstance(argument, torch.Tensor) else argument


def plan(gm: torch.fx.GraphModule) -> Scalars | None:
    """None for a graph that gets no such numbers."""
    places = {
        index: node
        for index, node in enumerate(gm.graph.find_nodes(op="placeholder"))
        if node.users and (isinstance(node.meta.get("val"), _SYMBOLIC) or _is_float(node))
    }
    chain, uses = list[torch.fx.Node](), list[_Use]()
    known = set(places.values())
    for node in gm.graph.nodes if places else ():
        if not known.intersection(node.all_input_nodes):
            continue
        if _is_arithmetic(node, known):
            made = [*(source for source in node.all_input_nodes if source not in known), node]
            chain += made
            known.update(made)
        elif node.op == "output":
            continue
        elif not isinstance(node.target, OpOverload):
            uses += [_Use(node, 0, source, 0, (0.0, 0.0)) for source in node.all_input_nodes
                     if source in known]  # fmt: skip
        else:
            uses += _uses(node, known)
    if not uses or any(_is_tensor(u.source) and not takes_numbers(u.node) for u in uses):
        return None
    if not all(use.rule for use in uses) and not any(map(_is_tensor, places.values())):
        return None  # sizes only: arguments tell programs apart without them
    return Scalars(places, chain, uses)


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def is_of_host(node: torch.fx.Node) -> bool:
    """A tensor of the host without dimensions."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() == 0


def _is_float(node: torch.fx.Node) -> bool:
    return is_of_host(node) and node.meta["val"].dtype is torch.float64


def _is_constant(node: torch.fx.Node) -> bool:
    """The 2 of `2 * number`."""
    made = node.op == "call_function" and not node.all_input_nodes and is_of_host(node)
    return made and all(map(is_of_host, node.users))


def _is_arithmetic(node: torch.fx.Node, known: set[torch.fx.Node]) -> bool:
    """On numbers alone, with a number as its result."""
    if node.op != "call_function":
        return False
    number = is_of_host(node) or isinstance(node.meta.get("val"), _SYMBOLIC)
    return number and all(s in known or _is_constant(s) for s in node.all_input_nodes)


def constants_of_host(
    gm: torch.fx.GraphModule, values: Mapping[torch.fx.Node, Any], copies: Collection[object]
) -> dict[torch.fx.Node, int | float]:
    """What nodes compute of constants alone, by elements or as `copies`, in tensors of the host
    without dimensions: sqrt(tensor(64.) * 3)."""
    found: dict[torch.fx.Node, torch.Tensor] = {}
    for node in gm.graph.nodes:
        sources = node.all_input_nodes
        if node.op == "get_attr":
            value: Any = functools.reduce(getattr, str(node.target).split("."), gm)
            if isinstance(value, torch.Tensor) and value.dim() == 0 and value.is_cpu:
                found[node] = value
        elif sources and all(source in found for source in sources):
            op, value = node.target, values.get(node)
            of_host = isinstance(value, torch.Tensor) and value.is_cpu and value.dim() == 0
            if of_host and (op in copies or torch.Tag.pointwise in getattr(op, "tags", ())):
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), found.__getitem__)
                found[node] = op(*args, **kwargs)
    return {node: value.item() for node, value in found.items() if node.op != "get_attr"}


def takes_numbers(node: torch.fx.Node) -> bool:
    """Whether scalars of the host may be numbers here: they meet tensors of the card."""
    if not isinstance(node.target, OpOverload):
        return False
    op = node.target  # PyTorch tags not all operators that work by elements
    values = pytree.tree_leaves([source.meta.get("val") for source in node.all_input_nodes])
    by_element = torch.Tag.pointwise in op.tags or op.overloadpacket in _UNTAGGED
    return by_element and any(
        isinstance(v, torch.Tensor) and v.device.type == "spyre" for v in values
    )


def _uses(node: torch.fx.Node, known: set[torch.fx.Node]) -> Iterator[_Use]:
    """Of the numbers among the arguments of an operator."""
    op = overload_of(node)
    tensors = [source.meta.get("val") for source in node.all_input_nodes if source not in known]
    dtypes = [tensor.dtype for tensor in tensors if isinstance(tensor, torch.Tensor)]
    rules = _C.op_scalars(node_arguments.op_name(op), len(schema_of(op).arguments))
    # Whether 32 bits hold a result of int64 depends on the number.
    wanted = [0] * len(rules) if torch.int64 in dtypes else list(rules)
    for index, value in enumerate(node_arguments.positional(op, node.args, node.kwargs)):
        found = list[torch.fx.Node]()
        torch.fx.map_arg(value, found.append)
        for source in found:
            if source in known:
                rule = wanted[index] if source is value else 0
                yield _Use(node, index, source, rule, node_arguments.number_range(dtypes))
