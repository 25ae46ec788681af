# SPDX-License-Identifier: Apache-2.0
"""The graph of one operator over a length of its operands, and its programs: one for all lengths of
a bucket.

The form of the graph for the end of a bucket (compile/ragged) takes the length as a tensor;
operands are filled up with zeros, results are cut. An operand is a view of all of its storage, so
that the last rows of one that grows are the last rows at its end, too.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, OpOverload, schema_of, without_autocast, without_modes
from .._pytorch.fake import of_symbolic_sizes, refusals_are_raised, symbolic_size
from ..compile import call_compiler
from ..compile.dynamic_sizes import bucket_forms
from ..compile.graph_builder import GraphBuilder, Inexpressible
from ..compile.integers import integer_ranges
from ..compile.program import Program
from ..compile.traced_sizes import UnknownSize, node_values
from ..program_cache import ProgramTable
from .growing_operands import REPEATED, Operands, Refused

_aten = torch.ops.aten

# What of an operand is filled up (core/tensor/bucket_operands.h).
_ITSELF, _WHOLE, _COPY = range(3)

Table = ProgramTable[Any]  # of pairs, a program or None first


class _Kept(NamedTuple):
    """A program in the table of all operators' programs."""

    program: Program

    def bytes(self) -> int:
        return self.program.executable.bytes()

    def release(self, always: bool) -> bool:
        return _C.forget_program(self.program.executable, always)


class Grown(NamedTuple):
    """The program of calls of one size, as operator_program.OperatorProgram is one: that of the
    end of their bucket."""

    graph: LengthGraph
    call: bucket_forms.Call
    program: Program
    ready: list[Any] | None = None  # the arguments of the first run

    @property
    def at_risk(self) -> bool:
        """Never: the program looks at each call itself."""
        return False

    @property
    def writes_self(self) -> bool:
        return False

    def bytes(self) -> int:
        """None beside those of the bucket."""
        return 0

    def release(self, _always: bool) -> bool:
        return True

    def kept(self) -> Grown:
        """For later runs."""
        return self._replace(ready=None)

    def given(
        self, _scalars: tuple[float, ...], _bounds: tuple[integer_ranges.Bound, ...]
    ) -> Grown:
        return self

    def remember(self, tensors: Sequence[Tensor], written: Tensor | None = None) -> None:
        """Tells core/eager/eager.c, as operator_program.OperatorProgram.remember() does, how
        operands and results fit."""
        only = self.program.only
        bounds = None if only is None else self._bounds(tensors)
        if only is None or only.launch.views or bounds is None:
            return
        places = [place for place, _constant in only.outputs if place is not None]
        if len(places) < len(only.outputs):
            return
        given = [self._fit(index, tensors) for index in only.arguments]
        results = tuple(
            [(_ITSELF, *_pairs(dims, self.call.lengths)) for dims in self.call.form.cuts]
        )
        fits = tuple([fit for _tensor, fit in given]), results
        inputs = tuple([tensor for tensor, _fit in given])
        _C.remember(self.program.executable, inputs, places, written, 0, bounds, fits)

    def _fit(self, index: int, tensors: Sequence[Tensor]) -> tuple[Tensor, tuple[int, ...] | None]:
        """What an argument of the program is made of, and how."""
        arguments = self.call.form.arguments
        if index >= len(arguments):
            return self.call.places(tensors[0].device)[index - len(arguments)], None
        place, dims = arguments[index]
        sizes = _pairs(dims, self.call.ends)
        return tensors[place], (self.graph.kind(place, tensors[place]), *sizes)

    def _bounds(self, tensors: Sequence[Tensor]) -> tuple[integer_ranges.Bound, ...] | None:
        """Of the integers of the operands, zeros behind them; None where more is to be known."""
        watch = self.program.watches[0]
        known = watch.bounds() if watch else dict[int, integer_ranges.Range]()
        sources = dict(self.program.inputs)
        found: list[integer_ranges.Bound] = []
        for value, one in (known or {}).items():
            index, arguments = sources[value], self.call.form.arguments
            if not isinstance(index, int):
                return None
            if index >= len(arguments):
                continue  # the places of a length, always the same
            bound = integer_ranges.bound(tensors[arguments[index][0]], one)
            if bound[3] or not bound[1] <= 0 <= bound[2]:
                return None
            found.append(bound)
        return None if known is None else tuple(found)

    def run(self, tensors: Sequence[Tensor], _card: int) -> Any:
        arguments = self.ready
        if arguments is None:
            arguments = self.call.arguments(self.graph.arguments(tensors), {})
        results = self.call.cut(self.program(arguments, None))
        return results[0] if self.graph.is_single else tuple(results)


def _pairs(dims: Mapping[Any, int], sizes: Sequence[int]) -> list[int]:
    """Dim, size, dim, size, .. of lengths by dim."""
    return [number for dim, length in dims.items() for number in (dim, sizes[length])]


def _compile(gm: torch.fx.GraphModule, args: Sequence[Any]) -> Program | None:
    """None where the card does not have all of it."""
    try:
        builder = GraphBuilder(gm, node_values(gm, args), args[0].device)
        builder.build(args)
        with torch.profiler.record_function(f"dxp_standalone:{builder.name()}"):
            program = Program(
                builder, call_compiler.compile_graph(builder.graph, host_fallback=True)
            )
    except (Inexpressible, UnknownSize, _C.Unsupported):
        return None
    return program if all(segment.on_card for segment in program.segments) else None


class LengthGraph:
    """The graph of a call over its length, the first size of a whole that moves.

    Raises: Refused.
    """

    def __init__(
        self, op: OpOverload, values: Arguments, operands: Operands, moved: set[int]
    ) -> None:
        self.op, self.operands, self.moved = op, operands, moved
        every = range(len(operands.tensors))
        self.moving = {index for index in every if operands.range(index) & moved}
        self.wholes = [self._grows(index) for index in every]
        sizes = [
            (index, dim)
            for index, _operand in enumerate(operands.tensors)
            for dim, place in enumerate(self._sizes(index))
            if place in moved
        ]
        if not sizes:
            raise Refused("no size of an operand moves")
        index, dim = sizes[0]
        self.length = operands.numbers[self._sizes(index)[dim]]
        self.mode, self.symbol = symbolic_size(self.length)
        self.graph = torch.fx.Graph()
        gm = self._of(values)
        self.lengths = bucket_forms.Lengths(gm, [], {self.symbol.node.expr: (index, dim)})
        del self.operands  # its tensors

    def find(self, operands: Operands, programs: Table) -> Grown | None:
        """The program of a call that differs by its length, or None."""
        args = self.arguments(operands.tensors)
        call = self.lengths.of_call(args)
        if call is None:
            return None
        given = call.arguments(args, {})
        key = (self, call.key, _C.tensors_key(given))
        known = programs.get(key)
        if known is None:
            program = _compile(call.form.gm, given)
            known = _Kept(program) if program else None, None
            programs.add(key, known)
        return Grown(self, call, known[0].program, given) if known[0] else None

    def arguments(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Of the graph, for the operands of a call."""
        return [self._argument(index, tensor) for index, tensor in enumerate(tensors)]

    def _of(self, values: Arguments) -> torch.fx.GraphModule:
        count = range(len(self.operands.tensors))
        with torch.no_grad(), without_modes(), without_autocast():
            sources = [self._placeholder(index) for index in count]
            views = [self._view(index, sources[index]) for index in count]
            nodes = {id(t): v for t, v in zip(self.operands.tensors, views, strict=True)}
            here = pytree.mapped(lambda v: nodes.get(id(v), v), list(values))
            arguments = schema_of(self.op).arguments
            named = {a.name: v for a, v in zip(arguments, here, strict=True) if a.kwarg_only}
            result = self._emit(self.op, *here[: len(here) - len(named)], **named)
        made = result.meta["val"]
        self.is_single = isinstance(made, Tensor)
        if not all(
            isinstance(r, Tensor) and r.is_contiguous()
            for r in ([made] if self.is_single else made)
        ):
            raise Refused("a result is none, or not contiguous")
        self.graph.output((result,) if self.is_single else self._parts(result))
        return torch.fx.GraphModule({}, self.graph)

    def _emit(self, op: OpOverload, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = self.graph.call_function(op, args, kwargs)
        fakes = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        with self.mode, refusals_are_raised():
            node.meta["val"] = of_symbolic_sizes(op)(*fakes[0], **fakes[1])
        return node

    def _grows(self, index: int) -> bool:
        """Whether an operand is handed over as a view of all of its storage: one that grows, of
        which it is all, or the last rows, along each dim that does. None is repeated as often as a
        length says."""
        view = self.operands.views[index]
        if view is None:
            return False
        first, grows, numbers = self.operands.of[index], False, self.operands.numbers
        if any(of == REPEATED and first + dim in self.moved for dim, of in enumerate(view.dims)):
            return False
        for dim in range(view.whole.dim()):
            size, start, count = self.operands.places(index, dim)
            moved = {size, start, count} & self.moved
            grows = grows or size in moved
            if moved and not (
                moved == {size, count} and numbers[count] == numbers[size]
                or moved == {size, start} and numbers[start] + numbers[count] == numbers[size]
            ):  # fmt: skip
                return False
        return grows

    def _sizes(self, index: int) -> list[int]:
        """Where the sizes of an argument are among the numbers."""
        view, first = self.operands.views[index], self.operands.of[index]
        if view is None or not self.wholes[index]:
            return list(range(first, first + self.operands.tensors[index].dim()))
        return [self.operands.places(index, dim)[0] for dim in range(view.whole.dim())]

    def kind(self, index: int, tensor: Tensor) -> int:
        """What stands for an operand. One that moves within what stays is copied."""
        if index not in self.moving:
            return _ITSELF
        whole = _C.whole_of(tensor)
        return _WHOLE if whole is not None and (whole is tensor or self.wholes[index]) else _COPY

    def _argument(self, index: int, tensor: Tensor) -> Tensor:
        kind = self.kind(index, tensor)
        if kind == _COPY:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
        whole = _C.whole_of(tensor) if kind == _WHOLE else None
        return tensor if whole is None else whole

    def _parts(self, results: torch.fx.Node) -> tuple[torch.fx.Node, ...]:
        parts = []
        for index, made in enumerate(results.meta["val"]):
            parts.append(self.graph.call_function(operator.getitem, (results, index)))
            parts[-1].meta["val"] = made
        return tuple(parts)

    def _size(self, place: int) -> Any:
        """One of the call's numbers."""
        number = self.operands.numbers[place]
        return self.symbol + (number - self.length) if place in self.moved else number

    def _placeholder(self, index: int) -> torch.fx.Node:
        operand = self.operands.tensors[index]
        node = self.graph.placeholder(f"arg{index}")
        of: dict[str, Any] = {"dtype": operand.dtype, "device": operand.device}
        with self.mode:
            if index in self.moving:
                sizes = [self._size(place) for place in self._sizes(index)]
                node.meta["val"] = torch.empty(sizes, **of)
            else:
                node.meta["val"] = torch.empty_strided(operand.shape, operand.stride(), **of)
        return node

    def _view(self, index: int, whole: torch.fx.Node) -> torch.fx.Node:
        """The operand as a view of the whole."""
        tensor, view = self.operands.tensors[index], self.operands.views[index]
        if view is None or not self.wholes[index]:
            return whole
        if tensor.shape == view.whole.shape and tensor.stride() == view.whole.stride():
            return whole
        if view.order is not None:
            return self._shaped(whole, view.order, index)
        node, rank = whole, view.whole.dim()
        for dim in range(rank):
            node = self._slice(node, dim, *self.operands.places(index, dim))
        kept = sorted(dim for dim in view.dims if dim >= 0)
        alone = [dim for dim in range(rank) if dim not in kept]
        if alone:
            node = self._emit(_aten.squeeze.dims, node, alone)
        order = [kept.index(dim) for dim in view.dims if dim >= 0]
        if order != sorted(order):
            node = self._emit(_aten.permute.default, node, order)
        for place, dim in enumerate(view.dims):
            if dim < 0:
                node = self._emit(_aten.unsqueeze.default, node, place)
        if REPEATED in view.dims:
            sizes = [
                n if d == REPEATED else -1 for d, n in zip(view.dims, tensor.shape, strict=True)
            ]
            node = self._emit(_aten.expand.default, node, sizes)
        return node

    def _shaped(self, whole: torch.fx.Node, order: list[int], index: int) -> torch.fx.Node:
        """The whole in another shape and order of its dims."""
        shape, first = self.operands.tensors[index].shape, self.operands.of[index]
        joined = [-1 if first + dim in self.moved else shape[dim] for dim in order]
        if joined.count(-1) > 1:
            raise Refused("several sizes of a view move")
        node = self._emit(_aten.view.default, whole, joined)
        if order == sorted(order):
            return node
        return self._emit(_aten.permute.default, node, [order.index(d) for d in range(len(order))])

    def _slice(
        self, node: torch.fx.Node, dim: int, size: int, start: int, count: int
    ) -> torch.fx.Node:
        numbers = self.operands.numbers
        if numbers[count] == numbers[size]:
            return node
        bounds = (numbers[start], numbers[start] + numbers[count])
        if start in self.moved:
            bounds = (-numbers[count], torch.iinfo(torch.int64).max)
        return self._emit(_aten.slice.Tensor, node, dim, *bounds)
