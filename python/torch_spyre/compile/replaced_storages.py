# SPDX-License-Identifier: Apache-2.0
"""Arguments whose storage a graph exchanges (`x.data = y`, `x.set_(y)`) or resizes
(`x.untyped_storage().resize_(0)`, and back before it is written).

AOTAutograd puts both behind what the graph computes. No program can do that to a tensor of the
caller: the graph returns y, and x is set to it when the graph has run; a storage gets its bytes
before the graph runs, which writes it, and loses them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

_aten = torch.ops.aten
_RESIZE = "inductor::resize_storage_bytes_"
Runnable = Callable[[list[Any]], list[Any]]


class Replaced(NamedTuple):
    """What was taken out of a graph."""

    set_to: list[tuple[int, int]]  # (argument, result)
    resized: list[tuple[int, int]]  # (argument, bytes)


def take_out(gm: torch.fx.GraphModule) -> Replaced | None:
    """Makes every y a result of the graph, behind its own; None for a graph without any."""
    arguments = list(gm.graph.find_nodes(op="placeholder"))
    output: Any = gm.graph.output_node()
    found = Replaced([], [])
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or not node.args or node.args[0] not in arguments:
            continue
        x, *rest = node.args
        if node.target is _aten.set_.source_Tensor:
            found.set_to.append((arguments.index(x), len(output.args[0])))
            output.args = ((*output.args[0], *rest),)
        elif getattr(node.target, "_name", "").startswith(_RESIZE):
            found.resized.append((arguments.index(x), *rest))
        else:
            continue
        gm.graph.erase_node(node)
    if not any(found):
        return None
    for argument, result in found.set_to:
        _forget_copies(gm.graph, arguments[argument], output.args[0][result])
    gm.recompile()
    return found


def _forget_copies(graph: torch.fx.Graph, x: torch.fx.Node, y: torch.fx.Node) -> None:
    """Of the same contents once more, where x has them by then."""
    for copy in list(x.users):
        if copy.target is _aten.copy_.default and copy.args[:2] == (x, y):
            graph.erase_node(copy)


def replacing(run: Runnable, replaced: Replaced) -> Runnable:
    """A graph from which they were taken out, with what they do."""

    def run_and_replace(args: list[Any]) -> list[Any]:
        targets = [(args[argument], result) for argument, result in replaced.set_to]
        emptied = []
        for argument, size in replaced.resized:
            if size:
                args[argument].untyped_storage().resize_(size)
            else:
                emptied.append(args[argument])
        results = run(args)
        with torch.no_grad():
            for target, result in targets:
                target.set_(results[result])
        for tensor in emptied:
            tensor.untyped_storage().resize_(0)
        return results[: len(results) - len(targets)]

    run_and_replace._boxed_call = True  # type: ignore[attr-defined]
    return run_and_replace
