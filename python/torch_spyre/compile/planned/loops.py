# SPDX-License-Identifier: Apache-2.0
"""The loop IR of one card segment as passes see it; include/spyre/loops.h says what may change.

An op is one opfunc over counted loops. Its operands are accesses: element `offset` plus the sum of
loop index times `strides` of the dense tensor that a buffer stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ... import _C
from ..hints.dim_hints import DimHint, dim_hints
from .loop_info import CoarseTileInfo
from .pass_utils import Splits, apply_splits_from_index_coeff, splits_by_index_coeff


@dataclass(frozen=True)
class Buffer:
    """What ops read and write."""

    name: str
    kind: str  # "input", "constant" or "local"
    dtype: str
    leaves: bool  # a result of the segment
    in_lx: bool  # in the scratchpad; known to CustomPostFusionPasses
    extents: tuple[int, ...]  # of dims above 1 of the dense host tensor, smallest stride first
    strides: tuple[int, ...]
    layout: Layout | None  # None before it is chosen


@dataclass(frozen=True)
class Layout:
    """Where a buffer's elements lie on the card; dims are those of `Buffer.extents`."""

    stick: int | None  # the dim along the stick; None: one element a stick
    order: tuple[int, ...]  # dims, fastest first; the stick's dim stands for its tiles


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


class _Index(dict[int, int]):
    """Of an access: the stride of each loop."""

    def coeff(self, loop: int) -> int:
        return self.get(loop, 0)


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
    dim_hints: list[DimHint] = field(default_factory=list)  # spyre_hint(num_tiles_per_dim=..)
    loop_info: CoarseTileInfo | None = None  # the counted loops around, None without any
    _stick: int = field(repr=False, default=0)  # as include/spyre/loops.h has it in an edit

    def stick_along(self, loop: int | None) -> None:
        """Where the result's stick is to run: the number of a loop, None for one element a stick.
        Taken in CustomPreLayoutPasses; operands are changed to go with it."""
        if loop is not None and not 0 <= loop < len(self.loops):
            raise ValueError(f"op {self.name} {self.opfunc} has no loop {loop}")
        self._stick = -1 if loop is None else loop + 1

    @property
    def op_it_space_splits(self) -> Splits:
        """`slices` by the strides of the result and of the first input, as torch-spyre has them;
        may be set."""
        return splits_by_index_coeff(dict(enumerate(self.slices)), *self._indices())

    @op_it_space_splits.setter
    def op_it_space_splits(self, splits: Splits) -> None:
        extents = {number: loop.extent for number, loop in enumerate(self.loops)}
        found = apply_splits_from_index_coeff(splits, *self._indices(), extents)
        self.slices[:] = [found[number] for number in extents]

    def _indices(self) -> tuple[_Index, _Index]:
        operands = (self.result, *self.inputs[:1])
        return _Index(enumerate(operands[0].strides)), _Index(enumerate(operands[-1].strides))

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
    _loops: object = field(repr=False, default=None)  # the compiler's, while the pass runs


def read(loops: object) -> LoopGraph:
    """What the compiler has in hand."""
    return from_values(*_C.read_loops(loops), loops)


def from_values(
    ops: Sequence[_C._LoopOp], buffers: Sequence[_C._LoopBuffer], loops: object = None
) -> LoopGraph:
    """As the binding gives them, of a compilation or of a compiled segment."""
    known = tuple(_buffer(*buffer) for buffer in buffers)
    found = paths([[group for group, _count, _mask in tiles] for *_rest, tiles in ops])
    return LoopGraph([_op(i, op, known, found[i]) for i, op in enumerate(ops)], known, loops)


def paths(groups: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Of the counted loops around every op their numbers inside of the loop around them."""
    inside: dict[tuple[int, ...], dict[int, int]] = {}
    paths = []
    for loops in groups:
        path: tuple[int, ...] = ()
        for group in loops:
            numbers = inside.setdefault(path, {})
            path = (*path, numbers.setdefault(group, len(numbers)))
        paths.append(path)
    return paths


def _buffer(
    name: str,
    kind: str,
    dtype: str,
    leaves: bool,
    in_lx: bool,
    extents: Sequence[int],
    strides: Sequence[int],
    stick: int,
    order: Sequence[int],
) -> Buffer:
    layout = None if stick == -2 else Layout(None if stick == -1 else stick, tuple(order))
    return Buffer(name, kind, dtype, leaves, in_lx, tuple(extents), tuple(strides), layout)


def _op(index: int, values: _C._LoopOp, buffers: Sequence[Buffer], path: tuple[int, ...]) -> LoopOp:
    name, opfunc, location, note, loops, operands, hints, tiles = values
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
        dim_hints(hints, [(dim, reduced) for _e, _n, reduced, _s, dim in loops]),
        _loop_info(path, tiles, [reduced for _e, _n, reduced, *_rest in loops]),
    )


def _loop_info(
    path: tuple[int, ...], tiles: Sequence[_C._Tiles], reduced: Sequence[bool]
) -> CoarseTileInfo | None:
    """Positions count the kept loops and the reduced ones apart, as torch-spyre does."""

    def cut(mask: int, wanted: bool) -> list[int]:
        loops = [index for index, is_reduced in enumerate(reduced) if is_reduced == wanted]
        return [at for at, loop in enumerate(loops) if mask >> loop & 1]

    if not tiles:
        return None
    return CoarseTileInfo(
        path,
        [count for _group, count, _mask in tiles],
        [cut(mask, False) for *_rest, mask in tiles],
        [cut(mask, True) for *_rest, mask in tiles],
    )


def write(loops: object, pass_name: str, operations: Sequence[LoopOp]) -> None:
    """Makes them the program, or raises ValueError with pass, op and rule; nothing changes then."""
    for op in operations:
        if not isinstance(op, LoopOp):
            raise TypeError(f"pass {pass_name}: {op!r} is no LoopOp")
    edits = [(op._index, list(op.slices), op.note, op._stick) for op in operations]
    _C.edit_loops(loops, pass_name, edits)
