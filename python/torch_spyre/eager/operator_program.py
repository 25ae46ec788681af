# SPDX-License-Identifier: Apache-2.0
"""One operator on the card: the program of a call, compiled from a graph of the single node.

A program is kept under the operator, the arguments' types and views and its scalars, and so is the
reason why there is none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _C, config
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, is_of_devices, schema_of
from .._pytorch.settings import watch
from ..compile import call_compiler, node_arguments, segment_launch
from ..compile.dynamic_sizes.grown_arguments import keep
from ..compile.integers import integer_overflow, integer_ranges
from ..compile.register_decomposition import parts
from ..compile.registered import fallback_ops, spyre_decompositions
from ..compile.segments import nodes_of
from ..program_cache import ProgramTable
from . import fits_card, operand_dtypes
from .call_key import key_of, kind_of, numbers_of_call
from .growing_sizes import Growing
from .programs_by_number import NumberedCalls, Refusals
from .result_metadata import EMPTY, NONE, results_of
from .run_on_cpu import run_on_cpu

if TYPE_CHECKING:
    from .length_graph import Grown

_aten = torch.ops.aten


class _NoElements(Exception):
    """The results have no elements: there is no work that could fall back."""


class OperatorProgram:
    """The compiled node: which tensors it takes, in which order its results come."""

    __slots__ = (
        "launch",
        "inputs",
        "results",
        "single",
        "at_risk",
        "scalars",
        "bounds",
        "of_parts",
    )

    def __init__(
        self,
        executable: _C.Executable,
        inputs: list[int],
        results: list[int | None],
        single: bool,
        at_risk: bool,
    ) -> None:
        self.launch = segment_launch.Launch(executable, 0)
        self.inputs = inputs  # of the operator's tensors, those that the segment reads
        self.results = results  # index into the outputs, or EMPTY; None where there is none
        self.single = single
        self.at_risk = at_risk  # its int64 result may leave 32 bits: each call is looked at
        self.scalars: tuple[float, ...] = ()  # numbers of the call that a launch gets
        self.bounds: tuple[integer_ranges.Bound, ...] = ()  # of its integers, where it is at risk
        self.of_parts = False  # the operator's decomposition, with the numbers of the call

    def given(
        self, scalars: tuple[float, ...], bounds: tuple[integer_ranges.Bound, ...]
    ) -> OperatorProgram:
        """The same program with the numbers of a call."""
        if not scalars and not bounds:
            return self
        program = copy.copy(self)
        program.scalars, program.bounds = scalars, bounds
        return program

    def bytes(self) -> int:
        return self.launch.executable.bytes()

    def release(self, always: bool) -> bool:
        """Before the program goes. Whether it may."""
        return _C.forget_program(self.launch.executable, always)

    @property
    def writes_self(self) -> bool:
        """The only result is written where the first tensor of the call is."""
        views = self.launch.views
        return bool(views) and views[0].of_input and self.inputs[views[0].source] == 0

    def remember(self, tensors: Sequence[Tensor], written: Tensor | None = None) -> None:
        """Tells core/eager/eager.c that the operator which PyTorch is calling launches this program
        with the tensors, as run() does. A call whose kernel made them of others is not
        remembered."""
        results = [NONE if index is None else index for index in self.results]
        there = written is not None and written is tensors[0] and self.writes_self
        is_unbounded = self.at_risk and not self.bounds
        if self.launch.views and not there or is_unbounded:
            return
        inputs = tuple([tensors[index] for index in self.inputs])
        _C.remember(
            self.launch.executable, inputs, results, written, len(self.scalars), self.bounds, None
        )

    def run(self, tensors: Sequence[Tensor], card: int) -> Any:
        outputs = self.launch([tensors[index] for index in self.inputs], card, self.scalars)
        results = [
            outputs[0].new_empty(0) if index == EMPTY else None if index is None else outputs[index]
            for index in self.results
        ]
        return results[0] if self.single else tuple(results)


class ByParts:
    """A call whose operator is taken apart, and its parts are called one by one: of which most have
    a program for all numbers. As OperatorProgram."""

    at_risk = writes_self = False

    def __init__(self, op: OpOverload, values: Arguments, calls: NumberedCalls) -> None:
        self.op, self.values, self.calls = op, values, calls

    def bytes(self) -> int:
        return 0

    def release(self, _always: bool) -> bool:
        return True

    def given(
        self, _scalars: tuple[float, ...], _bounds: tuple[integer_ranges.Bound, ...]
    ) -> ByParts:
        return self

    def remember(self, _tensors: Sequence[Tensor], written: Tensor | None = None) -> None:
        """Its parts are."""

    def run(self, _tensors: Sequence[Tensor], _card: int) -> Any:
        from . import decomposed

        before = Operator.compiled
        result = decomposed.call(self.op, self.values)
        if result is NotImplemented:  # by parts that take some numbers only
            self.calls.is_by_value = True
            return operator_of(self.op).kernel(*decomposed.split(self.op, self.values))
        self.calls.note(Operator.compiled > before)
        return result


class Nothing:
    """A call whose results have no elements: they are made, and nothing is launched. As
    OperatorProgram."""

    at_risk = False

    def __init__(self, results: Tensor | Sequence[Tensor], unchanged: bool = False) -> None:
        """Of such results, which the host has made; or that leaves what it would write as it is."""
        self.writes_self = unchanged
        self.single = isinstance(results, Tensor)
        self.results = [results] if isinstance(results, Tensor) else list(results)

    def bytes(self) -> int:
        return 0

    def release(self, always: bool) -> bool:
        return _C.forget_program(self, always)

    def given(
        self, _scalars: tuple[float, ...], _bounds: tuple[integer_ranges.Bound, ...]
    ) -> Nothing:
        return self

    def remember(self, tensors: Sequence[Tensor], written: Tensor | None = None) -> None:
        if written is None or self.writes_self or len(self.results) == 1:
            _C.remember_nothing(self, tuple(tensors), tuple(self.results), written)

    def run(self, tensors: Sequence[Tensor], _card: int) -> Any:
        if self.writes_self:
            return tensors[0]
        made = [
            torch.empty_strided(r.shape, r.stride(), dtype=r.dtype, device=r.device)
            for r in self.results
        ]
        return made[0] if self.single else tuple(made)


# A program, or None and why there is none.
_Known = tuple["OperatorProgram | Grown | ByParts | Nothing | None", str | None]


def _bytes(known: _Known) -> int:
    return known[0].bytes() if known[0] else 0


def _release(known: _Known, always: bool) -> bool:
    return not known[0] or known[0].release(always)


# Which operands of a matrix product are its factors.
_FACTORS = {
    _aten.mm.default: (0, 1), _aten.bmm.default: (0, 1), _aten.addmm.default: (1, 2),
    _aten.baddbmm.default: (1, 2), _aten.linear.default: (0, 1),
}  # fmt: skip

# Of all operators, by operator and arguments.
programs: ProgramTable[_Known] = ProgramTable(lambda: config.eager_bytes, _bytes, _release)


# The same number for the same settings of the compiler. core/eager/eager.c, which has no part in
# it, forgets its programs when they change.
_settings = watch(config, [name for name, *_ in _C.settings()], _C.forget_operators)

# The program of a call, or None, the tensors that it gets, and the reason for None.
Found = tuple["OperatorProgram | Grown | ByParts | Nothing | None", list[Tensor], str | None]


def numbers_of(op: OpOverload) -> set[int]:
    """Arguments that may be numbers and no sizes."""
    types = {"number", "float", "Optional[number]", "Optional[float]", "Tensor"}
    return {i for i, a in enumerate(schema_of(op).arguments) if str(a.type) in types}


class Operator:
    """An operator; its programs by arguments are in `programs`.

    Numbers by the rules of aten.def are parameters of a program, which then serves all of them;
    where the compiler needs their values (of what becomes bool, say), they are part of the key.
    """

    grows = True  # whether calls that grow share a program
    # Called where there is no program, instead of the CPU's kernel.
    composition: Callable[..., Any] | None = None
    compiled = 0  # of all operators, how often

    def __init__(self, op: OpOverload, in_place: bool = False):
        self.op = op
        self.in_place = in_place  # the result replaces the first argument
        self.rules = _C.op_scalars(node_arguments.op_name(op), len(schema_of(op).arguments))
        if not any(self.rules):
            self.rules = b""
        self.growing = Growing(op, programs)
        self.numbers = numbers_of(op)
        self.numbered: dict[Any, NumberedCalls] = {}  # by all but their numbers
        self.refusals = Refusals()
        self.refusal = None if all(
            isinstance(r.type, torch.TensorType) for r in schema_of(op).returns
        ) and schema_of(op).returns else "its results are not tensors only"  # fmt: skip
        # Attention is tagged for its dropout, which the compiler refuses by itself.
        attention = _aten.scaled_dot_product_attention.default
        if torch.Tag.nondeterministic_seeded in op.tags and op is not attention:
            self.refusal = "random numbers are drawn on the host"

    def __call__(self, args: Arguments, kwargs: Keywords) -> Any:
        """As kernel(), for whom core/eager/eager.c has not been asked first: the call that it knows
        of, if there is one, is that of an operator around this one."""
        program, tensors, reason = self.find(args, kwargs)
        if program is None:
            return self._run_without_program(args, kwargs, reason)
        return program.run(tensors, tensors[0].device.index)

    def find(self, args: Arguments, kwargs: Keywords) -> Found:
        """The program of a call and the tensors that it gets; or None and the reason."""
        tensors: list[torch.Tensor] = []
        if self.refusal is not None or self.op in fallback_ops:
            fits_card.check_host(self.op, args, kwargs)
            return None, [], self.refusal
        values = numbers_of_call(node_arguments.positional(self.op, args, kwargs))
        marked, scalars = self._mark(values)
        program, reason = self._known(args, kwargs, values, marked, tensors)
        if program is None and scalars:
            tensors.clear()
            scalars = ()
            program, reason = self._known(args, kwargs, values, values, tensors)
        if program is not None and program.at_risk:
            reason = integer_overflow.why_not(self.op, values)
            program = None if reason else program
        if program is not None:
            bounds = self._bounds(values, marked if scalars else values) if program.at_risk else ()
            program = program.given(scalars, bounds)
        return program, tensors, reason

    def _bounds(self, values: list[Any], marked: list[Any]) -> tuple[integer_ranges.Bound, ...]:
        """Of an operator at risk, those of its tensors, and of numbers that are parameters."""
        found: list[integer_ranges.Bound] = []
        ranges = integer_overflow.bounds_of(self.op, values)
        for index, value in enumerate(marked if ranges else ()):
            one = ranges[index] if ranges and index < len(ranges) else (values[index],) * 2
            if isinstance(value, node_arguments.Scalar):
                found.append((value.number, int(one[0]), int(one[1]), False))
            elif isinstance(value, Tensor):
                found.append(integer_ranges.bound(value, one))
        return tuple(found)

    def _mark(self, values: list[Any]) -> tuple[list[Any], tuple[float, ...]]:
        """The arguments with `Scalar` in the place of parameters, and those numbers."""
        if not self.rules or not call_compiler.takes_scalars():
            return values, ()
        limits = node_arguments.number_range(v.dtype for v in values if isinstance(v, Tensor))
        marked, scalars = list(values), list[float]()
        for index, rule in enumerate(self.rules):
            value = values[index]
            if not rule or type(value) not in (int, float):
                continue
            like = _C.scalar_like(rule, value, limits)
            if like is not None:
                marked[index] = node_arguments.Scalar(len(scalars), type(value)(like))
                scalars.append(float(value))
        return marked, tuple(scalars)

    def _known(
        self,
        args: Arguments,
        kwargs: Keywords,
        values: list[Any],
        marked: list[Any],
        tensors: list[Tensor],
    ) -> _Known:
        given = tuple([key_of(value, tensors) for value in marked])
        settings = (_settings(), torch.get_default_dtype())
        key = (self.op, self.in_place, settings, spyre_decompositions.get(self.op), given)
        known = programs.get(key)
        if known is None and self.grows:
            numbers = [v for v, m in zip(values, marked, strict=True) if m is not v]
            known = self._grown((key, *numbers), values)
        others = self._without_numbers(key) if known is None else None
        calls = self.numbered.get(others)
        if calls and calls.are_many:
            return ByParts(self.op, values, calls), None
        if known is None:
            fits_card.check_host(self.op, args, kwargs)
            kinds = (others, *map(kind_of, marked)) if others else None
            if reason := self.refusals.of(kinds):
                return None, reason
            known = self._compile(values, marked, tensors)
            if kinds and known[0] is None and known[1]:
                self.refusals.note(kinds, known[1])
            programs.add(key, known)
            if others and isinstance(known[0], OperatorProgram) and known[0].of_parts:
                keep(self.numbered, others, self.numbered.pop(others, NumberedCalls()))
                self.numbered[others].programs += 1
        return known

    def _without_numbers(self, key: tuple[Any, ...]) -> Any:
        """A key without the numbers that are no sizes; None where there are none."""
        if not self.numbers:
            return None
        *rest, given = key
        return *rest, *[
            None if index in self.numbers and isinstance(value, tuple) else value
            for index, value in enumerate(given)
        ]

    def _grown(self, key: tuple[Any, ...], values: list[Any]) -> _Known | None:
        """The program of the bucket of a call that has grown; it holds the numbers of the call."""
        known = programs.get(key)
        if known is not None or not operand_dtypes.are_accepted(self.op, values):
            return known
        grown = self.growing.find(values, key[0][2:4])
        if grown is None:
            return None
        programs.add(key, (grown.kept(), None))
        return grown, None

    def kernel(self, args: Arguments, kwargs: Keywords) -> Any:
        """Called by PyTorch as the operator itself, by way of core/eager/eager.c."""
        program, tensors, reason = self.find(args, kwargs)
        if program is None:
            return self._run_without_program(args, kwargs, reason)
        _C.note_scalars(self.rules)
        program.remember(tensors)
        return program.run(tensors, tensors[0].device.index)

    def _run_without_program(self, args: Arguments, kwargs: Keywords, reason: str | None) -> Any:
        made = self._parts_by_parts(args, kwargs)
        return run_on_cpu(self.op, args, kwargs, reason) if made is NotImplemented else made

    def _parts_by_parts(self, args: Arguments, kwargs: Keywords) -> Any:
        """Decomposed where it is not one program: what is registered, and what the CPU has not."""
        if self.op in fallback_ops:
            return NotImplemented
        function = spyre_decompositions.get(self.op) or self.composition
        if function is None and is_of_devices(self.op):
            function = parts.get(self.op)
        return NotImplemented if function is None else function(*args, **kwargs)

    def _compile(self, values: list[Any], marked: list[Any], tensors: Sequence[Tensor]) -> _Known:
        Operator.compiled += 1
        if not tensors:
            return None, "it has no tensor argument"
        _C.check_settings(call_compiler.settings())
        if any(tensor.device.type != "spyre" for tensor in tensors):
            return None, "its tensors are on several devices"
        if self.op is not _aten.cat.default and any(tensor.numel() == 0 for tensor in tensors):
            return self._nothing(values, tensors), None  # no work that could fall back
        if not operand_dtypes.are_accepted(self.op, values):
            return None, operand_dtypes.REFUSAL
        has_scalars = any(m is not v for m, v in zip(marked, values, strict=True))
        has_own_parts = self.op in parts or self.op in spyre_decompositions
        of_parts: _Known | None = None
        if has_own_parts and not has_scalars:  # as torch.compile() would
            of_parts = self._build_of_parts(values, tensors, "it has no program as a whole")
            if of_parts[0] is not None:
                return of_parts
        try:
            return self._build(values, marked, tensors), None
        except _NoElements:
            return self._nothing(values, tensors), None
        except _C.Unsupported as refusal:
            if has_scalars or any(tensor.numel() == 0 for tensor in tensors):
                return None, str(refusal)
            return of_parts or self._build_of_parts(values, tensors, str(refusal))

    def _nothing(self, values: list[Any], tensors: Sequence[Tensor]) -> Nothing | None:
        """Where the results have no elements, whatever the operands hold: as the host makes them,
        which raises PyTorch's errors. In place, where nothing is written to the first operand."""
        from . import decomposed

        if self.in_place and _has_no_index(self.op, values):
            run_on_cpu(self.op, *decomposed.split(self.op, values))
            return Nothing([], unchanged=True)
        if any(tensor.numel() > 0 for tensor in tensors):
            try:
                sizes = pytree.leaves(results_of(self.op, values))
            except (_C.Unsupported, RuntimeError, ValueError, TypeError, IndexError):
                return None
            if any(result is None or result.numel() > 0 for result in sizes):
                return None
        results = run_on_cpu(self.op, *decomposed.split(self.op, values))
        given = pytree.leaves(values)
        for result in pytree.leaves(results):
            if not isinstance(result, Tensor) or result.numel() or result.layout != torch.strided:
                return None
            if result.device.type != "spyre" or any(result is value for value in given):
                return None
        return Nothing(results)

    def _build(
        self, values: list[Any], marked: list[Any], tensors: Sequence[Tensor]
    ) -> OperatorProgram:
        results = results_of(self.op, values)
        flat = list(results) if isinstance(results, (tuple, list)) else [results]
        if any(result is None for result in flat):
            raise _C.Unsupported("a result is absent")
        if any(result.numel() == 0 for result in flat):
            whole = all(result.numel() == 0 for result in flat)
            raise _NoElements() if whole else _C.Unsupported("a result is empty")
        graph = _C.Graph()
        places = [index for index, tensor in enumerate(tensors) if tensor.numel() > 0]
        ids = {id(tensors[i]): graph.add_input(f"arg{i}", tensors[i]) for i in places}
        if len(places) < len(tensors):  # cat leaves out what is empty
            marked = [[item for item in marked[0] if id(item) in ids], *marked[1:]]
        ids |= self._widened(graph, values, ids)
        _node, outputs = graph.add_node(
            self.op.__name__,
            node_arguments.op_name(self.op),
            node_arguments.encode(marked, lambda value: ids.get(id(value))),
            [node_arguments.result_type(result, True) for result in flat],
            f"eager {self.op}",
        )
        if self.in_place and _are_alike(tensors[0], flat):
            graph.add_update(outputs[0], ids[id(tensors[0])])
        else:
            for value in outputs:
                graph.add_output(value)
        name = f"sdsc_fused_{self.op.overloadpacket.__name__}"
        with torch.profiler.record_function(f"dxp_standalone:{name}"):
            executable = _compile_node(graph)
        at_risk = integer_overflow.is_at_risk(self.op, values)
        return _program(
            executable, places, outputs, not isinstance(results, (tuple, list)), at_risk
        )

    def _widened(self, graph: _C.Graph, values: list[Any], ids: dict[int, int]) -> dict[int, int]:
        """Factors of float32 that hold numbers of 16 bits, as casts of these: other ids."""
        op, casts = _aten._to_copy.default, dict[int, int]()
        for factor in [values[index] for index in _FACTORS.get(self.op, ())]:
            known = _C.widened_from(factor) if factor.dtype is torch.float32 else None
            if known is None:
                return {}
            number = ids[id(factor)]
            for dtype in (getattr(torch, known), torch.float32):
                made = torch.empty(factor.shape, dtype=dtype, device="meta")
                encoded = [(number,), dtype, None, None, None, False, None]
                kind = [node_arguments.result_type(made, True)]
                name = f"{dtype}{len(casts)}"
                _node, (number,) = graph.add_node(name, str(op), encoded, kind, "eager cast")
            casts[id(factor)] = number
        return casts

    def _build_of_parts(self, values: list[Any], tensors: Sequence[Tensor], refusal: str) -> _Known:
        """The program of the operator's decomposition, or None and the reason; `refusal` says why
        the operator as a whole has none."""
        from . import decomposed

        try:
            parts = decomposed.parts_of(self.op, values, tensors, self.in_place)
            if parts is None:
                return None, refusal
            executable = _compile_node(parts.graph)
        except _C.Unsupported as reason:
            return None, str(reason)
        places = list(range(len(tensors)))
        at_risk = integer_overflow.is_at_risk(self.op, values)
        program = _program(executable, places, parts.outputs, parts.single, at_risk)
        program.of_parts = not at_risk
        if program.launch.views and not (self.in_place and program.writes_self):
            return None, "its decomposition gives results that share memory"
        return program, None


def _program(
    executable: _C.Executable,
    places: list[int],
    outputs: Sequence[int | None],
    single: bool,
    at_risk: bool,
) -> OperatorProgram:
    """`places` are the tensors of the call that the graph's inputs are, `outputs` ids of values."""
    segment = executable.segment(0)
    order = {value: index for index, value in enumerate(segment["outputs"])}
    inputs = [places[value] for value in segment["inputs"]]
    results = [value if value in (None, EMPTY) else order[value] for value in outputs]
    return OperatorProgram(executable, inputs, results, single, at_risk)


def _has_no_index(op: OpOverload, values: Sequence[Any]) -> bool:
    """Whether an operator that writes at indices, and so has an in-place form, has none of them:
    scatter, index_add, .."""
    if not hasattr(_aten, op.overloadpacket.__name__ + "_"):
        return False
    at = [v for a, v in zip(schema_of(op).arguments, values, strict=True) if a.name in _INDICES]
    return any(isinstance(v, Tensor) and v.numel() == 0 for v in pytree.leaves(at))


_INDICES = {"index", "indices"}


def _are_alike(target: Tensor, results: Sequence[Tensor]) -> bool:
    """Whether the only result could lie where the target is."""
    return len(results) == 1 and (results[0].dtype, results[0].shape) == (
        target.dtype,
        target.shape,
    )


def _compile_node(graph: _C.Graph) -> _C.Executable:
    """The one card segment of an operator's graph; Unsupported with the rule that forbids it."""
    try:
        executable = call_compiler.compile_graph(graph, host_fallback=True)
    except ValueError as wrong:
        # The call breaks a rule of the operator that PyTorch's meta kernel does not look at. Its
        # CPU kernel does, and says so in PyTorch's class.
        raise _C.Unsupported(str(wrong)) from wrong
    nodes = nodes_of(executable)
    for node in nodes:
        if node.layer == "host":
            part = f"its decomposition has {node.op}: " if len(nodes) > 1 else ""
            raise _C.Unsupported(f"{part}{node.reason}")
    if executable.segment_count() != 1:
        raise _C.Unsupported(f"it became {executable.segment_count()} segments")
    return executable


_operators: dict[OpOverload, Operator] = {}


def operator_of(op: OpOverload) -> Operator:
    """The functional form `op` on the card; always the same object."""
    operator = _operators.get(op)
    if operator is None:
        operator = _operators[op] = Operator(op)
    return operator
