# SPDX-License-Identifier: Apache-2.0
"""Tensors that a graph of Dynamo wraps: calls of a subclass that holds other tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


def _is_wrapper(node: Any) -> bool:
    return (
        isinstance(node, torch.fx.Node)
        and node.op == "call_function"
        and isinstance(node.target, type)
        and issubclass(node.target, torch.Tensor)
    )


def take_parts(graph: torch.fx.Graph) -> None:
    """What reads a part of a wrapper that the graph makes reads what the wrapper was made of."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not getattr:
            continue
        wrapper = node.args[0]
        if not _is_wrapper(wrapper):
            continue
        part = getattr(wrapper.meta["example_value"], node.args[1], None)
        made_of = [a for a in wrapper.args if _value(a) is not None and _value(a) is part]
        if made_of:
            node.replace_all_uses_with(made_of[0])
            graph.erase_node(node)


def _value(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None


@dataclass
class Wrapped:
    """How to wrap a tensor as a graph did, outside of it: `make` gets its arguments again, of which
    `argument` is that tensor."""

    make: Callable[..., Any]
    arguments: list[Any]
    argument: int
    inputs: dict[int, int]  # arguments that are placeholders of the graph
    nodes: dict[int, Any]  # arguments that the graph computes
    results: dict[int, int] = field(default_factory=dict)  # where it returns these

    @classmethod
    def of(cls, node: Any, tensor: Any, placeholders: Sequence[Any]) -> Wrapped:
        others = {
            i: a
            for i, a in enumerate(node.args)
            if isinstance(a, torch.fx.Node) and a is not tensor
        }
        inputs = {i: placeholders.index(a) for i, a in others.items() if a in placeholders}
        nodes = {i: a for i, a in others.items() if i not in inputs}
        return cls(node.target, list(node.args), node.args.index(tensor), inputs, nodes)

    def take_results(self, first: int) -> list[Any]:
        """The nodes that the graph returns for it, from result `first` on."""
        self.results = {argument: first + i for i, argument in enumerate(self.nodes)}
        return list(self.nodes.values())

    def __call__(self, tensor: torch.Tensor, args: Sequence[Any], results: Sequence[Any]) -> Any:
        """`args` of the graph, and its `results`, as a call of it has them."""
        values = list(self.arguments)
        values[self.argument] = tensor
        for argument, index in self.inputs.items():
            values[argument] = args[index]
        for argument, index in self.results.items():
            values[argument] = results[index]
        return self.make(*values)
