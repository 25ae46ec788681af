# SPDX-License-Identifier: Apache-2.0
"""The planner's solvers of buffer placement by themselves, and the LX that it planned, under
torch-spyre's names (torch_spyre/_inductor/scratchpad/plan_solver.py).

    FirstFitLayoutSolver(buffers, size=1677696, alignment=128).plan_layout()

Places come from the C library, which plans LX with the same code (docs/scratchpad.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ... import _C

__all__ = [
    "BestFitLayoutSolver",
    "ExactLayoutSolver",
    "FirstFitLayoutSolver",
    "GreedyLayoutSolver",
    "LifetimeBoundBuffer",
    "MemoryPlanSolver",
    "SearchLayoutSolver",
    "lx_buffers",
]

ALIGNMENT = 128  # bytes of a stick


@dataclass
class LifetimeBoundBuffer:
    """A buffer that ops use at these positions: the first of them writes it, or reads it
    (`first_use_is_read`, an input)."""

    name: str
    size: int  # bytes, of LX those of a core
    uses: list[int]  # ascending
    first_use_is_read: bool = False
    address: int | None = None  # set by plan_layout(); None: in memory
    in_place_parents: list[str] = field(default_factory=list)  # whose place it may take
    residency_reason: str | None = None  # why it is not to have a place; None: it may
    lifetime_end_override: int | None = None  # lives to here, exclusive, though nothing uses it
    spill_reason: str | None = None  # set by plan_layout() where it has no place

    def __post_init__(self) -> None:
        rises = all(a < b for a, b in zip(self.uses, self.uses[1:], strict=False))
        assert rises, f"buffer {self.name}: uses {self.uses} do not ascend"
        if self.lifetime_end_override is not None and self.uses:
            assert self.lifetime_end_override > self.uses[-1], (
                f"buffer {self.name}: lifetime_end_override {self.lifetime_end_override} is before "
                f"its last use {self.uses[-1]}"
            )

    @property
    def read_count(self) -> int:
        return max(0, len(self.uses) - (not self.first_use_is_read))

    @property
    def start_time(self) -> int:
        return self.uses[0]

    @property
    def end_time(self) -> int:
        """Behind the last use."""
        return max(self.uses[-1] + 1, self.lifetime_end_override or 0)

    def overlaps_in_time(self, other: LifetimeBoundBuffer) -> bool:
        return self.start_time < other.end_time and other.start_time < self.end_time


class MemoryPlanSolver:
    """Places of buffers in `size` bytes by one of the planner's solvers."""

    solver: str  # a choice of the setting layout_solver

    def __init__(
        self, buffers: Sequence[LifetimeBoundBuffer], size: int, alignment: int = ALIGNMENT
    ) -> None:
        self.buffers, self.size, self.alignment = list(buffers), size, alignment

    def plan_layout(self) -> list[LifetimeBoundBuffer]:
        """The buffers, with their addresses."""
        wanted = [b for b in self.buffers if b.residency_reason is None]
        numbers = {b.name: number for number, b in enumerate(wanted)}
        self._check_parents()
        addresses = _C.place_buffers(
            self.solver,
            self.size,
            self.alignment,
            [
                (
                    b.size,
                    b.start_time,
                    b.end_time - 1,
                    b.size * len(b.uses),
                    [numbers[p] for p in b.in_place_parents if p in numbers],
                )
                for b in wanted
            ],
        )
        for b in self.buffers:
            b.address, b.spill_reason = None, b.residency_reason
        for b, address in zip(wanted, addresses, strict=True):
            b.address = None if address < 0 else address
            b.spill_reason = "no room on scratchpad" if address < 0 else None
        return self.buffers

    def _check_parents(self) -> None:
        known = {b.name: b for b in self.buffers}
        for b in self.buffers:
            for name in b.in_place_parents:
                parent = known.get(name)
                if parent is None:
                    raise ValueError(f"buffer {b.name}: there is no in-place parent {name}")
                if parent.read_count == 0:
                    raise ValueError(
                        f"buffer {b.name}: in-place parent {name} is a computed buffer that is "
                        "never read"
                    )


class GreedyLayoutSolver(MemoryPlanSolver):
    """In the order of time; what is decided stays."""

    solver = "greedy"


class FirstFitLayoutSolver(MemoryPlanSolver):
    """Short lives first, each in the lowest gap that is large enough."""

    solver = "firstfit"


class BestFitLayoutSolver(MemoryPlanSolver):
    """Short lives first, each in the gap that leaves the smallest remainder."""

    solver = "bestfit"


class SearchLayoutSolver(MemoryPlanSolver):
    """The compiler's own: several orders, then a bounded search."""

    solver = "search"


class ExactLayoutSolver(MemoryPlanSolver):
    """The same, then branch and bound."""

    solver = "exact"


# ---- What was planned

_BUFFER = re.compile(r"buffer (\w+) lx\((\d+)\+(\d+)\) ops\((\d+)\.\.(\d+)\)( in place of (\w+))?")


def lx_buffers(executable: _C.Executable, segment: int = 0) -> list[LifetimeBoundBuffer]:
    """What the planner put into the LX of a core, in a card segment of a compiled graph: names of
    the loop IR, bytes, the positions of the ops that use it, address, and whose place it took."""
    uses = _uses(executable, segment)
    found = []
    for match in _BUFFER.finditer(executable.text(segment, "lx")):
        name, address, size, first, last, _in_place, parent = match.groups()
        buffer = LifetimeBoundBuffer(name, int(size), uses[name], address=int(address))
        buffer.in_place_parents = [parent] if parent else []
        if buffer.end_time - 1 < int(last):
            buffer.lifetime_end_override = int(last) + 1
        assert buffer.start_time == int(first)
        found.append(buffer)
    return found


def lx_size(executable: _C.Executable, segment: int = 0) -> int:
    """Bytes of a core's LX that the planner may use."""
    return executable.lx_use(segment)["limit_bytes"]


def _uses(executable: _C.Executable, segment: int) -> dict[str, list[int]]:
    uses: dict[str, list[int]] = {}
    for position, buffers in enumerate(_operands(executable, segment)):
        for name in buffers:
            positions = uses.setdefault(name, [])
            if position not in positions[-1:]:
                positions.append(position)
    return uses


def _operands(executable: _C.Executable, segment: int) -> Iterator[list[str]]:
    ops, _buffers = executable.loops(segment)
    for _name, _opfunc, _location, _note, _loops, operands, *_rest in ops:
        yield [f"b{buffer}" for buffer, _offset, _strides in operands]
