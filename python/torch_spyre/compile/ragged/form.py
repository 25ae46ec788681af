# SPDX-License-Identifier: Apache-2.0
"""The form of a graph, node by node."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import sympy
import torch

from ..._pytorch.fx import SYMBOLIC, arguments_of, results_of
from ..dynamic_sizes.grown_arguments import Growing
from ..dynamic_sizes.operator_dims import BY_PLACE
from ..graph_builder import location
from ..traced_sizes import node_values
from . import indices, products, reductions, rows
from .dims import Dims, Measure, Seen
from .draft import Draft, Places, Rule
from .elementwise import unchanged, with_number

_aten = torch.ops.aten
Node = torch.fx.Node

_RULES: dict[object, Rule] = {
    **reductions.RULES, **products.RULES, **rows.RULES, **indices.RULES
}  # fmt: skip
_RULES_OF_JOINED: dict[object, Rule] = {
    **reductions.RULES_OF_JOINED, **products.RULES, **rows.RULES_OF_JOINED
}  # fmt: skip
_ASK_PLACES = {*BY_PLACE, _aten.arange.default, _aten.arange.start, _aten.index.Tensor}


class Form(NamedTuple):
    """The graph at the ends of its buckets."""

    gm: torch.fx.GraphModule
    arguments: list[tuple[int, dict[int, int]]]  # of the graph, their lengths by dim
    places: list[Places]  # arguments behind them
    cuts: list[dict[int | None, int]]  # by result: lengths by dim, {None: length} for a size
    sizes: list[sympy.Expr]  # of lengths, by number
    ends: list[int]  # where they end here
    offset: int  # the most that a size differs from the end of a bucket


def make(
    gm: torch.fx.GraphModule, growing: Sequence[Growing], args: Sequence[Any],
    of: Sequence[Measure], alike: Sequence[int], ends: Sequence[int],
) -> Form:  # fmt: skip
    """The form for arguments that have grown. `alike` has for each length the first that is as
    long. Raises: Seen."""
    draft = Draft(gm, growing, Dims(node_values(gm, args), of, alike, ends))
    arguments = _arguments(draft)
    for node in gm.graph.nodes:
        if node.op == "call_function" and (node.users or _writes(node)):
            draft.made[node] = _made(draft, node)
        elif node.op == "get_attr":
            draft.made[node] = draft.graph.node_copy(node)
    results = results_of(gm.graph)
    cuts = [_cut(draft.dims, result) for result in results]
    draft.graph.output([_with_rows_first(draft, result) for result in results])
    _check_joined(draft, arguments)
    draft.graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output") or _writes(n))
    made = torch.fx.GraphModule(gm, draft.graph)
    dims = draft.dims
    return Form(
        made, arguments, list(draft.places), cuts, dims.sizes(), list(dims.ends), draft.offset
    )


def _arguments(draft: Draft) -> list[tuple[int, dict[int, int]]]:
    arguments = []
    for index, node in enumerate(draft.sources):
        dims = {} if isinstance(node.meta.get("val"), SYMBOLIC) else draft.dims.of(node)
        _check_argument(draft, index, dims)
        draft.argument(node)
        if not isinstance(node.meta.get("val"), SYMBOLIC):
            arguments.append((index, dims))
    return arguments


def _check_argument(draft: Draft, index: int, dims: dict[int, int]) -> None:
    node = draft.sources[index]
    if dims and not draft.dims.values[node].is_contiguous():
        raise Seen(f"{node.name} is not contiguous")
    grown = [growing.dim for growing in draft.growing if growing.argument == index]
    if grown and set(dims) not in [{dim} for dim in grown]:
        raise Seen(f"{node.name} has another size that is as long as it is")


def _check_joined(draft: Draft, arguments: Sequence[tuple[int, dict[int, int]]]) -> None:
    """Arguments have zeros behind their rows, not between them."""
    for index, dims in arguments:
        if not all(map(draft.dims.comes_first, dims.values())):
            raise Seen(f"dims of {draft.sources[index].name} are joined")


def _made(draft: Draft, node: Node) -> Any:
    """What a node becomes. Raises: Seen."""
    dims = draft.dims
    if isinstance(node.meta.get("val"), SYMBOLIC):
        return dims.at_end_of(node)
    if node.target is operator.getitem:
        return _part(draft, node)
    ragged = [n for n in node.all_input_nodes if dims.of(n)]
    measured = [n for n in node.all_input_nodes if dims.has_length(n.meta.get("val"))]
    if not ragged and not measured and not dims.of(node):
        return _copied(draft, node)
    joined = dims.are_joined(node)
    if joined and node.target in _ASK_PLACES:
        raise Seen(f"places in joined dims: {node.format_node()}, {location(node)}")
    rule = (_RULES_OF_JOINED if joined else _RULES).get(node.target)
    made = rule(draft, node) if rule else None if joined else with_number(draft, node)
    return made or unchanged(draft, node, ragged, measured)


def _part(draft: Draft, node: Node) -> Any:
    """One of several results."""
    of, index = arguments_of(node)
    if isinstance(draft.made[of], list):
        return draft.made[of][index]
    made = draft.graph.call_function(operator.getitem, (draft.made[of], index))
    made.meta = {**node.meta, "val": draft.made[of].meta["val"][index]}
    return made


def _copied(draft: Draft, node: Node) -> Node:
    """A node without lengths; what views it makes follows from how its operands lie here."""
    if any(_lies_otherwise(draft, operand) for operand in node.all_input_nodes):
        args, kwargs = draft.given(node)
        return draft.emit(node.target, args, node, **kwargs)
    made = draft.graph.node_copy(node, draft.made.__getitem__)
    made.meta = {**node.meta, "val": draft.dims.values[node]}
    return made


def _lies_otherwise(draft: Draft, node: Node) -> bool:
    value, made = draft.dims.values.get(node), draft.made[node]
    if not isinstance(value, torch.Tensor) or not isinstance(made, Node):
        return False
    here = made.meta["val"]
    there = value.stride(), value.storage_offset()
    return bool((here.stride(), here.storage_offset()) != there)


def _cut(dims: Dims, result: object) -> dict[int | None, int]:
    """What of a result there is. Raises: Seen."""
    if not isinstance(result, Node):
        return {}
    value, here = result.meta.get("val"), dims.values[result]
    if not isinstance(value, SYMBOLIC):
        lengths = dims.of(result)
        is_tensor = isinstance(here, torch.Tensor)
        if is_tensor and (here.storage_offset() or lengths and not here.is_contiguous()):
            raise Seen("a result is a view")
        return dict[int | None, int](lengths.items())
    number = dims.length(value)
    return {} if number is None else {None: number}


def _with_rows_first(draft: Draft, result: object) -> Any:
    """A result whose rows that count lie before all others along each dim."""
    if not isinstance(result, Node):
        return result
    made = draft.made[result]
    for dim, number in draft.dims.of(result).items():
        if not draft.dims.comes_first(number):
            made = draft.rows_first(made, dim, number, result)
    return made


def _writes(node: Node) -> bool:
    return node.target is _aten.copy_.default or node.is_impure()
