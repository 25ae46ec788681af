# SPDX-License-Identifier: Apache-2.0
"""Functions of several operators that write into their tensors, for lists of them one launch: a
graph as torch.compile() makes it, whose numbers are parameters of its programs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..compile.dynamic_sizes.grown_arguments import keep

if TYPE_CHECKING:
    from ..compile import backend

MOST_GRAPHS = 256  # of a function; what came first goes
MOST_TOGETHER = 16  # of a list: some layers, whose like share a graph

Argument = Tensor | float | None


def _kind(value: Argument) -> Any:
    """What graphs are told apart by."""
    if not isinstance(value, Tensor):
        return type(value)
    return (value.dtype, value.device, value.shape, value.stride())


def _operand(value: Argument) -> Tensor | float | None:
    """The card's elements of no dim have one: a number in float64 would give its dtype to a result
    without dims."""
    return value.view(1) if isinstance(value, Tensor) and value.dim() == 0 else value


def _example(operand: Tensor | float) -> Tensor:
    """A number that changes is traced as a tensor of the host."""
    return operand if isinstance(operand, Tensor) else torch.tensor(operand, dtype=torch.float64)


def _share_memory(arguments: Sequence[Argument]) -> bool:
    storages = [v.untyped_storage().data_ptr() for v in arguments if isinstance(v, Tensor)]
    return len(set(storages)) < len(storages)


def _in_order(graphs: Sequence[torch.fx.Graph], own: int) -> torch.fx.Graph:
    """A graph that computes all, each of `own` arguments and of the others, which they share: one
    reads there what the one before has written."""
    together = torch.fx.Graph()

    def place(source: torch.fx.Node) -> torch.fx.Node:
        node = together.placeholder(f"{source.name}_of_{len(together.nodes)}")
        node.meta = dict(source.meta)
        return node

    given = [graph.find_nodes(op="placeholder") for graph in graphs]
    owned = [list(map(place, sources[:own])) for sources in given]
    places = list(map(place, given[0][own:]))
    shared = list(places)  # what is there now
    writers = dict[int, torch.fx.Node]()
    for graph, sources, arguments in zip(graphs, given, owned, strict=True):
        copies = dict(zip(sources, [*arguments, *shared], strict=True))
        together.graph_copy(graph, copies)
        for writer in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
            number = sources.index(writer.args[0]) - own
            if number >= 0:
                shared[number] = copies[writer.args[1]]
                if number in writers:
                    together.erase_node(writers[number])
                writers[number] = copies[writer]
                writers[number].update_arg(0, places[number])
    together.output([])
    return together


class Update:
    """`function(*own, *shared)`, whose arguments are tensors of the card, floats and None, for each
    of a list of own arguments, which have None in the same places. Up to MOST_TOGETHER of them are
    one launch; calls of tensors of the same forms share a graph, whatever the floats are. Tensors
    of one storage are written operator by operator."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.traces: dict[Any, torch.fx.GraphModule] = {}  # of one
        self.graphs: dict[Any, backend.Runnable] = {}

    def __call__(self, owned: Sequence[tuple[Argument, ...]], *shared: Argument) -> None:
        for first in range(0, len(owned), MOST_TOGETHER):
            self._update(owned[first : first + MOST_TOGETHER], shared)

    def _update(self, owned: Sequence[tuple[Argument, ...]], shared: tuple[Argument, ...]) -> None:
        arguments = [*itertools.chain.from_iterable(owned), *shared]
        if _share_memory(arguments):
            for own in owned:
                self.function(*own, *shared)
            return
        key = tuple(map(_kind, arguments))
        operands: list[Any] = [_operand(value) for value in arguments if value is not None]
        graph = self.graphs.get(key)
        if graph is None:
            graph = self._compile(owned, shared)
            keep(self.graphs, key, graph, MOST_GRAPHS)
        graph(operands)

    def _compile(
        self, owned: Sequence[tuple[Argument, ...]], shared: tuple[Argument, ...]
    ) -> backend.Runnable:
        """One graph of the traces of all, which follow each other."""
        from ..compile import backend

        forms = [self._traced((*own, *shared)).graph for own in owned]
        gm = torch.fx.GraphModule({}, _in_order(forms, sum(v is not None for v in owned[0])))
        fakes = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
        return backend.compile_aten(gm, fakes)

    def _traced(self, arguments: tuple[Argument, ...]) -> torch.fx.GraphModule:
        from .._pytorch import fx
        from ..compile import decomposition_table

        def call(*given: Tensor) -> list[Tensor]:
            left = iter(given)
            self.function(*[None if value is None else next(left) for value in arguments])
            return []

        key = tuple(map(_kind, arguments))
        if key not in self.traces:
            operands: list[Any] = [_operand(value) for value in arguments if value is not None]
            examples = list(map(_example, operands))
            keep(
                self.traces, key, fx.trace(call, examples, decomposition_table.table()), MOST_GRAPHS
            )
        return self.traces[key]
