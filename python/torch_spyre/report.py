# SPDX-License-Identifier: Apache-2.0
"""What became of the graphs that torch.compile gave to the card."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from . import config

if TYPE_CHECKING:
    from ._C import KernelCounters, LxUse
    from .compile.program import Program


def _no_program() -> Program | None:
    """Of a report that belongs to no program."""
    return None


class Exchange(NamedTuple):
    """A collective of a graph, as modelled for a card."""

    op: str  # "_c10d_functional.all_reduce.default"
    ranks: int
    bytes: int  # that a rank hands over
    us: float
    hidden_us: float  # of that, while the card computes what does not need the result


@dataclass
class CompileReport:
    """What became of one graph."""

    nodes_on_card: int = 0
    nodes_on_host: int = 0  # that read or make a tensor of the card
    # Of the host that do neither (the graph's own arithmetic on tensors of the CPU), copies between
    # host and card, and views.
    nodes_apart: int = 0
    segments: int = 0
    card_segments: int = 0
    kernels: int = 0
    macs: int = 0
    bytes: int = 0
    card_us: float = 0.0
    graph_breaks: int = 0
    interpreted: str = ""  # why the graph runs eagerly, operator by operator; "" when compiled
    # Why the program serves one bucket of a marked dim and not all of them; "" otherwise.
    one_bucket: str = ""
    host_ops: list[str] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list, repr=False)  # between cards
    text: str = field(default="", repr=False)
    # Of every kernel in order, as include/spyre/counters.h describes them.
    counters: list[KernelCounters] = field(default_factory=list, repr=False)
    # Microseconds of processor time by stage of the front ("pass" names of src/front/pass.def,
    # build, invariants, emit), and host memory an op of the loop IR; empty and 0 from the cache.
    stage_us: dict[str, float] = field(default_factory=dict, repr=False)
    bytes_per_op: float = 0.0
    # The program, or None when it is gone.
    program: Callable[[], Program | None] = field(default=_no_program, repr=False, compare=False)

    def __str__(self) -> str:
        if self.interpreted:
            return f"interpreted node by node: {self.interpreted}"
        return (
            f"{self.nodes_on_card} nodes on the card, {self.nodes_on_host} on the host, "
            f"{self.segments} segments, {self.kernels} kernels, {self.macs} multiply-accumulates, "
            f"{self.bytes} bytes, {self.card_us:.1f} us on the card (modelled), "
            f"{self.graph_breaks} graph breaks{self._exchanged()}"
            + (f", not one program for all sizes: {self.one_bucket}" if self.one_bucket else "")
        )

    def _exchanged(self) -> str:
        if not self.exchanges:
            return ""
        us, hidden = (sum(times) for times in zip(*[e[3:] for e in self.exchanges], strict=True))
        return f", {us:.1f} us of exchanges between cards, {hidden:.1f} us of them hidden"

    def scratchpad(self) -> list[LxUse]:
        """How each card segment uses the LX of a core (`spyre_lx_use` in
        include/spyre/counters.h); sizes are bytes.

        Raises: RuntimeError when the program is gone.
        """
        program = self.program()
        if program is None:
            raise RuntimeError("the program of this report is gone")
        return [program.executable.lx_use(s.index) for s in program.segments if s.on_card]


_KERNEL_BYTES = 2048  # of a kernel's counters as objects of Python, roughly


class Reports:
    """The reports of the process, oldest first. Those that exceed config.report_bytes go, the
    oldest first; the last one stays."""

    def __init__(self) -> None:
        self._reports: collections.deque[CompileReport] = collections.deque()
        self.bytes = 0
        self.count = 0  # of all graphs so far, those that are forgotten as well

    def append(self, report: CompileReport) -> None:
        """Adds a report; the oldest ones go where the limit is exceeded."""
        self._reports.append(report)
        self.count += 1
        self.bytes += _bytes(report)
        while self.bytes > config.report_bytes and len(self._reports) > 1:
            self.bytes -= _bytes(self._reports.popleft())

    def clear(self) -> None:
        """Forgets all reports."""
        self._reports.clear()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._reports)

    def __iter__(self) -> Iterator[CompileReport]:
        return iter(self._reports)

    def __getitem__(self, index: int) -> CompileReport:
        return self._reports[index]


def _bytes(report: CompileReport) -> int:
    return len(report.text) + _KERNEL_BYTES * (1 + len(report.counters))


reports = Reports()


def compile_reports() -> list[CompileReport]:
    """Reports of the graphs that torch.compile gave to the card, oldest first."""
    return list(reports)


def last_report() -> CompileReport | None:
    """The report of the graph compiled last, or None."""
    return reports[-1] if reports else None
