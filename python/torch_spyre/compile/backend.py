# SPDX-License-Identifier: Apache-2.0
"""torch.compile for the device: hands ATen graphs to the compiler and runs what comes back.

AOTAutograd makes the graph, with PyTorch's core decompositions for the operators that the
compiler has no row for. Layouts are known only for real tensors, so a graph is compiled when it
is first called, once for each combination of its inputs' views and layouts; symbolic sizes are
replaced by what they are in that call. The compiler answers with segments: those of the card are
launched, the nodes of the others run through PyTorch on the CPU.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch

from .. import _C, _fallback, config, passes
from .._pytorch import dynamo, dynamo_interface, kept_for_backward, pytree, structured
from .._pytorch.compile_lock import compiling
from .._pytorch.fx import results_of
from ..debug import artefacts, compile_log, failures
from ..program_cache import ProgramTable
from ..report import CompileReport, reports
from . import (
    call_compiler,
    control_flow,
    decomposition_table,
    effects,
    host_scalars,
    lowering,
    ragged,
    replaced_storages,
    scalars,
    weight_layouts,
    whole_operators,
)
from . import options as compile_options
from .decompositions.lines import computed
from .dynamic_sizes import (
    bounded_sizes,
    bucket_forms,
    grown_arguments,
    masked_sizes,
    symbolic_sizes,
)
from .dynamic_sizes.grown_arguments import LEAST, keep
from .graph_builder import GraphBuilder, Inexpressible, location
from .hints import hint_scopes, named_dims
from .layers import attention
from .program import Program
from .traced_sizes import UnknownSize, node_values

dynamo_interface.register()

Values = Sequence[Any]  # tensors (fake ones while tracing) and numbers, one a placeholder
Settings = Mapping[str, Any]  # of torch_spyre.config
Runnable = Callable[[list[Any]], list[Any]]  # takes a graph's arguments, which it may drop


def spyre_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Values,
    mode: str | None = None,
    options: Settings | None = None,
) -> Callable[..., Any]:
    """The Dynamo backend `spyre`: torch.compile(f, backend="spyre", mode=, options=).

    Raises: RuntimeError for a mode or option that does not exist.
    """
    return compile_graph_of_user(gm, example_inputs, compile_options.of_backend(mode, options))


def compile_graph_of_user(
    gm: torch.fx.GraphModule,
    example_inputs: Values,
    settings: Settings,
    of_aten: Callable[[torch.fx.GraphModule], None] | None = None,
) -> Callable[..., Any]:
    """What Dynamo captured, compiled; also what torch.compile() calls without a backend's name.
    `settings` of torch_spyre.config hold for all programs of the graph. `of_aten` is called with
    the ATen graph of an inference."""
    _C._complete()
    passes.CustomPreGradPasses()(gm.graph)
    names = named_dims.take_names(gm.graph)
    gm.recompile()
    scopes = hint_scopes.about_dims(gm.graph)
    artefacts.show_graph("pre_grad_graphs", gm)

    of_user = gm.graph
    plain: list[CompiledGraph] = []  # what the inference is, if AOTAutograd adds nothing to it

    def forward(gm: torch.fx.GraphModule, aten_inputs: Values) -> Runnable:
        hint_scopes.warn_of_lost_scopes(scopes, gm.graph)
        if of_aten:
            of_aten(gm)
        return compile_aten(gm, aten_inputs, settings)

    def inference(gm: torch.fx.GraphModule, aten_inputs: Values) -> Runnable:
        run = forward(gm, aten_inputs)
        graph = getattr(run, "graph", None)
        if graph and dynamo.adds_nothing(len(aten_inputs), example_inputs, of_user):
            plain.append(graph)
        return run

    def backward(gm: torch.fx.GraphModule, example_inputs: Values) -> Runnable:
        return compile_aten(gm, example_inputs, settings)

    report = failures.reported("compile_frontend")
    kept = attention.whole(), whole_operators.kept()
    with report, structured.graph_of_user(gm), kept[0], kept[1]:
        compiled = dynamo.aot_autograd(
            fw_compiler=forward,
            bw_compiler=backward,
            inference_compiler=inference,
            decompositions=decomposition_table.table(),
            partition_fn=_split_passes,
            keep_inference_input_mutations=True,
        )(gm, example_inputs)
    dynamo.forget_unused_stream()
    dynamo.forgo_records_of_calls()
    return named_dims.naming(plain[0].calls(compiled) if plain else compiled, names)


def _split_passes(
    joint: torch.fx.GraphModule, inputs: Any, **options: Any
) -> kept_for_backward.Passes:
    """The graph of both passes as one for each. The card computes faster than it reads, so that
    little is kept in between; where the host has the products, it would compute anew."""
    dtypes = kept_for_backward.dtypes_of_products(joint)
    if dtypes and dtypes.isdisjoint(computed()):
        return kept_for_backward.keep_all(joint, inputs, **options)
    return kept_for_backward.keep_least(joint, inputs, **options)


def compile_aten(
    gm: torch.fx.GraphModule, example_inputs: Values, settings: Settings | None = None
) -> Runnable:
    """A function of one list, the arguments of the ATen graph, which gives its results in a list;
    `example_inputs` are fake tensors and numbers, one a placeholder."""
    with compiling():  # a backward pass is compiled by the thread that runs it first
        replaced = replaced_storages.take_out(gm)
        run = _compile_aten(gm, example_inputs, settings)
        return replaced_storages.replacing(run, replaced) if replaced else run


def _compile_aten(
    gm: torch.fx.GraphModule, example_inputs: Values, settings: Settings | None
) -> Runnable:
    effects.remove_tokens(gm)
    gm = control_flow.expand(gm, example_inputs)
    if control_flow.is_cut(gm):
        return control_flow.compile_parts(gm, functools.partial(compile_aten, settings=settings))
    folder = artefacts.open_folder()
    if folder:
        folder.graph_before_passes(gm)
    passes.CustomPrePasses()(gm.graph)
    gm = lowering.lower(gm, example_inputs)
    attention.make_single(gm)
    host_scalars.move_to_card(gm)
    passes.CustomPostPasses()(gm.graph)
    gm.recompile()
    trace = structured.Trace()
    trace.graph_after_passes(gm)
    artefacts.show_graph("post_grad_graphs", gm)
    if folder:
        folder.graph_after_passes(gm)
    graph = CompiledGraph(gm, folder, trace, settings)

    def run(args: list[Any]) -> list[Any]:
        return graph(args)

    run._boxed_call = True  # type: ignore[attr-defined]  # one list, which the callee may empty
    run.graph = graph  # type: ignore[attr-defined]
    return run


class _Kept(NamedTuple):
    """A program of a compiled graph and where it is found."""

    programs: dict[Any, Program | _Eager]  # of its graph
    key: Any
    program: Program | _Eager


def _bytes(kept: _Kept) -> int:
    program = kept.program
    if isinstance(program, _Eager):
        return 0
    return program.executable.bytes() + len(program.nodes) * NODE_BYTES


def _release(kept: _Kept, always: bool) -> bool:
    if kept.program.used and not always:
        kept.program.used = False
        return False
    kept.programs.pop(kept.key, None)
    return True


NODE_BYTES = 4 << 10  # of a node of a program in Python: its fake tensors, its place. An estimate.

# Of all graphs, by the graph's number and the arguments. A graph finds its own without this table.
programs: ProgramTable[_Kept] = ProgramTable(lambda: config.graph_bytes, _bytes, _release)
_numbers = itertools.count()


def _drop(number: int, own: dict[Any, Program | _Eager]) -> None:
    """A graph has gone, and its programs with it."""
    for key in list(own):
        programs.discard((number, key))


class CompiledGraph:
    """One ATen graph and its programs. `programs` of all graphs take `config.graph_bytes` at most;
    one that has gone is compiled again when it is needed."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        folder: artefacts.Folder | None = None,
        trace: structured.Trace | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.gm = gm
        self.settings = dict(settings or {})  # for programs of this graph
        self.folder = folder  # of the first program
        self.trace = trace
        self.programs: dict[Any, Program | _Eager] = {}
        self.number = next(_numbers)
        weakref.finalize(self, _drop, self.number, self.programs).atexit = False
        self.buckets = bounded_sizes.plan(gm)
        exact = self.buckets if self.buckets and self.buckets.is_exact else None
        self.families = symbolic_sizes.Families(exact, self._compile_at) if exact else None
        self.growth = None if self.buckets and self.buckets.fills else grown_arguments.plan(gm)
        self.between = None if self.growth else masked_sizes.plan(
            gm, self.buckets, self._compile_form, self._is_served
        )  # fmt: skip
        self.lengths: bucket_forms.Lengths | Literal[False] | None = None  # when it is first called
        self.forms: dict[Any, CompiledGraph] = {}  # for ends of buckets
        self.is_served: bool | None = None  # as a form: by a program for all buckets
        self.made: symbolic_sizes.Found | None = None  # until its first program is
        self.scalars = scalars.plan(gm)
        self.multiplied = weight_layouts.multiplied(gm)
        self.takes_tensors_only = all(
            isinstance(node.meta.get("val"), torch.Tensor)
            for node in gm.graph.find_nodes(op="placeholder")
        )

    def _key(self, args: list[Any]) -> bytes | tuple[Any, ...]:
        if self.takes_tensors_only:
            return _C.tensors_key(args)
        return tuple([_C.tensor_key(a) if isinstance(a, torch.Tensor) else a for a in args])

    def calls(self, other: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the graph's arguments that launches a program of one launch without Python
        in between; `other` is called where there is no such program yet, or more to do."""
        varies = self.growth or self.between or self.buckets is not None or self.scalars
        if varies or not self.takes_tensors_only:
            return other
        conditions = (named_dims.declared(), _without_launch)
        return _C.GraphCalls(self.programs, conditions, dynamo.untracked(other))

    def __call__(self, args: list[Any]) -> list[Any]:
        named = named_dims.in_use() and any(named_dims.dims_of(a) for a in args)
        if self.growth and not named:
            results = self._grow(self.growth, args)
            if results is not None:
                return results
        if named:
            return self._run(args)
        if self.between and (found := self._between(self.between, args)):
            call, form, given = found
            return call.cut(form(given))
        if self.buckets is None:
            return self._run(args)
        filled, sizes = self.buckets.fill(args)
        return self.buckets.cut(self._run(filled), sizes)

    def _between(
        self, between: masked_sizes.MaskedSizes, args: list[Any]
    ) -> tuple[bucket_forms.Call, CompiledGraph, list[Any]] | None:
        """The form for sizes that have no program, and its arguments."""
        call = between.of_call(args)
        if call is None:
            return None
        form = self._form(call.key, call.form.gm)
        form.families = form.families or between.families(call, args)
        given = call.arguments(args, {})
        if form.is_served is None:
            form.is_served = form._is_served(given)
        if not form.is_served and between.round_to_sticks():
            return self._between(between, args)
        return call, form, given

    def _form(self, key: Any, gm: torch.fx.GraphModule) -> CompiledGraph:
        if key not in self.forms:
            form = CompiledGraph(gm, self.folder, self.trace, self.settings)
            if form.scalars:
                known = (other.scalars for other in self.forms.values())
                form.scalars.by_value |= any(s is not None and s.by_value for s in known)
            keep(self.forms, key, form)
        return self.forms[key]

    def _is_served(self, args: list[Any]) -> bool:
        """Whether a program for all buckets serves arguments that end one, or none is wanted."""
        call = self._numbers(args)
        if self.buckets and not self.buckets.is_exact:
            return False
        if not self.families or not config.symbolic_programs or (call and call.parameters):
            return True
        with config.patch(self.settings):
            found = self.families.find(args, self._key_of_call)
        if found and found.is_new:
            self.made = found
        return found is not None

    def _compile_form(
        self, key: Any, form: ragged.Form, args: list[Any], plan: str | None
    ) -> _C.Executable | None:
        return self._form(key, form.gm)._compile_at(args, plan)

    def _grow(self, growth: grown_arguments.Growth, args: list[Any]) -> list[Any] | None:
        """The results where arguments grow in their memory; None where they cannot."""
        if any(args[g.argument].shape[g.dim] < LEAST for g in growth.growing):
            return None
        if self.lengths is None:
            self.lengths = bucket_forms.plan(growth.gm, growth.growing) or False
        call = self.lengths.of_call(args) if self.lengths else None
        grown = growth.extend(args, call.reach if call else lambda _grown: 0)
        if grown is None:
            return None
        longer, read = grown
        form = self._form(call.key if call else (), call.form.gm if call else growth.gm)
        if call:
            results = call.cut(form(call.arguments(args, read)))
        else:
            results = form([read.get(place, a) for place, a in enumerate(args)])
        return growth.put_results(results, longer)

    def _find(self, args: list[Any], call: scalars.Call | None) -> Program | _Eager | None:
        """The program, or None where weights have moved, so that the call is another one."""
        key: Any = call.key if call else self._key(args)
        if named_dims.in_use():
            key = (key, *[named_dims.dims_of(a) for a in args])
        program = self.programs.get(key)
        if program is not None:
            program.used = True
            return program
        if weight_layouts.lay_out(args, self.multiplied):
            return None
        with config.patch(self.settings):
            program = None if self.folder or (call and call.parameters) else self._at_size(args)
            if program is None:
                program = _build(self.gm, args, self.folder, call)
                if self.families and isinstance(program, Program):
                    reports[-1].one_bucket = self.families.why_not(args, self._key_of_call)
        self.programs[key] = program
        programs.add((self.number, key), _Kept(self.programs, key, program))
        self.folder = None
        if self.trace and isinstance(program, Program):
            self.trace.program(program)
        return program

    def _numbers(self, args: list[Any]) -> scalars.Call | None:
        """Of a call; they are a part of its program."""
        return self.scalars.of_call(args) if self.scalars else None

    def _key_of_call(self, args: list[Any]) -> Any:
        call = self._numbers(args)
        return call.key if call else self._key(args)

    def _compile_at(self, args: list[Any], plan: str | None) -> _C.Executable | None:
        """The executable of these arguments, which no call need have given; None for a graph that
        is interpreted, and where their sizes contradict each other: the parts of a split."""
        try:
            builder = _builder(self.gm, args, self._numbers(args))
            if builder is None:
                return None
            return call_compiler.compile_graph(builder.graph, host_fallback=True, plan=plan)
        except (Inexpressible, UnknownSize, ValueError):
            return None

    def _at_size(self, args: list[Any]) -> Program | None:
        """The one program of all buckets at that of the arguments, or None."""
        if self.families is None or any(named_dims.dims_of(a) for a in args):
            return None
        if compile_log.wants_passes() or artefacts.wants_stages():
            return None
        found = self.families.find(args, self._key_of_call)
        builder = _builder(self.gm, args, self._numbers(args)) if found else None
        if found is None or builder is None:
            return None
        program = Program(builder, found.family.at(found.sizes))
        program.family = found.family
        if found.is_new or (self.made and self.made.family is found.family):
            _tell(program, None)
        self.made = None
        return program

    def _program_of_call(self, args: list[Any]) -> tuple[Program | _Eager, scalars.Call | None]:
        """The program, and the numbers that it gets."""
        call = self.scalars.of_call(args) if self.scalars else None
        program = self._find(args, call)
        if program is None:
            return self._program_of_call(args)
        if self.scalars and call and call.parameters and not program.takes_any_numbers:
            self.scalars.by_value = True
            return self._program_of_call(args)
        if isinstance(program, Program) and program.preferred and program.move_inputs(args):
            return self._program_of_call(args)
        return program, call

    def _run(self, args: list[Any]) -> list[Any]:
        program, call = self._program_of_call(args)
        if _launches.get():
            return program(list(args), call)
        return _zeros(self.gm, args)


_launches = contextvars.ContextVar("spyre_launches", default=True)
_without_launch: list[None] = []  # an item for each without_launch(), of all contexts


@contextlib.contextmanager
def without_launch() -> Iterator[None]:
    """Calls of compiled graphs inside compile what they miss and launch nothing: results have
    their sizes and dtypes, and zeros in them."""
    token = _launches.set(False)
    _without_launch.append(None)
    try:
        yield
    finally:
        _without_launch.pop()
        _launches.reset(token)


def _zeros(gm: torch.fx.GraphModule, args: Values) -> list[Any]:
    """Results of a graph in their sizes, without values."""
    values = node_values(gm, args)
    results = results_of(gm.graph)
    found = [values.get(r) if isinstance(r, torch.fx.Node) else r for r in results]
    return [
        torch.zeros(r.shape, dtype=r.dtype, device=r.device) if isinstance(r, torch.Tensor) else r
        for r in found
    ]


def _build(
    gm: torch.fx.GraphModule,
    args: Values,
    folder: artefacts.Folder | None,
    call: scalars.Call | None,
) -> Program | _Eager:
    try:
        builder = _builder(gm, args, call)
        return _finish(builder, folder) if builder else _Eager(gm)
    except (Inexpressible, UnknownSize) as error:
        reason = f"it is interpreted node by node: {error}"
        report = CompileReport(interpreted=str(error), text=_interpreted_text(gm, reason))
        reports.append(report)
        return _Eager(gm, reason)


def _builder(
    gm: torch.fx.GraphModule, args: Values, call: scalars.Call | None
) -> GraphBuilder | None:
    """The graph at these arguments, handed over; None for one without tensors of the card."""
    values = node_values(gm, args)
    devices = [value.device for value in pytree.tree_leaves(list(values.values()))
               if isinstance(value, torch.Tensor) and value.device.type == "spyre"]  # fmt: skip
    if not devices:
        return None
    builder = GraphBuilder(gm, values, devices[0], call)
    builder.build(args)
    return builder


def _finish(builder: GraphBuilder, folder: artefacts.Folder | None) -> Program:
    """Compiles what was handed over."""
    if folder:
        return _program(builder, folder.stages(), folder)
    if compile_log.wants_passes() or artefacts.wants_stages():
        with tempfile.TemporaryDirectory() as stages:
            return _program(builder, stages)
    return _program(builder, None)


def _program(
    builder: GraphBuilder, stages: str | None, folder: artefacts.Folder | None = None
) -> Program:
    with torch.profiler.record_function(f"dxp_standalone:{builder.name()}"):
        executable = call_compiler.compile_graph(builder.graph, host_fallback=True, stages=stages)
    program = Program(builder, executable)
    if folder:
        folder.program(program)
    _tell(program, stages)
    return program


def _tell(program: Program, stages: str | None) -> None:
    artefacts.show_program(program, stages)
    reports.append(program.report())
    listings = functools.partial(artefacts.passes_of, stages) if stages else None
    compile_log.of_program(program, reports[-1], listings)


_interpreted = itertools.count()  # graphs that run node by node


def _calls(gm: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    return (node for node in gm.graph.nodes if node.op == "call_function")


def _interpreted_text(gm: torch.fx.GraphModule, reason: str) -> str:
    """A report's text for a graph that the compiler has not seen, as `Executable.report`."""
    lines = [f"node {i} {node.target}: eager, {reason}" for i, node in enumerate(_calls(gm))]
    return "".join(f"{line}\n" for line in lines)


def _first_line(gm: torch.fx.GraphModule) -> str:
    """ "model.py:12 in forward", where the user wrote the graph's first operator."""
    return next(filter(None, map(location, _calls(gm))), "")


class _Eager:
    """Runs the graph's nodes one by one; errors get the node and the user's line. `reason` is why,
    of a graph with tensors of the card."""

    takes_any_numbers = False
    direct = None

    def __init__(self, gm: torch.fx.GraphModule, reason: str = ""):
        self.gm = gm
        self.reason = reason
        self.number = next(_interpreted)
        self.used = False  # since the table of programs has asked

    def __call__(self, args: list[Any], _of_call: scalars.Call | None) -> list[Any]:
        if self.reason:
            whole, line = _fallback.WHOLE_GRAPH, _first_line(self.gm)
            _fallback.meet(whole, args, self.reason, line, str(self.number))
        return list(torch.fx.Interpreter(self.gm).run(*args))
