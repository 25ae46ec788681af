# SPDX-License-Identifier: Apache-2.0
"""A compiled graph, ready to run: segments of the card and of the host, one after the other."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import _C, _fallback, profiling
from .._pytorch import pytree
from .._pytorch.dispatch import has_device_kernel
from .._pytorch.dynamo import graph_breaks
from .._pytorch.fx import arguments_of, overload_of
from ..device import c_names
from ..eager import fits_card
from ..eager.run_on_cpu import call
from ..report import CompileReport
from . import collectives, node_arguments, scalars, segment_launch
from .collectives import is_collective
from .graph_builder import CASTS, GraphBuilder, scalar_to_card
from .host_nodes import HostRun
from .integers import integer_overflow, integer_ranges, integer_watch
from .registered import composed, fallback_ops
from .segments import Segment, nodes_of, segments_of

_aten = torch.ops.aten

# Copies between host and card, which are no fallbacks; a cast among them is the host's.
_MOVES = CASTS | {_aten.copy.default, _aten.copy_.default, _aten.lift_fresh_copy.default}

Values = dict[int, torch.Tensor]  # by id


class _Fallback(NamedTuple):
    """A node that reads tensors of the card and that the host computes."""

    node: torch.fx.Node
    reason: str  # the compiler's
    location: str  # the user's line, or ""


class Straight(NamedTuple):
    """A graph that is one launch."""

    launch: segment_launch.Launch
    arguments: list[int]  # of the graph, by input of the segment
    outputs: list[tuple[int | None, Any]]  # result of the launch, or None and a constant
    in_order: bool  # the inputs are the first arguments

    def inputs(self, args: list[Any]) -> list[Any]:
        if self.in_order and len(args) == len(self.arguments):
            return args
        return [args[index] for index in self.arguments]


def is_on_card(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "spyre"


def _moved_as_it_lies(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """On another device with the same strides: what is between the elements of a view goes along,
    since the backward pass of a graph goes by the strides of what its forward pass has kept."""
    as_moved = torch.empty_like(tensor, device=device)
    if as_moved.stride() == tensor.stride() or tensor.numel() == 0:
        return tensor.to(device)
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    extent = sum((size - 1) * step for size, step in steps) + 1
    storage = tensor.as_strided((extent,), (1,)).to(device)
    return storage.as_strided(tensor.shape, tensor.stride())


def _is_read(value: object) -> bool:
    """A tensor of the card with values that can be read."""
    return isinstance(value, torch.Tensor) and is_on_card(value) and value.numel() > 0


def _constant(result: object, of_call: scalars.Call | None) -> object:
    """A result that no segment makes."""
    if of_call and isinstance(result, torch.fx.Node):
        return scalars.number_of(result, of_call.numbers)
    return result


class Program:
    """The segments of a compiled graph, ready to run."""

    def __init__(self, builder: GraphBuilder, executable: _C.Executable):
        self.executable = executable
        self.family: object = None  # whose executable this is at a size, while it is used
        self.used = False  # since the table of programs has asked
        self.device = builder.device
        self.nodes = builder.nodes
        self.ids = builder.ids
        self.constants = builder.constants
        self.values = builder.values
        self.inputs = builder.inputs
        self.moved = builder.moved
        self.numbers = set(builder.numbers)
        self.outputs = [self._result(result) for result in builder.outputs]
        self.segments = segments_of(executable)
        self.updates = [  # what is not written in place
            (index, self.id_of(source))
            for index, source in builder.updates
            if not self._is_in_place(index, self.id_of(source))
        ]
        self.launches = [
            profiling.launch_of(executable, segment, self.nodes) if segment.on_card else None
            for segment in self.segments
        ]
        self.fakes = {
            value: fake
            for node, ids in builder.ids.items()
            for value, fake in self.pairs(ids, builder.values[node])
        }
        self.views = self._find_views()
        self.reinterpreted = self._find_reinterpreted()
        self.resolve = builder.resolve
        self.nodes_taken = nodes_of(executable)
        self.fallbacks = self._find_fallbacks()
        self.exchanges = [self._plan_exchanges(segment) for segment in self.segments]
        self._check_room()
        self.effects = self._plan_effects(builder.effects)
        self.casts = [
            {v: node for v, node in builder.casts.items() if s.on_card and v in s.outputs}
            for s in self.segments
        ]
        self.watches = [self._watch(segment) for segment in self.segments]
        self.made_by_libraries = {
            value
            for _number, node in self._host_nodes()
            if self.is_called(node)
            for value in self.results_of(node)
        }
        self.preferred = self._find_preferred()
        self._plan_lifetimes()
        self.only = self._plan_only()
        self.straight = None if self.watches[:1] != [None] else self.only
        if self.straight and not self.straight.outputs:
            self.straight.launch.views = ()  # of arguments written in place, which are no results
        self.direct = self._make_direct()
        # No node may run on the host, which has the numbers of the first call.
        self.takes_any_numbers = all(
            segment.on_card and not self._may_leave_card(segment) for segment in self.segments
        ) and not (builder.casts or builder.effects)

    def _find_views(self) -> dict[int, torch.fx.Node]:
        """The nodes that make views of arguments on the card, by value. They stay views where the
        host has the node, since AOTAutograd goes by their strides and places."""
        there = {v for v, source in self.inputs
                 if isinstance(source, int) and source not in self.moved
                 and is_on_card(self.fakes[v])}  # fmt: skip
        made: dict[int, torch.fx.Node] = {}
        for node in self.nodes:
            base = next(iter(arguments_of(node)), None)
            ids = self.ids.get(base) if isinstance(base, torch.fx.Node) else None
            if overload_of(node).is_view and isinstance(ids, int) and ids in there | made.keys():
                made.update(dict.fromkeys(self.results_of(node), node))
        return made

    def _find_reinterpreted(self) -> set[int]:
        """Of these views, those of the bytes of another dtype: their storage is laid out for that
        one, and no launch can read it as theirs."""
        found: set[int] = set()
        for value, node in self.views.items():
            base = self.id_of(node.all_input_nodes[0])
            if base in found or self.fakes[base].dtype != self.fakes[value].dtype:
                found.add(value)
        return found

    def view(self, value: int, values: Values) -> torch.Tensor:
        """One of them."""
        if value not in self.views:
            return values[value]
        node = self.views[value]
        base, *rest = self.resolve(node, list(node.args))
        kwargs = {k: self.resolve(node, v) for k, v in node.kwargs.items()}
        result = overload_of(node)(self.view(self.id_of(base), values), *rest, **kwargs)
        view: torch.Tensor = dict(self.pairs(self.ids[node], result))[value]
        return view

    def _watch(self, segment: Segment) -> integer_watch.Watch | None:
        """The int64 arithmetic of a card segment, if it has any."""
        if not segment.on_card:
            return None
        nodes = [self.nodes[number] for number in segment.nodes]
        watch = integer_watch.Watch(
            nodes, set(segment.inputs), self.ids, self.values, node_arguments.positional,
            self.casts[segment.index],
        )  # fmt: skip
        return watch if watch.risky else None

    def _find_preferred(self) -> list[tuple[int, int, int]]:
        """(argument, segment, input of the segment) where the segment copies all of the argument
        into another layout before it reads it."""
        sources = dict(self.inputs)
        found = []
        for segment in self.segments:
            for place in self.executable.preferred_inputs(segment.index):
                argument = sources.get(segment.inputs[place])
                if isinstance(argument, int) and argument not in self.moved:
                    found.append((argument, segment.index, place))
        return found

    def move_inputs(self, args: Sequence[Any]) -> bool:
        """Gives arguments the layouts that the segments prefer: parameters before the first
        launch, other tensors before the second one on the same contents. Whether any has moved;
        the graph is then worth another compilation."""
        return any(
            [
                self.executable.prefer_layout(
                    segment, place, args[argument], isinstance(args[argument], torch.nn.Parameter)
                )
                for argument, segment, place in self.preferred
            ]
        )

    def _host_nodes(self) -> Iterable[tuple[int, torch.fx.Node]]:
        """(the compiler's number, node) of what the host computes."""
        for segment in self.segments:
            if not segment.on_card:
                yield from ((number, self.nodes[number]) for number in segment.nodes)

    def _check_room(self) -> None:
        """What the host is to compute for the card fits the card."""
        for _number, node in self._host_nodes():
            values = [v for _id, v in self.pairs(self.ids[node], self.values[node])]
            fits_card.check(str(node.target), [v for v in values if is_on_card(v)])

    @staticmethod
    def pairs(ids: int | list[int], values: Any) -> list[tuple[int, Any]]:
        """(id, value) of each result of a node; one that a mask leaves out is None and not here."""
        pairs = zip(ids, values, strict=True) if isinstance(ids, list) else [(ids, values)]
        return [(value, result) for value, result in pairs if result is not None]

    def id_of(self, node: torch.fx.Node) -> int:
        """Of a node with one result."""
        ids = self.ids[node]
        assert isinstance(ids, int), f"{node.name} has several results"
        return ids

    def _result(self, result: object) -> tuple[int | None, Any]:
        """(value id, None) for a tensor, (None, constant) for anything else: a number of the call
        is its node."""
        if not isinstance(result, torch.fx.Node) or result in self.numbers:
            return None, result
        if result in self.ids:
            return self.id_of(result), None
        return None, self.constants[result]

    def _is_in_place(self, index: int, value: int) -> bool:
        """Whether a segment writes the new contents of an argument where the argument is."""
        targets = {id for id, source in self.inputs if isinstance(source, int) and source == index}
        return any(
            view.of_input
            and segment.outputs[view.result] == value
            and segment.inputs[view.source] in targets
            for segment in self.segments
            for view in segment.views
        )

    def _read_by(self, nodes: Iterable[torch.fx.Node]) -> list[int]:
        sources = [source for node in nodes for source in node.all_input_nodes]
        return [self.id_of(source) for source in sources if source in self.ids]

    def _plan_effects(self, nodes: Sequence[torch.fx.Node]) -> dict[int, list[torch.fx.Node]]:
        """By segment: what is called behind it, since all that it reads is there, in order."""
        made = {value: s.index for s in self.segments for value in s.outputs}
        effects: dict[int, list[torch.fx.Node]] = {}
        earliest = 0
        for node in nodes:
            earliest = max([earliest, *(made.get(value, 0) for value in self._read_by([node]))])
            effects.setdefault(earliest, []).append(node)
        return effects

    def _plan_exchanges(self, segment: Segment) -> list[collectives.Step] | None:
        """The steps of a segment in which cards exchange tensors, and nothing else is computed."""
        there, steps = set(segment.inputs), []
        for node in (self.nodes[number] for number in segment.nodes):
            op = overload_of(node)
            step = collectives.plan(node, op, self._ids)
            if step is None or not there.issuperset(step.sources):
                return None
            if not all(is_on_card(self.fakes[value]) for value in (*step.sources, *step.results)):
                return None
            there.update(step.results)
            steps.append(step)
        return steps if any(not step.is_view for step in steps) else None

    def exchange_table(self) -> str:
        """The collectives between cards, a line each: modelled time, how much of it is hidden; ""
        without one."""
        plans = [step.plan for steps in self.exchanges for step in steps or [] if step.plan]
        ranks = max((_C.exchange_price(plan, 0)[0] for plan in plans), default=0)
        return self.executable.exchanges(ranks) if plans else ""

    def _exchange(self, steps: list[collectives.Step], values: Values) -> None:
        for step in steps:
            for value in step.sources:
                if values[value].is_cpu:  # the host has made it
                    self.placed(value, values)
            collectives.run(step, values)

    def _ids(self, node: torch.fx.Node) -> list[int]:
        ids = self.ids[node]
        return ids if isinstance(ids, list) else [ids]

    def _plan_lifetimes(self) -> None:
        """For each segment, the values that have their last reader in it."""
        last: dict[int, int] = {}
        for segment in self.segments:
            for value in (*segment.inputs, *segment.outputs):
                last[value] = segment.index
        there = {value for value, _source in self.inputs}
        for segment in self.segments:
            for value in self._read_by_host(segment, there):
                last[value] = max(segment.index, last.get(value, 0))
            there.update(segment.outputs)
        for index, nodes in self.effects.items():
            for value in self._read_by(nodes):
                last[value] = max(index, last.get(value, index))
        kept = {value for value, _constant in self.outputs} | {v for _i, v in self.updates}
        self.dead: list[list[int]] = [[] for _ in self.segments]
        for value, index in last.items():
            if value not in kept:
                self.dead[index].append(value)

    def _read_by_host(self, segment: Segment, there: set[int]) -> set[int]:
        """Of the values `there`, those that the host needs if it computes a segment of the card.

        The card may have computed a part of a node in an earlier segment; the host has no use for
        that part and begins with the node's own operands."""
        if not segment.on_card or not self._may_leave_card(segment):
            return set()
        waiting = [self.nodes[number] for number in segment.nodes]
        seen, found = set(waiting), set()
        while waiting:
            for source in waiting.pop().all_input_nodes:
                if source in seen or source not in self.ids:
                    continue
                seen.add(source)
                ids = self.ids[source]
                values = set(ids) if isinstance(ids, list) else {ids}
                found |= values & there
                if not values <= there:
                    waiting.append(source)
        return found

    def _may_leave_card(self, segment: Segment) -> bool:
        """For its int64 values, or since it reads a part of a node whose segment has left it."""
        if self.watches[segment.index]:
            return True
        known = [self.fakes[value] for value in segment.inputs if value in self.fakes]
        if any(fake.dtype is torch.int64 for fake in known):
            return True
        return len(known) < len(segment.inputs) and any(self.watches)

    def _plan_only(self) -> Straight | None:
        """For a graph that is one launch: which arguments it takes, which results it gives."""
        launch = self.launches[0] if len(self.segments) == 1 else None
        if launch is None or self.updates or self.moved or self.effects:
            return None
        if self.casts[0]:
            return None
        segment = self.segments[0]
        sources = dict(self.inputs)
        given = [sources[value] for value in segment.inputs]
        arguments = [source for source in given if isinstance(source, int)]
        on_card = all(is_on_card(self.fakes[value]) for value in segment.inputs)
        if not on_card or len(arguments) < len(given):
            return None
        places = {value: index for index, value in enumerate(segment.outputs)}
        if any(value is not None and value not in places for value, _ in self.outputs):
            return None
        outputs = [
            (None if value is None else places[value], constant) for value, constant in self.outputs
        ]
        in_order = arguments == list(range(len(arguments)))
        return Straight(launch, arguments, outputs, in_order)

    def _make_direct(self) -> _C.DirectLaunch | None:
        """The launch of a straight graph that Python adds nothing to."""
        straight = self.straight
        if straight is None or type(straight.launch) is not segment_launch.Launch:
            return None
        places = [place for place, _constant in straight.outputs if place is not None]
        index = straight.launch.index
        if self.preferred or straight.launch.views or self.executable.segment(index)["scalars"]:
            return None
        if len(places) < len(straight.outputs):
            return None
        return _C.DirectLaunch(
            self.executable, index, self.device.index, tuple(straight.arguments), tuple(places)
        )

    def __call__(self, args: list[Any], of_call: scalars.Call | None) -> list[Any]:
        """Runs with the arguments of the graph and the numbers among them."""
        numbers = of_call.values if of_call else ()
        if self.straight is not None:
            straight = self.straight
            results = straight.launch(straight.inputs(args), self.device.index, numbers)
            return [
                _constant(constant, of_call) if place is None else results[place]
                for place, constant in straight.outputs
            ]
        for node, reason, location in self.fallbacks.values():
            _fallback.meet(node.target, self._operands(node), reason, location)
        values: Values = {}
        for value, source in self.inputs:
            if not isinstance(source, int):
                values[value] = source
            elif source in self.moved:
                values[value] = scalar_to_card(args[source], self.device)
            else:
                values[value] = args[source]
        targets = [args[index] for index, _value in self.updates]
        args.clear()
        for segment in self.segments:
            steps = self.exchanges[segment.index]
            if segment.on_card:
                self._run_on_card(segment, values, numbers)
            elif steps is not None:
                self._exchange(steps, values)
            else:
                HostRun(self, values).run(segment)
            self._call_effects(self.effects.get(segment.index, ()), values)
            for value in self.dead[segment.index]:
                values.pop(value, None)
        for target, (_index, value) in zip(targets, self.updates, strict=True):
            target.copy_(values[value])
        return [
            _constant(constant, of_call) if value is None else self.placed(value, values)
            for value, constant in self.outputs
        ]

    def _call_effects(self, nodes: Sequence[torch.fx.Node], values: Values) -> None:
        """Checks raise here, before later segments write new contents of arguments."""

        def to_cpu(argument: object) -> object:
            if isinstance(argument, torch.fx.Node):
                return values[self.id_of(argument)].cpu()
            return torch.device("cpu") if isinstance(argument, torch.device) else argument

        for node in nodes:
            args = pytree.tree_map(to_cpu, self.resolve(node, list(node.args)))
            kwargs = {k: self.resolve(node, v) for k, v in node.kwargs.items()}
            call(overload_of(node), args, pytree.tree_map(to_cpu, kwargs))

    def placed(self, value: int, values: Values) -> torch.Tensor:
        """The value on the device where the graph has it."""
        tensor = values[value]
        wanted = self.fakes[value].device
        if wanted.type != tensor.device.type:
            tensor = values[value] = _moved_as_it_lies(tensor, wanted)
        return tensor

    def _failing(self, segment: Segment, values: Values) -> tuple[torch.fx.Node, str] | None:
        """A node that keeps the segment off the card, and why: 32 bits do not hold the int64 values
        that it gets or makes, or a part of a node is missing that a segment on the host has not
        made."""
        watch = self.watches[segment.index]
        first = watch.risky[0] if watch else self.nodes[segment.nodes[0]]
        if not all(value in values for value in segment.inputs):
            return first, integer_overflow.LEAVES
        tensors = [values[value] for value in segment.inputs]
        arriving = [t for t in tensors if t.device.type == "cpu" and t.dtype is torch.int64]
        if not all(integer_ranges.fits(integer_ranges.range_of_tensor(t)) for t in arriving):
            return first, integer_overflow.LEAVES
        return watch.failing(values) if watch else None

    def _run_on_card(self, segment: Segment, values: Values, numbers: tuple[float, ...]) -> None:
        launch, watch = self.launches[segment.index], self.watches[segment.index]
        assert launch is not None
        if failing := self._failing(segment, values):
            self._leave_card(segment, values, *failing)
            self._write_inputs(segment, values)
            return
        inputs = [self._on_card(segment, at, values) for at in range(len(segment.inputs))]
        outputs = launch(inputs, self.device.index, numbers)
        made = dict(zip(segment.outputs, outputs, strict=True))
        for value, node in self.casts[segment.index].items():
            source = self.id_of(node.all_input_nodes[0])
            # beside casts, nothing is written in place
            if integer_overflow.is_saturated(made[value], made.get(source, values.get(source))):
                self._leave_card(segment, values, node, integer_overflow.LEAVES)
                return
        if watch and watch.casts and (failing := watch.failing({**values, **made})):
            self._leave_card(segment, values, *failing)
            return
        values.update(made)

    def _leave_card(
        self, segment: Segment, values: Values, node: torch.fx.Node, reason: str
    ) -> None:
        """The segment on the host, because of what `node` makes of these values; the host's own
        errors come first."""
        operands = self._operands(node)
        HostRun(self, values).run(segment)
        _fallback.meet(node.target, operands, reason)

    def _write_inputs(self, segment: Segment, values: Values) -> None:
        """What a card segment writes in place, for one that the host has run."""
        for view in segment.views:
            if view.of_input:
                target = view.of(values[segment.inputs[view.source]])
                value = segment.outputs[view.result]
                values[value] = target.copy_(values[value])

    def _on_card(self, segment: Segment, position: int, values: Values) -> torch.Tensor:
        """An input of the segment, moved to the card as its launch expects it; a library's kernel
        lays its results out as it likes."""
        value = segment.inputs[position]
        tensor = values[value]
        copied = value in self.made_by_libraries or value in self.reinterpreted
        if tensor.device.type == "spyre" and not copied:
            return tensor
        size, stride, layout = self.executable.input_storage(segment.index, position)
        storage = c_names.spyre_empty_with_layout(size, stride, tensor.dtype, layout, self.device)
        fake = self.fakes[value]
        view = storage.as_strided(fake.shape, fake.stride(), fake.storage_offset())
        view.copy_(tensor)
        if value not in self.reinterpreted:  # which stay views for those who go by their place
            values[value] = view
        return view

    def is_called(self, node: torch.fx.Node) -> bool:
        """Whether a library's own kernel, or one of the device, computes with its tensors."""
        op = overload_of(node)
        return op not in fallback_ops and (op in composed or has_device_kernel(op))

    def is_empty(self, node: torch.fx.Node) -> bool:
        """Whether the node's results have no elements: nothing is computed."""
        fakes = [self.fakes[value] for value in self.results_of(node)]
        is_one = bool(fakes) and all(fake.numel() == 0 for fake in fakes)
        return is_one and not is_collective(overload_of(node))

    def _is_split(self, node: torch.fx.Node) -> bool:
        """Whether a node of the host computes with tensors of the card; views compute nothing."""
        if overload_of(node).is_view or self.is_called(node):
            return False
        tensors = pytree.tree_leaves([self._operands(node), self.values[node]])
        return overload_of(node) not in _MOVES and any(map(is_on_card, tensors))

    def results_of(self, node: torch.fx.Node) -> list[int]:
        """Ids of values."""
        return [value for value, _result in self.pairs(self.ids[node], self.values[node])]

    def kept(self, node: torch.fx.Node, result: object) -> list[tuple[int, Any]]:
        """A call's results by id; kernels of the CPU may compute one that a mask leaves out."""
        pairs = self.pairs(self.ids[node], result)
        return [(value, tensor) for value, tensor in pairs if value in self.fakes]

    def account(
        self, node: torch.fx.Node, to_host: int, to_card: int, seconds: float, calls: int = 1
    ) -> None:
        op = overload_of(node)
        if op in _MOVES or op.is_view or is_collective(op) or self.is_called(node):
            return
        found = self.fallbacks.get(node)
        reason = found.reason if found else ""
        _fallback.account(op, reason, found is not None, to_host, to_card, seconds, calls)

    def _operands(self, node: torch.fx.Node) -> list[Any]:
        return [self.values[argument] for argument in node.all_input_nodes]

    def _find_fallbacks(self) -> Mapping[torch.fx.Node, _Fallback]:
        found = {}
        for number, node in self._host_nodes():
            op = overload_of(node)
            if op.is_view or op in _MOVES or op in fallback_ops or is_collective(op):
                continue
            if self.is_empty(node) or self.is_called(node):
                continue
            if any(_is_read(leaf) for leaf in pytree.tree_leaves(self._operands(node))):
                taken = self.nodes_taken[number]
                place = "" if taken.location == "unknown" else taken.location
                found[node] = _Fallback(node, taken.reason or "", place)
        return found

    def report(self) -> CompileReport:
        report = CompileReport(
            segments=len(self.segments),
            text=self.executable.report(),
            program=weakref.ref(self),
        )
        memory = ops = 0
        for segment in self.segments:
            if segment.on_card:
                stages = self.executable.stages(segment.index)
                for name, us, size, *_left in stages:
                    report.stage_us[name] = report.stage_us.get(name, 0.0) + us
                    memory += size
                ops += stages[-1][3] if stages else 0
                report.counters += self.executable.counters(segment.index)
                report.card_segments += 1
                report.nodes_on_card += len(segment.nodes)
                report.kernels += segment.kernels
                report.macs += segment.macs
                report.bytes += segment.memory_bytes
                report.card_us += segment.card_us
            else:
                taken = [n for n in map(self.nodes.__getitem__, segment.nodes) if self._is_split(n)]
                report.nodes_on_host += len(taken)
                report.nodes_apart += len(segment.nodes) - len(taken)
                report.host_ops += [str(node.target) for node in taken]
        report.bytes_per_op = memory / ops if ops else 0.0
        if any(self.exchanges):
            sizes = {value: fake.nbytes for value, fake in self.fakes.items()}
            report.exchanges = collectives.price(self.segments, self.exchanges, sizes)
        report.graph_breaks = graph_breaks()
        return report
