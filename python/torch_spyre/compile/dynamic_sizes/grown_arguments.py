# SPDX-License-Identifier: Apache-2.0
"""Arguments that a graph returns with a few rows more: `cat([cache, rows])`.

A concatenation would copy the cache. Instead a second form of the graph takes an argument that is
longer by the rows already and lies in the same card memory (core/tensor/grow_in_place.c), writes
the rows into it, and that argument is the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ... import _C
from ..._pytorch.fx import SYMBOLIC, arguments_of, results_of
from ...constants import DEVICE_NAME

_aten = torch.ops.aten


LEAST = 8  # rows of what grows
MOST = 64  # forms of a graph
Tensors = dict[int, torch.Tensor]


def keep(table: dict[Any, Any], key: Any, value: Any, most: int | None = None) -> None:
    """Adds to what is known of lengths; beyond `most`, or MOST, what came first goes."""
    while len(table) >= (most or MOST):
        del table[next(iter(table))]
    table[key] = value


class Growing(NamedTuple):
    """An argument and its concatenation."""

    argument: int
    dim: int
    rows: int
    cat: torch.fx.Node
    results: list[int]  # places of the concatenation among the graph's results


class Growth:
    """The second form of a graph, `gm`, and how to call it."""

    def __init__(self, gm: torch.fx.GraphModule, growing: list[Growing]):
        self.growing = growing
        self.gm = _in_place(gm, growing)

    def extend(
        self, args: Sequence[Any], reach: Callable[[Growing], int]
    ) -> tuple[Tensors, Tensors] | None:
        """The longer arguments by place, and what is read of their memory, `reach` rows; None where
        one is better concatenated."""
        longer, read = Tensors(), Tensors()
        for grown in self.growing:
            made = _C.extend(args[grown.argument], grown.dim, grown.rows, reach(grown))
            if made is None:
                return None
            tensor, whole = made
            longer[grown.argument] = tensor
            read[grown.argument] = tensor if whole is None else whole
        return longer, read

    def put_results(self, results: list[Any], longer: Tensors) -> list[Any]:
        """The results of the graph, from those of its second form."""
        for grown in self.growing:
            for place in grown.results:
                results[place] = longer[grown.argument]
        return results


def plan(gm: torch.fx.GraphModule) -> Growth | None:
    """None for a graph without such arguments."""
    results = results_of(gm.graph)
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    found = [_growing(i, node, results) for i, node in enumerate(inputs)]
    growing = [grown for grown in found if grown is not None]
    symbols = {node.meta.get("val").node.expr for node in inputs
               if isinstance(node.meta.get("val"), SYMBOLIC)}  # fmt: skip
    for grown in growing:  # sizes are told by numbers, or by the concatenation if at all
        size = inputs[grown.argument].meta["val"].shape[grown.dim]
        if isinstance(size, SYMBOLIC) and size.node.expr not in symbols:
            return None
    return Growth(gm, growing) if growing else None


def _growing(index: int, node: torch.fx.Node, results: Sequence[Any]) -> Growing | None:
    cat = next(iter(node.users), None)
    if cat is None or len(node.users) > 1 or cat.target is not _aten.cat.default:
        return None
    tensors, *rest = arguments_of(cat)
    places = [i for i, result in enumerate(results) if result is cat or _is_all(result, cat)]
    dim = rest[0] if rest else 0
    if not places or len(tensors) != 2 or tensors[0] is not node or tensors[1] is node:
        return None
    old, new, made = (n.meta.get("val") for n in (node, tensors[1], cat))
    if not all(isinstance(value, torch.Tensor) for value in (old, new, made)):
        return None
    assert old is not None and new is not None and made is not None
    alike = old.dtype == new.dtype == made.dtype and old.dim() == new.dim() == made.dim() > 0
    if not alike or old.device.type != DEVICE_NAME or new.device != old.device:
        return None
    rows = new.shape[dim]
    return Growing(index, dim % old.dim(), rows, cat, places) if isinstance(rows, int) else None


def _is_all(result: object, cat: torch.fx.Node) -> bool:
    """A slice that is as long as what it is of: the window of a cache that has not filled it."""
    if not isinstance(result, torch.fx.Node) or result.target is not _aten.slice.Tensor:
        return False
    of, *bounds = arguments_of(result)
    shapes = [node.meta["val"].shape for node in (result, cat)]
    return of is cat and len(bounds) < 4 and shapes[0] == shapes[1]


def _in_place(gm: torch.fx.GraphModule, growing: Sequence[Growing]) -> torch.fx.GraphModule:
    """The graph with arguments that are longer, rows written into them, and no such results."""
    graph, copies = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    made: Any = graph.graph_copy(gm.graph, copies)
    results = list(made)
    for grown in growing:
        cat = copies[grown.cat]
        argument, few = arguments_of(cat)[0]
        argument.meta["val"] = cat.meta["val"]
        with graph.inserting_before(cat):
            places = (argument, few, grown.dim, -grown.rows, sys.maxsize)
            written = graph.call_function(_aten.slice_scatter.default, places)
        written.meta = dict(cat.meta)
        cat.replace_all_uses_with(written)
        graph.erase_node(cat)
        update = graph.call_function(_aten.copy_.default, (argument, written))
        update.meta = dict(cat.meta)
        for place in grown.results:
            results[place] = None
    graph.output(tuple(results))
    return torch.fx.GraphModule(gm, graph)
