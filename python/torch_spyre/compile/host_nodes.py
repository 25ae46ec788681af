# SPDX-License-Identifier: Apache-2.0
"""Nodes of a compiled graph that the host computes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload
from .._pytorch.fx import maker_of, overload_of
from ..eager.random_numbers import drawn_for
from ..eager.run_on_cpu import call, in_float32
from . import collectives
from .collectives import is_collective
from .registered import fallback_ops
from .segments import Segment

if TYPE_CHECKING:
    from .program import Program


def _as_traced(tensor: torch.Tensor | None, fake: torch.Tensor) -> torch.Tensor | None:
    """CPU kernels may choose other strides and other dtypes than the graph was traced with; later
    nodes count on the traced ones."""
    if tensor is None:
        return None
    if tensor.dtype != fake.dtype:
        tensor = tensor.to(fake.dtype)
    if tensor.stride() == fake.stride() or 0 in fake.stride():
        return tensor
    traced = tensor.new_empty_strided(fake.shape, fake.stride())
    return traced.copy_(tensor)


class HostRun:
    """One run of a segment on the host."""

    def __init__(self, program: Program, values: dict[int, torch.Tensor]) -> None:
        self.program = program
        self.values = values  # of the graph, by id
        self.local: dict[int, Any] = {}  # tensors on the host, None for an absent result
        self.made_by: dict[int, torch.fx.Node] = {}
        self.moved = 0  # bytes that came from the card for the node at work

    def run(self, segment: Segment) -> None:
        """Adds the segment's outputs to the values."""
        program = self.program
        for number in segment.nodes:
            node = program.nodes[number]
            if program.views.keys() >= set(program.results_of(node)):
                continue  # made where a node of the host reads it
            began, self.moved = time.perf_counter(), 0
            self._run_node(node)
            if not program.is_empty(node):
                program.account(node, self.moved, 0, time.perf_counter() - began)
        for value in segment.outputs:
            self._hand_over(value)

    def _hand_over(self, value: int) -> None:
        program, local = self.program, self.local
        if value in program.views:
            self.values[value] = program.view(value, self.values)
            return
        if value not in local:  # a part of a node for a later segment (Program._failing)
            return
        self.values[value] = local[value]
        goes_to_card = program.fakes[value].device.type == "spyre" and local[value].is_cpu
        if goes_to_card and not program.is_empty(self.made_by[value]):
            program.account(self.made_by[value], 0, local[value].nbytes, 0.0, calls=0)

    def _to_cpu(self, argument: object) -> object:
        if isinstance(argument, torch.device):
            return torch.device("cpu")
        if not isinstance(argument, torch.fx.Node):
            return argument
        value, local = self.program.id_of(argument), self.local
        fake = self.program.fakes[value]
        if value in local and local[value] is not None and not local[value].is_cpu:
            return _as_traced(local[value].cpu(), fake)  # of a collective
        if value not in local and value in self.values:
            tensor = self.values[value]
            self.moved += 0 if tensor.is_cpu else tensor.nbytes
            local[value] = _as_traced(tensor.cpu(), fake)
        elif value not in local:  # a view that the card needs no work for
            self._run_node(maker_of(argument))
        return local[value]

    def _as_placed(self, argument: object) -> object:
        """Where the graph has it: for a collective, whose group goes by the device."""
        if not isinstance(argument, torch.fx.Node):
            return argument
        value, local = self.program.id_of(argument), self.local
        if value not in local and value in self.values:
            return self.program.placed(value, self.values)
        if value not in local:
            self._to_cpu(argument)
        local[value] = local[value].to(self.program.fakes[value].device)
        return local[value]

    def _run_node(self, node: torch.fx.Node) -> None:
        program, op = self.program, overload_of(node)
        if is_collective(op):
            args = program.resolve(node, list(node.args))
            kwargs = {k: program.resolve(node, v) for k, v in node.kwargs.items()}
            result = collectives.exchange(op, args, kwargs, self._as_placed, self._to_cpu)
            for value, tensor in program.pairs(program.ids[node], result):
                self.local[value] = tensor
                self.made_by[value] = node
            return
        for value, tensor in self._made(node, op):
            self.local[value] = tensor
            self.made_by[value] = node

    def _made(self, node: torch.fx.Node, op: OpOverload) -> list[tuple[int, Any]]:
        """The results of a node that is no collective, by id."""
        program = self.program
        if program.is_empty(node):
            fakes = [(value, program.fakes[value]) for value in program.results_of(node)]
            return [(v, torch.empty_strided(f.shape, f.stride(), dtype=f.dtype)) for v, f in fakes]
        is_called = program.is_called(node)
        place = self._as_placed if is_called else self._to_cpu
        args = pytree.tree_map(place, program.resolve(node, list(node.args)))
        kwargs = {
            k: pytree.tree_map(place, program.resolve(node, v)) for k, v in node.kwargs.items()
        }
        function = op if is_called else fallback_ops.get(op)
        with drawn_for(self._draws_for(node), op, args, kwargs) as keywords:
            result = function(*args, **keywords) if function else call(op, args, keywords)
        if self._is_rounded(node, result):
            result = in_float32(op, args, kwargs)
        kept = program.kept(node, result)
        return [(value, _as_traced(tensor, program.fakes[value])) for value, tensor in kept]

    def _draws_for(self, node: torch.fx.Node) -> torch.device | None:
        """The card that has a result of a node whose kernel of the CPU is called."""
        if self.program.is_called(node):
            return None
        devices = [self.program.fakes[value].device for value in self.program.results_of(node)]
        return next((device for device in devices if device.type == "spyre"), None)

    def _is_rounded(self, node: torch.fx.Node, result: object) -> bool:
        """Whether a kernel of the CPU gives in 16 bits what the graph has in float32."""
        return any(
            isinstance(tensor, torch.Tensor)
            and tensor.dtype in (torch.float16, torch.bfloat16)
            and self.program.fakes[value].dtype is torch.float32
            for value, tensor in self.program.kept(node, result)
        )
