# SPDX-License-Identifier: Apache-2.0
"""A compiled graph, ready to run: segments of the card and of the host, one after the other."""

from __future__ import annotations

import time
import weakref

import torch

from .. import _C, _fallback
from .._pytorch import pytree
from .._pytorch.dynamo import graph_breaks
from ..device import bindings
from ..eager import room
from ..eager.host import call
from ..report import CompileReport
from . import handover, integers
from .graph_builder import GraphBuilder, scalar_to_card
from .registered import fallback_ops

_aten = torch.ops.aten

# Copies between host and card; a cast among them is the host's.
_MOVES = {
    _aten._to_copy.default,
    _aten.copy.default,
    _aten.copy_.default,
    _aten.lift_fresh_copy.default,
    torch.ops.prims.device_put.default,
}


def is_on_card(value) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "spyre"


def _as_traced(tensor, fake):
    """CPU kernels may choose other strides and other dtypes than the graph was traced with (of
    16-bit statistics, say); later nodes count on the traced ones."""
    if tensor is None:
        return None
    if tensor.dtype != fake.dtype:
        tensor = tensor.to(fake.dtype)
    if tensor.stride() == fake.stride() or 0 in fake.stride():
        return tensor
    traced = torch.empty_strided(fake.shape, fake.stride(), dtype=tensor.dtype)
    return traced.copy_(tensor)


def _is_read(value) -> bool:
    """A tensor of the card with values that can be read."""
    return is_on_card(value) and value.numel() > 0


class Program:
    """The segments of a compiled graph, ready to run."""

    def __init__(self, builder: GraphBuilder, executable: _C.Executable):
        self.executable = executable
        self.device = builder.device
        self.nodes = builder.nodes
        self.ids = builder.ids
        self.constants = builder.constants
        self.values = builder.values
        self.inputs = builder.inputs
        self.moved = builder.moved
        self.outputs = [self._result(result) for result in builder.outputs]
        self.segments = [executable.segment(i) for i in range(executable.segment_count())]
        self.updates = [  # what is not written in place
            (index, builder.ids[source])
            for index, source in builder.updates
            if not self._is_in_place(index, builder.ids[source])
        ]
        self.launches = [
            handover.Launch(executable, index) if segment["kind"] == "card" else None
            for index, segment in enumerate(self.segments)
        ]
        self.fakes = {
            value: fake
            for node, ids in builder.ids.items()
            for value, fake in self._pairs(ids, builder.values[node])
        }
        self.resolve = builder.resolve
        self.nodes_taken = executable.nodes()
        self.fallbacks = self._find_fallbacks()
        self._check_room()
        self.effects = self._plan_effects(builder.effects)
        self.watches = [self._watch(segment) for segment in self.segments]
        self._plan_lifetimes()
        self.straight = self._plan_straight()

    def _watch(self, segment) -> integers.Watch | None:
        """The int64 arithmetic of a card segment, if it has any."""
        if segment["kind"] != "card":
            return None
        nodes = [self.nodes[number] for number in segment["nodes"]]
        watch = integers.Watch(
            nodes, set(segment["inputs"]), self.ids, self.values, handover.positional
        )
        return watch if watch.risky else None

    def _check_room(self):
        """What the host is to compute for the card fits the card."""
        for segment in self.segments:
            for number in segment["nodes"] if segment["kind"] != "card" else ():
                node = self.nodes[number]
                values = [v for _id, v in self._pairs(self.ids[node], self.values[node])]
                room.check(str(node.target), [v for v in values if is_on_card(v)])

    @staticmethod
    def _pairs(ids, values):
        return list(zip(ids, values, strict=True)) if isinstance(ids, list) else [(ids, values)]

    def _result(self, result):
        """(value id, None) for a tensor, (None, constant) for anything else."""
        if not isinstance(result, torch.fx.Node):
            return None, result
        if result in self.ids:
            return self.ids[result], None
        return None, self.constants[result]

    def _is_in_place(self, index: int, value: int) -> bool:
        """Whether a segment writes the new contents of an argument where the argument is."""
        targets = {id for id, source in self.inputs if source == index and isinstance(source, int)}
        return any(
            of_input and segment["outputs"][at] == value and segment["inputs"][source] in targets
            for segment in self.segments
            for at, of_input, source, *_view in segment["views"]
        )

    def _read_by(self, nodes) -> list[int]:
        sources = [source for node in nodes for source in node.all_input_nodes]
        return [self.ids[source] for source in sources if source in self.ids]

    def _plan_effects(self, nodes) -> dict[int, list[torch.fx.Node]]:
        """By segment: what is called behind it, since all that it reads is there, in order."""
        made = {v: i for i, segment in enumerate(self.segments) for v in segment["outputs"]}
        effects: dict[int, list[torch.fx.Node]] = {}
        earliest = 0
        for node in nodes:
            earliest = max([earliest, *(made.get(value, 0) for value in self._read_by([node]))])
            effects.setdefault(earliest, []).append(node)
        return effects

    def _plan_lifetimes(self):
        """For each segment, the values that nobody reads after it."""
        last: dict[int, int] = {}
        for index, segment in enumerate(self.segments):
            for value in (*segment["inputs"], *segment["outputs"]):
                last[value] = index
        for index, nodes in self.effects.items():
            for value in self._read_by(nodes):
                last[value] = max(index, last.get(value, index))
        kept = {value for value, _constant in self.outputs} | {v for _i, v in self.updates}
        self.dead: list[list[int]] = [[] for _ in self.segments]
        for value, index in last.items():
            if value not in kept:
                self.dead[index].append(value)

    def _plan_straight(self):
        """For a graph that is one launch: which arguments it takes, which results it gives."""
        if (
            len(self.segments) != 1
            or not self.launches[0]
            or self.updates
            or self.moved
            or self.effects
        ):
            return None
        if self.watches[0]:
            return None
        segment = self.segments[0]
        sources = dict(self.inputs)
        arguments = [sources[value] for value in segment["inputs"]]
        places = {value: index for index, value in enumerate(segment["outputs"])}
        if not all(isinstance(a, int) and self.fakes[v].device.type == "spyre"
                   for a, v in zip(arguments, segment["inputs"], strict=True)):  # fmt: skip
            return None
        if any(value is not None and value not in places for value, _ in self.outputs):
            return None
        outputs = [(places.get(value), constant) for value, constant in self.outputs]
        return self.launches[0], arguments, outputs

    def __call__(self, args: list):
        if self.straight is not None:
            launch, arguments, outputs = self.straight
            results = launch([args[index] for index in arguments], self.device.index)
            return [c if place is None else results[place] for place, c in outputs]
        for node, reason, location in self.fallbacks.values():
            _fallback.meet(node.target, self._operands(node), reason, location)
        values: dict[int, torch.Tensor] = {}
        for value, source in self.inputs:
            tensor = args[source] if isinstance(source, int) else source
            moved = isinstance(source, int) and source in self.moved
            values[value] = scalar_to_card(tensor, self.device) if moved else tensor
        targets = [args[index] for index, _value in self.updates]
        args.clear()
        for index, segment in enumerate(self.segments):
            if segment["kind"] == "card":
                self._run_on_card(index, segment, values)
            else:
                self._run_on_host(segment, values)
            self._call_effects(self.effects.get(index, ()), values)
            for value in self.dead[index]:
                values.pop(value, None)
        for target, (_index, value) in zip(targets, self.updates, strict=True):
            target.copy_(values[value])
        return [
            constant if value is None else self._placed(value, values)
            for value, constant in self.outputs
        ]

    def _call_effects(self, nodes, values) -> None:
        """Checks raise here, before later segments write new contents of arguments."""

        def to_cpu(argument):
            if isinstance(argument, torch.fx.Node):
                return values[self.ids[argument]].cpu()
            return torch.device("cpu") if isinstance(argument, torch.device) else argument

        for node in nodes:
            args = pytree.tree_map(to_cpu, self.resolve(node, list(node.args)))
            kwargs = {k: self.resolve(node, v) for k, v in node.kwargs.items()}
            call(node.target, args, pytree.tree_map(to_cpu, kwargs))

    def _placed(self, value, values):
        """The value on the device where the graph has it."""
        tensor = values[value]
        wanted = self.fakes[value].device
        if wanted.type != tensor.device.type:
            tensor = values[value] = tensor.to(wanted)
        return tensor

    def _fits_card(self, index, segment, values) -> bool:
        """Whether 32 bits hold the int64 values that the segment gets and makes."""
        tensors = [values[value] for value in segment["inputs"]]
        arriving = [t for t in tensors if t.device.type == "cpu" and t.dtype is torch.int64]
        if not all(integers.fits(integers.range_of_tensor(t)) for t in arriving):
            return False
        watch = self.watches[index]
        return watch is None or watch.holds(values)

    def _run_on_card(self, index, segment, values):
        if not self._fits_card(index, segment, values):
            nodes = [self.nodes[number] for number in segment["nodes"]]
            risky = self.watches[index].risky if self.watches[index] else nodes
            operands = self._operands(risky[0])
            _fallback.meet(risky[0].target, operands, "its int64 values leave 32 bits")
            self._run_on_host(segment, values)
            self._write_inputs(segment, values)
            return
        inputs = [
            self._on_card(value, values, index, position)
            for position, value in enumerate(segment["inputs"])
        ]
        outputs = self.launches[index](inputs, self.device.index)
        values.update(zip(segment["outputs"], outputs, strict=True))

    def _write_inputs(self, segment, values):
        """What a card segment writes in place, for one that the host has run."""
        for at, of_input, source, size, stride, offset in segment["views"]:
            if of_input:
                target = values[segment["inputs"][source]].as_strided(size, stride, offset)
                value = segment["outputs"][at]
                values[value] = target.copy_(values[value])

    def _on_card(self, value, values, index, position):
        tensor = values[value]
        if tensor.device.type == "spyre":
            return tensor
        size, stride, layout = self.executable.input_storage(index, position)
        storage = bindings.spyre_empty_with_layout(size, stride, tensor.dtype, layout, self.device)
        fake = self.fakes[value]
        view = storage.as_strided(fake.shape, fake.stride(), fake.storage_offset())
        values[value] = view.copy_(tensor)
        return view

    def _run_on_host(self, segment, values):
        local: dict[int, torch.Tensor] = {}
        made_by: dict = {}
        moved = 0  # bytes that came from the card for the node at work

        def to_cpu(argument):
            if isinstance(argument, torch.device):
                return torch.device("cpu")
            if not isinstance(argument, torch.fx.Node):
                return argument
            nonlocal moved
            value = self.ids[argument]
            if value not in local and value in values:
                moved += values[value].nbytes if is_on_card(values[value]) else 0
                local[value] = _as_traced(values[value].cpu(), self.fakes[value])
            elif value not in local:  # a view that the card needs no work for
                run(argument)
            return local[value]

        def run(node):
            args = pytree.tree_map(to_cpu, self.resolve(node, list(node.args)))
            kwargs = {
                k: pytree.tree_map(to_cpu, self.resolve(node, v)) for k, v in node.kwargs.items()
            }
            function = fallback_ops.get(node.target)
            result = function(*args, **kwargs) if function else call(node.target, args, kwargs)
            for value, tensor in self._pairs(self.ids[node], result):
                local[value] = _as_traced(tensor, self.fakes[value])
                made_by[value] = node

        for number in segment["nodes"]:
            began, moved = time.perf_counter(), 0
            run(self.nodes[number])
            self._account(self.nodes[number], moved, 0, time.perf_counter() - began)
        for value in segment["outputs"]:
            values[value] = local[value]
            if self.fakes[value].device.type == "spyre":
                self._account(made_by[value], 0, local[value].nbytes, 0.0, calls=0)

    def _account(self, node, to_host, to_card, seconds, calls=1):
        if node.target in _MOVES or node.target.is_view:
            return
        _node, reason, _location = self.fallbacks.get(node, (node, "", ""))
        is_fallback = node in self.fallbacks
        _fallback.account(node.target, reason, is_fallback, to_host, to_card, seconds, calls)

    def _operands(self, node):
        return [self.values[argument] for argument in node.all_input_nodes]

    def _find_fallbacks(self) -> dict:
        """The nodes that read tensors of the card and that the host computes, with the
        compiler's reason and the user's line."""
        found = {}
        for segment in self.segments:
            for number in segment["nodes"] if segment["kind"] != "card" else ():
                node = self.nodes[number]
                if node.target.is_view or node.target in _MOVES or node.target in fallback_ops:
                    continue
                if any(_is_read(leaf) for leaf in pytree.tree_leaves(self._operands(node))):
                    _op, location, _layer, reason = self.nodes_taken[number]
                    found[node] = node, reason, "" if location == "unknown" else location
        return found

    def report(self) -> CompileReport:
        report = CompileReport(
            segments=len(self.segments),
            text=self.executable.report(),
            program=weakref.ref(self),
        )
        memory = ops = 0
        for number, segment in enumerate(self.segments):
            if segment["kind"] == "card":
                stages = self.executable.stages(number)
                for name, us, size, *_left in stages:
                    report.stage_us[name] = report.stage_us.get(name, 0.0) + us
                    memory += size
                ops += stages[-1][3] if stages else 0
                report.counters += self.executable.counters(number)
                report.card_segments += 1
                report.nodes_on_card += len(segment["nodes"])
                report.kernels += segment["kernels"]
                report.macs += segment["macs"]
                report.bytes += segment["bytes"]
                report.card_us += segment["card_us"]
            else:
                report.nodes_on_host += len(segment["nodes"])
                report.host_ops += [str(self.nodes[n].target) for n in segment["nodes"]]
        report.bytes_per_op = memory / ops if ops else 0.0
        report.graph_breaks = graph_breaks()
        return report
