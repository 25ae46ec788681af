# SPDX-License-Identifier: Apache-2.0
"""torch.compile for the device: hands ATen graphs to the compiler and runs what comes back.

AOTAutograd makes the graph, with PyTorch's core decompositions for the operators that the
compiler has no row for. Layouts are known only for real tensors, so a graph is compiled when it
is first called, once for each combination of its inputs' views and layouts; symbolic sizes are
replaced by what they are in that call. The compiler answers with segments: those of the card are
launched, the nodes of the others run through PyTorch on the CPU.
"""

from __future__ import annotations

import functools
import operator
import os
import re
import tempfile
from dataclasses import dataclass, field

import sympy
import torch
from torch.utils import _pytree as pytree

from . import _C, attention, handover, patches
from ._inductor import (
    artefacts,
    buckets,
    compile_log,
    decompositions,
    hints,
    lowering,
    passes,
    structured,
)
from ._inductor.registry import fallback_ops
from .eager import call, check_fits, warn_fallback

_aten = torch.ops.aten


@dataclass
class CompileReport:
    """What became of one graph."""

    nodes_on_card: int = 0
    nodes_on_host: int = 0
    segments: int = 0
    card_segments: int = 0
    kernels: int = 0
    macs: int = 0
    bytes: int = 0
    card_us: float = 0.0
    graph_breaks: int = 0
    host_ops: list[str] = field(default_factory=list)
    text: str = field(default="", repr=False)
    # Of every kernel in order, as include/spyre/counters.h describes them.
    counters: list[dict] = field(default_factory=list, repr=False)
    # Microseconds of processor time by stage of the front ("pass" names of src/front/pass.def,
    # build, invariants, emit), and host memory an op of the loop IR; empty and 0 from the cache.
    stage_us: dict[str, float] = field(default_factory=dict, repr=False)
    bytes_per_op: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.nodes_on_card} nodes on the card, {self.nodes_on_host} on the host, "
            f"{self.segments} segments, {self.kernels} kernels, {self.macs} multiply-accumulates, "
            f"{self.bytes} bytes, {self.card_us:.1f} us on the card (modelled), "
            f"{self.graph_breaks} graph breaks"
        )


reports: list[CompileReport] = []


def spyre_backend(gm: torch.fx.GraphModule, example_inputs, **_options):
    """The Dynamo backend `spyre`; also what torch.compile() calls for graphs of the device."""
    from torch._dynamo.backends.common import aot_autograd

    passes.CustomPreGradPasses()(gm.graph)
    gm.recompile()
    with structured.graph_of_user(gm):
        return aot_autograd(
            fw_compiler=_compile,
            bw_compiler=_compile,
            inference_compiler=_compile,
            decompositions=decompositions.table(),
            keep_inference_input_mutations=True,
        )(gm, example_inputs)


def _compile(gm: torch.fx.GraphModule, example_inputs):
    folder = artefacts.open_folder()
    if folder:
        folder.graph_before_passes(gm)
    passes.CustomPrePasses()(gm.graph)
    gm = lowering.lower(gm, example_inputs)
    attention.make_single(gm)
    passes.CustomPostPasses()(gm.graph)
    gm.recompile()
    trace = structured.Trace()
    trace.graph_after_passes(gm)
    if folder:
        folder.graph_after_passes(gm)
    graph = CompiledGraph(gm, folder, trace)

    def run(args: list):
        return graph(args)

    run._boxed_call = True  # type: ignore[attr-defined]  # one list, which the callee may empty
    return run


class CompiledGraph:
    """One ATen graph and its programs."""

    def __init__(self, gm: torch.fx.GraphModule, folder=None, trace=None):
        self.gm = gm
        self.folder = folder  # artefacts.Folder of the first program, or None
        self.trace = trace  # structured.Trace, or None
        self.programs: dict = {}
        self.buckets = buckets.plan(gm)
        self.takes_tensors_only = all(
            isinstance(node.meta.get("val"), torch.Tensor)
            for node in gm.graph.find_nodes(op="placeholder")
        )

    def _key(self, args: list):
        if self.takes_tensors_only:
            return _C.tensors_key(args)
        return tuple([_C.tensor_key(a) if isinstance(a, torch.Tensor) else a for a in args])

    def __call__(self, args: list):
        if self.buckets is None or hints.in_use():
            return self._run(args)
        filled, sizes = self.buckets.fill(args)
        return self.buckets.cut(self._run(filled), sizes)

    def _run(self, args: list):
        key = self._key(args)
        if hints.in_use():
            key = (key, *[hints.dims_of(a) for a in args])
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = _build(self.gm, args, self.folder)
            self.folder = None
            if self.trace and isinstance(program, _Program):
                self.trace.program(program)
        return program(list(args))


def _build(gm: torch.fx.GraphModule, args, folder):
    try:
        values = _node_values(gm, args)
        devices = [value.device for value in pytree.tree_leaves(list(values.values()))
                   if isinstance(value, torch.Tensor) and value.device.type == "spyre"]  # fmt: skip
        return _Builder(gm, values, devices[0]).build(args, folder) if devices else _Eager(gm)
    except _Inexpressible as error:
        warn_fallback("a graph", f"it is interpreted node by node: {error}")
        return _Eager(gm)


class _Inexpressible(Exception):
    """The graph holds something that the hand-over has no words for."""


class _Eager:
    """Runs the graph's nodes one by one; errors get the node and the user's line."""

    def __init__(self, gm):
        self.gm = gm

    def __call__(self, args):
        return list(torch.fx.Interpreter(self.gm).run(*args))


# ---- values of the graph


_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _node_values(gm: torch.fx.GraphModule, args) -> dict:
    """Each node's value: fake tensors of static sizes, numbers. Symbolic sizes are what they are in
    this call."""
    sizes = _Sizes(gm, args)
    return {node: pytree.tree_map(sizes.of_value, node.meta.get("val")) for node in gm.graph.nodes}


class _Sizes:
    """The symbols of a graph's sizes, and values with numbers in their place."""

    def __init__(self, gm: torch.fx.GraphModule, args):
        self.symbols: dict = {}
        self.numbers: dict = {}  # expression -> number
        self.mode = torch._subclasses.FakeTensorMode()
        for node, value in zip(gm.graph.find_nodes(op="placeholder"), args, strict=True):
            fake = node.meta.get("val")
            if isinstance(fake, _SYMBOLIC):
                self._bind(fake, value)
            elif isinstance(fake, torch.Tensor):
                for size, number in zip(fake.shape, value.shape, strict=True):
                    self._bind(size, number)

    def _bind(self, symbolic, number) -> None:
        if isinstance(symbolic, _SYMBOLIC) and symbolic.node.expr.is_symbol:
            self.symbols[symbolic.node.expr] = sympy.sympify(number)

    def of_value(self, value):
        if isinstance(value, _SYMBOLIC):
            return self.number(value)
        if not isinstance(value, torch.Tensor):
            return value
        size, stride, offset = value.shape, value.stride(), value.storage_offset()
        if not any(isinstance(part, _SYMBOLIC) for part in (*size, *stride, offset)):
            return value
        size, stride = [self.number(n) for n in size], [self.number(n) for n in stride]
        return self._fake(value, size, stride, self.number(offset))

    def number(self, value):
        if not isinstance(value, _SYMBOLIC):
            return value
        expression = value.node.expr
        if expression not in self.numbers:
            number = expression.xreplace(self.symbols)
            if number.free_symbols:
                raise _Inexpressible(f"a size {expression} that is known from data only")
            self.numbers[expression] = value.node.pytype(number)
        return self.numbers[expression]

    def _fake(self, value, size, stride, offset):
        shape = torch.empty_strided(size, stride, dtype=value.dtype, device="meta")
        if offset:
            extent = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
            storage = torch.empty(extent, dtype=value.dtype, device="meta")
            shape = storage.as_strided(size, stride, offset)
        return torch._subclasses.FakeTensor(self.mode, shape, value.device)


def _location(node: torch.fx.Node) -> str | None:
    return _innermost_line(node.meta.get("stack_trace") or "")


@functools.lru_cache(4096)
def _innermost_line(stack_trace: str) -> str | None:
    """ "model.py:12 in forward": the user's line that made the node."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', stack_trace)
    if not frames:
        return None
    path, line, function = frames[-1]
    return f"{os.path.basename(path)}:{line} in {function}"


# ---- hand-over


class _Builder:
    """Hands a graph over, node by node."""

    def __init__(self, gm, values, device):
        self.gm = gm
        self.values = values
        self.device = device
        self.graph = _C.Graph()
        self.ids: dict = {}  # fx node -> value id, or list of value ids for several results
        self.constants: dict = {}  # fx node -> number or other non-tensor
        self.inputs: list = []  # (value id, index into args) or (value id, tensor of the module)
        self.nodes: list[torch.fx.Node] = []  # by the compiler's node id
        self.updates: list = []  # (index into args, fx node): copies into inputs, after all else
        self.placeholders: dict = {}
        self.moved: set[int] = set()  # inputs of the host that the card reads

    def build(self, args, folder):
        handlers = {
            "placeholder": lambda node: self._placeholder(node, args),
            "get_attr": self._attribute,
            "call_function": self._call,
            "output": self._output,
        }
        for node in self.gm.graph.nodes:
            if node.op not in handlers:
                raise _Inexpressible(f"{node.op} {node.target}")
            handlers[node.op](node)
        if folder:
            return self._compile(folder.stages(), folder)
        if compile_log.wants_passes():
            with tempfile.TemporaryDirectory() as stages:
                return self._compile(stages)
        return self._compile(None)

    def _compile(self, stages: str | None, folder=None):
        with torch.profiler.record_function(f"dxp_standalone:{self._name()}"):
            executable = handover.compile_graph(self.graph, host_fallback=True, stages=stages)
        program = _Program(self, executable)
        if folder:
            folder.program(program)
        artefacts.log_code(program)
        reports.append(program.report())
        program.warn_of_fallbacks()
        compile_log.of_program(
            program, reports[-1], lambda segment: artefacts.passes_of(stages, segment)
        )
        return program

    def _name(self) -> str:
        """ "sdsc_fused_mm_add": after the first few operators."""
        names = [str(node.target).split(".")[1] for node in self.nodes]
        return "_".join(["sdsc_fused", *list(dict.fromkeys(names))[:4]])

    def _placeholder(self, node, args):
        index = len(self.placeholders)
        self.placeholders[node] = index
        value = args[index]
        if not isinstance(value, torch.Tensor):
            self.constants[node] = value
            return
        if value.device.type == "cpu" and value.dim() == 0 and self._card_reads(node):
            value = _to_card(value, self.device)
            self.moved.add(index)
        self.ids[node] = self._input(node.name, value)
        self.inputs.append((self.ids[node], index))

    def _card_reads(self, node) -> bool:
        users = [self.values[user] for user in node.users if user.op == "call_function"]
        return any(
            isinstance(leaf, torch.Tensor) and leaf.device.type == "spyre"
            for leaf in pytree.tree_leaves(users)
        )

    def _attribute(self, node):
        value = functools.reduce(getattr, node.target.split("."), self.gm)
        if not isinstance(value, torch.Tensor):
            self.constants[node] = value
        elif value.device.type == "cpu" and value.dim() == 0:
            self.constants[node] = value.item()
        else:
            self.ids[node] = self._input(node.name, value)
            self.inputs.append((self.ids[node], value))

    def _input(self, name, tensor) -> int:
        try:
            value = self.graph.add_input(name, tensor)
        except _C.Unsupported as error:
            raise _Inexpressible(str(error)) from error
        if dims := hints.dims_of(tensor):
            self.graph.name_dims(value, dims)
        return value

    def _call(self, node):
        if node.target is operator.getitem:
            self._item(node)
            return
        value = self.values[node]
        if not isinstance(node.target, torch._ops.OpOverload):
            if not isinstance(value, (int, float)):
                raise _Inexpressible(str(node.target))
            self.constants[node] = (
                value  # arithmetic on sizes, which are what they are in this call
            )
            return
        if node.target is _aten.copy_.default and node.args[0] in self.placeholders:
            self.updates.append((self.placeholders[node.args[0]], node.args[1]))
            self.ids[node] = self.ids[node.args[1]]
            return
        source = node.args[0] if node.args else None
        if node.target in _COPIES_OF_CONSTANTS and source in self.constants:
            self.constants[node] = self.constants[source]
            return
        results = list(value) if isinstance(value, (tuple, list)) else [value]
        if not all(isinstance(result, torch.Tensor) or result is None for result in results):
            if any(isinstance(result, torch.Tensor) for result in results):
                raise _Inexpressible(f"{node.target}: results of several kinds")
            self.constants[node] = value
            return
        self._add(node, results, not isinstance(value, (tuple, list)))

    def _add(self, node, results, single):
        arguments = handover.positional(node.target, node.args, node.kwargs)
        arguments = [self._resolve(argument) for argument in arguments]
        first = next((result for result in results if result is not None), None)
        if first is None:
            raise _Inexpressible(f"{node.target}: no result")
        types = [
            handover.result_type(result, result.device.type == "spyre")
            if result is not None
            else (first.dtype, False, [0], [1], 0)  # an absent result
            for result in results
        ]
        try:
            number, outputs = self.graph.add_node(
                node.name,
                handover.op_name(node.target),
                handover.encode(arguments, self._id),
                types,
                _location(node),
            )
        except (_C.Unsupported, RuntimeError) as error:
            raise _Inexpressible(f"{node.target}: {error}") from error
        hints.hand_over(self.graph, number, node)
        assert number == len(self.nodes)
        self.nodes.append(node)
        self.ids[node] = outputs[0] if single else outputs

    def _item(self, node):
        source, index = node.args
        if source in self.constants:
            self.constants[node] = self.constants[source][index]
        else:
            self.ids[node] = self.ids[source][index]

    def _resolve(self, argument):
        """Numbers in the place of the nodes that stand for them."""
        if isinstance(argument, torch.fx.Node):
            return self.constants.get(argument, argument)
        if isinstance(argument, (list, tuple)):
            return [self._resolve(item) for item in argument]
        return argument

    def _id(self, value):
        return self.ids[value] if isinstance(value, torch.fx.Node) else None

    def _output(self, node):
        self.outputs = list(node.args[0])
        for result in [*self.outputs, *(source for _index, source in self.updates)]:
            if isinstance(result, torch.fx.Node) and result in self.ids:
                self.graph.add_output(self.ids[result])


_COPIES_OF_CONSTANTS = {
    _aten.lift_fresh_copy.default,
    _aten.lift_fresh.default,
    _aten.detach.default,
    _aten.alias.default,
    _aten.clone.default,
}


# Copies between host and card; a cast among them is the host's.
_MOVES = {
    _aten._to_copy.default,
    _aten.copy.default,
    _aten.copy_.default,
    _aten.lift_fresh_copy.default,
    torch.ops.prims.device_put.default,
}


# ---- execution


def _to_card(number, device):
    """A tensor of the host without dimensions; the card has no float64."""
    return number.to(device, torch.float32 if number.dtype == torch.float64 else number.dtype)


def _restrided(tensor, fake):
    """CPU kernels may choose other strides than the graph was traced with; later views count on
    the traced ones."""
    if tensor is None or tensor.stride() == fake.stride() or 0 in fake.stride():
        return tensor
    traced = torch.empty_strided(fake.shape, fake.stride(), dtype=tensor.dtype)
    return traced.copy_(tensor)


class _Program:
    """The segments of a compiled graph, ready to run."""

    def __init__(self, builder: _Builder, executable: _C.Executable):
        self.executable = executable
        self.device = builder.device
        self.nodes = builder.nodes
        self.ids = builder.ids
        self.constants = builder.constants
        self.values = builder.values
        self.inputs = builder.inputs
        self.moved = builder.moved
        self.updates = [(index, builder.ids[source]) for index, source in builder.updates]
        self.outputs = [self._result(result) for result in builder.outputs]
        self.segments = [executable.segment(i) for i in range(executable.segment_count())]
        self.launches = [
            handover.Launch(executable, index) if segment["kind"] == "card" else None
            for index, segment in enumerate(self.segments)
        ]
        self.fakes = {
            value: fake
            for node, ids in builder.ids.items()
            for value, fake in self._pairs(ids, builder.values[node])
        }
        self.resolve = builder._resolve
        self._plan_lifetimes()
        self.straight = self._plan_straight()

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

    def _plan_lifetimes(self):
        """For each segment, the values that nobody reads after it."""
        last: dict[int, int] = {}
        for index, segment in enumerate(self.segments):
            for value in (*segment["inputs"], *segment["outputs"]):
                last[value] = index
        kept = {value for value, _constant in self.outputs} | {v for _i, v in self.updates}
        self.dead: list[list[int]] = [[] for _ in self.segments]
        for value, index in last.items():
            if value not in kept:
                self.dead[index].append(value)

    def _plan_straight(self):
        """For a graph that is one launch: which arguments it takes, which results it gives."""
        if len(self.segments) != 1 or not self.launches[0] or self.updates or self.moved:
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
        values: dict[int, torch.Tensor] = {}
        for value, source in self.inputs:
            tensor = args[source] if isinstance(source, int) else source
            moved = isinstance(source, int) and source in self.moved
            values[value] = _to_card(tensor, self.device) if moved else tensor
        targets = [args[index] for index, _value in self.updates]
        args.clear()
        for index, segment in enumerate(self.segments):
            if segment["kind"] == "card":
                self._run_on_card(index, segment, values)
            else:
                self._run_on_host(segment, values)
            for value in self.dead[index]:
                values.pop(value, None)
        for target, (_index, value) in zip(targets, self.updates, strict=True):
            target.copy_(values[value])
        return [
            constant if value is None else self._placed(value, values)
            for value, constant in self.outputs
        ]

    def _placed(self, value, values):
        """The value on the device where the graph has it."""
        tensor = values[value]
        wanted = self.fakes[value].device
        if wanted.type != tensor.device.type:
            tensor = values[value] = tensor.to(wanted)
        return tensor

    def _run_on_card(self, index, segment, values):
        inputs = [
            self._on_card(value, values, index, position)
            for position, value in enumerate(segment["inputs"])
        ]
        outputs = self.launches[index](inputs, self.device.index)
        values.update(zip(segment["outputs"], outputs, strict=True))

    def _on_card(self, value, values, index, position):
        tensor = values[value]
        if tensor.device.type == "spyre":
            return tensor
        size, stride, layout = self.executable.input_storage(index, position)
        storage = patches.spyre_empty_with_layout(size, stride, tensor.dtype, layout, self.device)
        fake = self.fakes[value]
        view = storage.as_strided(fake.shape, fake.stride(), fake.storage_offset())
        values[value] = view.copy_(tensor)
        return view

    def _run_on_host(self, segment, values):
        local: dict[int, torch.Tensor] = {}
        made_by: dict = {}

        def to_cpu(argument):
            if isinstance(argument, torch.device):
                return torch.device("cpu")
            if not isinstance(argument, torch.fx.Node):
                return argument
            value = self.ids[argument]
            if value not in local:
                local[value] = _restrided(values[value].cpu(), self.fakes[value])
            return local[value]

        for number in segment["nodes"]:
            node = self.nodes[number]
            args = pytree.tree_map(to_cpu, self.resolve(list(node.args)))
            kwargs = {k: pytree.tree_map(to_cpu, self.resolve(v)) for k, v in node.kwargs.items()}
            function = fallback_ops.get(node.target)
            result = function(*args, **kwargs) if function else call(node.target, args, kwargs)
            for value, tensor in self._pairs(self.ids[node], result):
                local[value] = _restrided(tensor, self.fakes[value])
                made_by[value] = node.target
        for value in segment["outputs"]:
            on_card = self.fakes[value].device.type == "spyre"
            values[value] = check_fits(made_by[value], local[value]) if on_card else local[value]

    def warn_of_fallbacks(self) -> None:
        """Names what the graph has on the card and the host computes, each operator once."""
        for segment in self.segments:
            for number in segment["nodes"] if segment["kind"] != "card" else ():
                node = self.nodes[number]
                leaves = pytree.tree_leaves(self.values[node])
                on_card = any(
                    isinstance(leaf, torch.Tensor) and leaf.device.type == "spyre"
                    for leaf in leaves
                )
                if on_card and not (node.target.is_view or node.target in _MOVES):
                    warn_fallback(node.target, "runs on the CPU: last_report().text has the reason")

    def report(self) -> CompileReport:
        report = CompileReport(segments=len(self.segments), text=self.executable.report())
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
        report.graph_breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
        return report
