# SPDX-License-Identifier: Apache-2.0
"""What the compiler's cost model predicts, as a value; names are torch-spyre's (cost_model.md).

    with config.patch(cost_model="1"):  # or SPYRE_DUMP_COST=1, which prints it, too
        torch.compile(model)(x)
    print(cost_model_pass.LAST_REPORT.total_us)

Times are of kernels by themselves: every op is one, so those of a graph add up. A "kernel" of the
report is a card segment, which is launched as one program.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from .. import _C, config, environment
from ..compile.planned.loops import LoopGraph, paths
from ..compile.segments import card_segments


@dataclasses.dataclass
class OpCost:
    """One op, over all iterations of the counted loops around it."""

    name: str  # of the graph value that it computes
    loop_group_id: tuple[int, ...] | None
    hbm_bytes: int  # of card memory, read and written, in whole sticks
    lx_bytes: int  # that one iteration touches in the scratchpads of all cores
    predicted_us: float
    trip: int = 1  # iterations
    hbm_per_iter: int = 0
    reread_bytes: int = 0  # of hbm_bytes, those that were read before, by another tile or iteration
    opfunc: str = ""
    cores: int = 1
    memory_us: float = 0.0  # these three overlap in predicted_us
    compute_us: float = 0.0
    ring_us: float = 0.0


@dataclasses.dataclass
class GroupCost:
    """One card segment."""

    index: int
    ops: list[OpCost]

    @property
    def op_names(self) -> list[str]:
        """Of `ops`, in order."""
        return [op.name for op in self.ops]

    @property
    def predicted_us(self) -> float:
        """Microseconds of all ops, one after the other."""
        return sum(op.predicted_us for op in self.ops)

    @property
    def loop_group_ids(self) -> list[tuple[int, ...]]:
        """The paths of the counted loops, outermost first, each once."""
        return sorted({op.loop_group_id for op in self.ops if op.loop_group_id is not None})

    @property
    def loop_trip(self) -> int:
        """Iterations of the op that has the most."""
        return max((op.trip for op in self.ops), default=1)

    @property
    def has_loop(self) -> bool:
        """Whether an op stands in a counted loop."""
        return bool(self.loop_group_ids)


@dataclasses.dataclass
class CostReport:
    """One compiled graph."""

    groups: list[GroupCost]

    @property
    def total_us(self) -> float:
        """Microseconds of all kernels, one after the other."""
        return sum(group.predicted_us for group in self.groups)

    @property
    def n_modelled_ops(self) -> int:
        """Ops of all kernels."""
        return sum(len(group.ops) for group in self.groups)

    def format(self) -> str:
        """A line a kernel, a loop, an op: time, bytes of card memory and of the scratchpads."""
        lines = [
            f"predicted: {self.total_us:.1f} us, {len(self.groups)} kernels, "
            f"{self.n_modelled_ops} ops"
        ]
        for group in self.groups:
            lines.append(f"kernel {group.index}{group.predicted_us:12.1f} us, {len(group.ops)} ops")
            lines += _format_ops(group)
        return "\n".join(lines)


def _format_ops(group: GroupCost) -> list[str]:
    """In order of execution, with a heading where the ops of another loop begin."""
    lines = []
    width = max(len(op.name) for op in group.ops) if group.ops else 0
    loop: tuple[int, ...] | None = None
    for number, op in enumerate(group.ops):
        if op.loop_group_id != loop:
            loop = op.loop_group_id
            lines.append(_format_loop(group.ops[number:], loop))
        refetch = f"  re-fetch {_size(op.reread_bytes)}" if op.reread_bytes else ""
        each = f" = {op.trip} x {_size(op.hbm_per_iter)}" if op.trip > 1 and op.hbm_bytes else ""
        lines.append(
            f"  {op.predicted_us:12.3f} us  {op.name:{width}s}  {op.opfunc}  HBM "
            f"{_size(op.hbm_bytes)}{each}{refetch}  LX {_size(op.lx_bytes)}"
        )
    return lines


def _format_loop(ops: Sequence[OpCost], loop: tuple[int, ...] | None) -> str:
    """`ops` begin with those of the loop."""
    if loop is None:
        return "  outside of loops"
    us = 0.0
    for op in ops:
        if op.loop_group_id != loop:
            break
        us += op.predicted_us
    name = ".".join(map(str, loop))
    return f"  loop {name}, {ops[0].trip} iterations, {us:.3f} us, bytes of LX are of one"


def _size(count: int) -> str:
    if count == 0:
        return "-"
    for unit, scale in (("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


# Of each thread, so that none sees what another one compiles meanwhile.
_thread = threading.local()


def __getattr__(name: str) -> CostReport | None:
    """LAST_REPORT: of what this thread compiled last; None before."""
    if name == "LAST_REPORT":
        return getattr(_thread, "report", None)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def cost_model_pass(graph: LoopGraph | _C.Executable) -> CostReport | None:
    """The report of a compiled graph, or of a graph in the hands of a pass (passes.py) as the
    compiler has it: with what passes before changed. None unless config.cost_model is set."""
    if not environment.is_on("SPYRE_DUMP_COST", config.cost_model):
        return None
    if isinstance(graph, LoopGraph):
        report = CostReport([_group(0, _C.op_costs(graph._loops))])
    else:
        cards = enumerate(card_segments(graph))
        report = CostReport([_group(n, graph.op_costs(card.index)) for n, card in cards])
    _thread.report = report
    return report


def _group(index: int, costs: Sequence[_C._Cost]) -> GroupCost:
    found = paths([[group for group, _count, _cut in tiles] for _n, _o, tiles, *_rest in costs])
    return GroupCost(index, [_op(cost, path) for cost, path in zip(costs, found, strict=True)])


def _op(cost: _C._Cost, path: tuple[int, ...]) -> OpCost:
    name, opfunc, _tiles, cores, trip, us, memory_us, compute_us, ring_us, hbm, reread, lx = cost
    return OpCost(
        name=name,
        loop_group_id=path or None,
        hbm_bytes=hbm,
        lx_bytes=lx,
        predicted_us=us,
        trip=trip,
        hbm_per_iter=hbm // trip,
        reread_bytes=reread,
        opfunc=opfunc,
        cores=cores,
        memory_us=memory_us,
        compute_us=compute_us,
        ring_us=ring_us,
    )
