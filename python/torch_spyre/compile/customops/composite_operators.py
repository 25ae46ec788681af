# SPDX-License-Identifier: Apache-2.0
"""Compositions that the compiler knows as one operator: torch.ops.spyre.

A model spells them out and the compiler finds them (src/graph/pattern/pattern.def), or calls them
by name. Called, they are their spelling, on every device and with gradients; for the card the
compiler finds that again.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ..._pytorch.dispatch import OpOverload, schema_of
from ..._pytorch.fx import arguments_of
from ..segments import NodeReport

_SCHEMAS = {
    "silu_mul": "(Tensor gate, Tensor up) -> Tensor",
    "rope": "(Tensor x, Tensor cos, Tensor sin, bool interleaved=False) -> Tensor",
    "rope_by_matrix": "(Tensor q, Tensor freqs) -> Tensor",
}


def silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def rope(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False
) -> torch.Tensor:
    """Rotary embedding: the parts of the last dim, which turn against each other, are its halves or
    its even and odd elements. cos and sin are as long."""
    if interleaved:
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def rope_by_matrix(q: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
    """q [batch, length, heads, 1, 2, n] by matrices [batch, length, 1, 2, 2, n]; the result is
    [batch, length, heads, 2, 1, n]."""
    return (freqs * q).sum(4, keepdim=True)


def register() -> torch.library.Library:
    """Defines the operators; they live as long as what is returned."""
    library = torch.library.Library("spyre", "FRAGMENT")
    for function in (silu_mul, rope, rope_by_matrix):
        library.define(function.__name__ + _SCHEMAS[function.__name__])
        library.impl(function.__name__, function, "CompositeImplicitAutograd")
    return library


# ---- what the compiler found, in an FX graph

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|%([\w.$]+)|\b(true|false|none)\b')
_WORDS = {"true": "True", "false": "False", "none": "None"}


def _arguments(text: str, values: Mapping[str, torch.fx.Node]) -> list[Any]:
    """Arguments in the graph's text form (docs/graph-text.md)."""
    python = _TOKEN.sub(
        lambda t: f'("%", "{t[1]}")' if t[1] else _WORDS.get(t[0], t[0]),
        text,
    )
    return [
        values[argument[1]] if isinstance(argument, tuple) else argument
        for argument in ast.literal_eval(f"[{python}]")
    ]


def _value_names(nodes: Iterable[torch.fx.Node]) -> dict[str, torch.fx.Node]:
    """FX nodes by the names that the compiler has for their values."""
    names = {node.name: node for node in nodes}
    for node in nodes:
        if node.target is operator.getitem:
            source, index = arguments_of(node)
            names[f"{source.name}.{index}"] = node
    return names


def with_found(
    gm: torch.fx.GraphModule, nodes: Sequence[torch.fx.Node], reports: Sequence[NodeReport]
) -> torch.fx.GraphModule:
    """A copy of the graph with the compositions that the compiler found in the place of their
    spelling; `nodes` are the graph's by the compiler's ids, `reports` what became of each."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, copies))
    names = _value_names(gm.graph.nodes)
    values = {name: copies[node] for name, node in names.items() if node in copies}
    for node, found_in in zip(nodes, reports, strict=True):
        if found_in.composition is None:
            continue
        name, _, text = found_in.composition.removesuffix(")").partition("(")
        namespace, packet, overload = name.split(".")
        op = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        root = copies[node]
        with graph.inserting_before(root):
            found = graph.call_function(op, *_call(op, _arguments(text, values)))
        found.meta = dict(root.meta)
        root.replace_all_uses_with(found)
        graph.erase_node(root)
        values[node.name] = found
    graph.eliminate_dead_code()
    graph.lint()
    return torch.fx.GraphModule(gm, graph)


def _call(op: OpOverload, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional arguments as FX has them: keyword-only ones by name."""
    schema = schema_of(op).arguments
    pairs = list(zip(schema, arguments, strict=True))
    positional = tuple(value for argument, value in pairs if not argument.kwarg_only)
    return positional, {a.name: value for a, value in pairs if a.kwarg_only}
