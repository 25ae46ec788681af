# SPDX-License-Identifier: Apache-2.0
"""A kernel as expressions to read: one store an OpSpec, under the class names of torch-spyre
(torch_spyre/_inductor/spyre_kernel.py).

    for kernel in kernels_of(executable): print(kernel)
        b2[c0, c1] = add(b0[c0, c1], b1[c0, c1])

The front-end that decides is C; these are views of what it decided, made from its OpSpecs, and
changing them changes nothing. A plain store is `identity`, or `ReStickifyOpHBM` where the stick
changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sympy

from ... import _C
from ..segments import card_segments
from . import op_spec
from .op_spec import KernelSpec, LoopSpec, OpSpec, TensorArg, UnimplementedOp

__all__ = [
    "Constant",
    "Numbers",
    "PointwiseOp",
    "ReductionOp",
    "SpyreKernel",
    "Store",
    "TensorAccess",
    "UnimplementedOp",
    "kernels_of",
]


@dataclass(frozen=True)
class TensorAccess:
    """An element of a buffer: `index` has the coordinate of each device dim, the stick's last."""

    name: str
    index: tuple[sympy.Expr, ...]
    arg: TensorArg = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True)
class Constant:
    """A scalar operand: a buffer of one value, or a parameter of the opfunc, which has a name."""

    value: float
    dtype: str
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.name else str(self.value)


@dataclass(frozen=True)
class Numbers:
    """Integers that follow from the loops' indices; of signs, 1 where they are above 0, else 0."""

    number: sympy.Expr
    signs: bool

    def __str__(self) -> str:
        return f"({self.number}) > 0" if self.signs else f"({self.number})"


@dataclass(frozen=True)
class PointwiseOp:
    op: str
    arguments: tuple[TensorAccess | Constant | Numbers, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class ReductionOp(PointwiseOp):
    reduced: tuple[sympy.Symbol, ...]  # loops that the result does not move along

    def __str__(self) -> str:
        return f"{super().__str__()} over {', '.join(map(str, self.reduced))}"


@dataclass(frozen=True)
class Store:
    target: TensorAccess
    value: PointwiseOp
    loops: tuple[int, ...]  # counts of the loops around it, outermost first
    spec: OpSpec = field(repr=False, compare=False)

    def __str__(self) -> str:
        around = "".join(f"for {count}: " for count in self.loops)
        return f"{around}{self.target} = {self.value}"


@dataclass(frozen=True)
class SpyreKernel:
    """What one kernel stores, in order."""

    name: str
    body: tuple[Store | UnimplementedOp, ...]

    @classmethod
    def of_specs(
        cls, name: str, specs: KernelSpec, constants: Mapping[int, Constant] | None = None
    ) -> SpyreKernel:
        """`constants`: by the number of the launch argument that holds them."""
        return cls(name, tuple(_stores(specs, constants or {}, ())))

    def __str__(self) -> str:
        lines = (str(s) if isinstance(s, Store) else f"unimplemented {s.op}" for s in self.body)
        return "\n".join([self.name, *(f"    {line}" for line in lines)])


def kernels_of(executable: _C.Executable) -> list[SpyreKernel]:
    """The kernels of an executable's card segments."""
    cards = card_segments(executable)
    return [_kernel(json.loads(executable.text(s.index, "opspec")), s.name) for s in cards]


def _kernel(kernel: op_spec.Json, name: str) -> SpyreKernel:
    constants = {
        number: Constant(float(argument["value"]), argument["dtype"])
        for number, argument in enumerate(kernel["arguments"])
        if argument["kind"] == "constant"
    }
    return SpyreKernel.of_specs(name, op_spec.from_json(kernel["specs"]), constants)


def _stores(
    specs: KernelSpec, constants: Mapping[int, Constant], loops: tuple[int, ...]
) -> Iterator[Store | UnimplementedOp]:
    for spec in specs:
        if isinstance(spec, LoopSpec):
            yield from _stores(spec.body, constants, (*loops, int(spec.count)))
        elif isinstance(spec, OpSpec):
            yield _store(spec, constants, loops)
        else:
            yield spec


def _store(spec: OpSpec, constants: Mapping[int, Constant], loops: tuple[int, ...]) -> Store:
    *operands, result = spec.args
    parameters = spec.op_info.get("constants", {})
    arguments: tuple[TensorAccess | Constant | Numbers, ...] = tuple(
        _numbers(spec, arg) or constants.get(arg.arg_index) or _access(arg) for arg in operands
    )
    arguments += tuple(Constant(value, "float32", name) for name, value in parameters.items())
    target = _access(result)
    if not spec.is_reduction:
        return Store(target, PointwiseOp(spec.op, arguments), loops, spec)
    kept = set().union(*(coordinate.free_symbols for coordinate in target.index))
    reduced = tuple(symbol for symbol in spec.iteration_space if symbol not in kept)
    return Store(target, ReductionOp(spec.op, arguments, reduced), loops, spec)


def _numbers(spec: OpSpec, arg: TensorArg) -> Numbers | None:
    if arg.counted_from is None:
        return None
    steps = arg.counted_from["steps"]
    around = (sympy.Symbol(f"i_{n}") for n in range(len(steps) - len(spec.iteration_space)))
    symbols = [*spec.iteration_space, *around]
    moved = sum(step * symbol for step, symbol in zip(steps, symbols, strict=True))
    return Numbers(arg.counted_from["first"] + moved, arg.counted_from["signs"])


def _access(arg: TensorArg) -> TensorAccess:
    return TensorAccess(arg.name or "", tuple(arg.device_coordinates), arg)
