# SPDX-License-Identifier: Apache-2.0
"""Arguments that a graph gives another tensor's storage: `x.data = y`, `x.set_(y)`.

AOTAutograd puts `aten.set_` behind what the graph computes. No program can do that to a tensor of
the caller, so that the graph returns y, and x is set to it when the graph has run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
Places = list[tuple[int, int]]  # (argument, result)
Runnable = Callable[[list[Any]], list[Any]]


def take_out(gm: torch.fx.GraphModule) -> Places:
    """Makes every y a result of the graph, behind its own."""
    found = gm.graph.find_nodes(op="call_function", target=_aten.set_.source_Tensor)
    arguments = list(gm.graph.find_nodes(op="placeholder"))
    output: Any = gm.graph.output_node()
    places: Places = []
    for node in found:
        x, y = node.args
        if x not in arguments:
            continue
        for user in list(x.users):  # the same contents once more, now in the storage of y
            if user.target is _aten.copy_.default and user.args[:2] == (x, y):
                gm.graph.erase_node(user)
        places.append((arguments.index(x), len(output.args[0])))
        output.args = ((*output.args[0], y),)
        gm.graph.erase_node(node)
    if places:
        gm.recompile()
    return places


def setting(run: Runnable, places: Places) -> Runnable:
    """A graph from which they were taken out, with what they do."""

    def run_and_set(args: list[Any]) -> list[Any]:
        arguments = [args[argument] for argument, _result in places]
        results = run(args)
        with torch.no_grad():
            for argument, (_place, result) in zip(arguments, places, strict=True):
                argument.set_(results[result])
        return results[: -len(places)]

    run_and_set._boxed_call = True  # type: ignore[attr-defined]
    return run_and_set
