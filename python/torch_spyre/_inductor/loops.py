# SPDX-License-Identifier: Apache-2.0
"""The loop IR of one card segment as passes see it; include/spyre/loops.h says what may change.

An op is one opfunc over counted loops. Its operands are accesses: element `offset` plus the sum of
loop index times `strides` of the dense tensor that a buffer stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import _C


@dataclass(frozen=True)
class Buffer:
    """What ops read and write."""

    name: str
    kind: str  # "input", "constant" or "local"
    dtype: str
    leaves: bool  # a result of the segment
    in_lx: bool  # in the scratchpad; known to CustomPostFusionPasses


@dataclass(frozen=True)
class Loop:
    """One loop of an op, outermost first."""

    extent: int
    reduced: bool  # the result does not move along it
    stick: bool  # the result's stick runs along it
    dim: str | None  # the user's name of the dim (name_tensor_dims)


@dataclass(frozen=True)
class Operand:
    """How an op reaches a buffer."""

    buffer: Buffer
    offset: int
    strides: tuple[int, ...]  # one a loop


@dataclass(eq=False)
class LoopOp:
    """One op. Passes may set `slices` and `note`; the rest is read only."""

    name: str  # of the graph value that it computes
    opfunc: str
    location: str | None  # of the user's line
    note: str | None  # shown in the text of the loop IR
    loops: tuple[Loop, ...]
    slices: list[int]  # cores along each loop
    inputs: tuple[Operand, ...]
    result: Operand
    _index: int = field(repr=False, default=-1)

    def divide(self, **slices: int) -> None:
        """Slices of dims with names: op.divide(M=4)."""
        for name, count in slices.items():
            found = [i for i, loop in enumerate(self.loops) if loop.dim == name]
            if not found:
                raise ValueError(f"op {self.name} {self.opfunc} has no loop over {name}")
            self.slices[found[0]] = count


@dataclass(eq=False)
class LoopGraph:
    """The ops of a card segment in the order of execution; passes edit the list."""

    operations: list[LoopOp]
    buffers: tuple[Buffer, ...]


def read(loops: object) -> LoopGraph:
    """What the compiler has in hand."""
    ops, buffers = _C.read_loops(loops)
    known = tuple(Buffer(*b) for b in buffers)
    return LoopGraph([_op(i, op, known) for i, op in enumerate(ops)], known)


def _op(index: int, values: tuple, buffers: Sequence[Buffer]) -> LoopOp:
    name, opfunc, location, note, loops, operands = values
    accesses = [Operand(buffers[b], offset, tuple(strides)) for b, offset, strides in operands]
    return LoopOp(
        name,
        opfunc,
        location,
        note,
        tuple(Loop(extent, reduced, stick, dim) for extent, _n, reduced, stick, dim in loops),
        [slices for _extent, slices, *_rest in loops],
        tuple(accesses[:-1]),
        accesses[-1],
        index,
    )


def write(loops: object, pass_name: str, operations: Sequence[LoopOp]) -> None:
    """Makes them the program, or raises ValueError with pass, op and rule; nothing changes then."""
    for op in operations:
        if not isinstance(op, LoopOp):
            raise TypeError(f"pass {pass_name}: {op!r} is no LoopOp")
    edits = [(op._index, list(op.slices), op.note) for op in operations]
    _C.edit_loops(loops, pass_name, edits)
