# SPDX-License-Identifier: Apache-2.0
"""Functions of several operators that write into their tensors, each call one launch: a graph as
torch.compile() makes it, whose numbers are parameters of its programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..compile.dynamic_sizes.grown_arguments import keep

if TYPE_CHECKING:
    from ..compile import backend

MOST_GRAPHS = 256  # of a function; what came first goes

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


class Update:
    """`function(*arguments)`, whose arguments are tensors of the card, floats and None. Calls of
    tensors of the same form share a graph, whatever the floats are; tensors of one storage are
    written operator by operator."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.graphs: dict[Any, backend.Runnable] = {}

    def __call__(self, *arguments: Argument) -> None:
        if _share_memory(arguments):
            self.function(*arguments)
            return
        operands: list[Any] = [_operand(value) for value in arguments if value is not None]
        key = tuple([_kind(value) for value in arguments])
        graph = self.graphs.get(key)
        if graph is None:
            graph = self._compile(arguments, operands)
            keep(self.graphs, key, graph, MOST_GRAPHS)
        graph(operands)

    def _compile(self, arguments: tuple[Argument, ...], operands: list[Any]) -> backend.Runnable:
        from .._pytorch import fx
        from ..compile import backend, decomposition_table

        def call(*given: Tensor) -> list[Tensor]:
            left = iter(given)
            self.function(*[None if value is None else next(left) for value in arguments])
            return []

        gm = fx.trace(
            call, [_example(operand) for operand in operands], decomposition_table.table()
        )
        fakes = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
        return backend.compile_aten(gm, fakes)
