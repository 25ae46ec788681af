# SPDX-License-Identifier: Apache-2.0
"""What chosen operators of a compiled function use inside its programs, as torch-spyre's RFC 0601
has it:

    compiled = torch.compile(model, options={"spyre_instrument_ops": ["aten.mm", "aten.addmm"]})
    with torch_spyre.profiling.instrument(metrics=["execution_time", "pe_util"]) as prof:
        compiled(x)
    prof.print_report()

A kernel belongs to the operator of the ATen graph that it was made of. Its times are the timing
model's (docs/card.md), which do not depend on data, so an instrumented program is the same program
and computes the same bytes; only its launches are counted.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import _C, config
from ._pytorch.dispatch import OpOverloadPacket
from ._pytorch.fx import overload_of
from .compile import segment_launch

if TYPE_CHECKING:
    from ._C import KernelCounters
    from .compile.segments import Segment

__all__ = ["Instrument", "OpProfile", "instrument"]


@dataclasses.dataclass
class OpProfile:
    """Modelled use of the card by one operator, over `launches` of programs that have it. Times are
    microseconds; those of a unit are the time in which it is busy, and they overlap."""

    op: str  # "aten.mm"
    launches: int = 0
    us: float = 0.0
    dma_us: float = 0.0  # between card memory and scratchpads
    pt_us: float = 0.0  # matrix units
    sfp_us: float = 0.0  # vector units
    ring_us: float = 0.0  # between cores
    restickify_us: float = 0.0  # of `us`, in kernels that only change layouts
    core_us: float = 0.0  # sum over cores that take part

    def add(self, kernels: Sequence[KernelCounters]) -> None:
        """One launch with these kernels."""
        self.launches += 1
        for kernel in kernels:
            us = kernel["us"]
            self.us += us
            self.dma_us += kernel["memory_busy_us"]
            self.pt_us += kernel["pt_busy_us"]
            self.sfp_us += kernel["sfp_busy_us"]
            self.ring_us += kernel["ring_busy_us"]
            self.restickify_us += us if "ReStickify" in kernel["name"] else 0.0
            self.core_us += us * kernel["cores"]

    def share(self, us: float) -> float:
        """Percent of the operator's time."""
        return 100 * us / self.us if self.us else 0.0


_CORES = _C._card_constants()["CORES"]

# By the RFC's names: heading of the column, value.
METRICS: dict[str, tuple[str, Callable[[OpProfile], float]]] = {
    "execution_time": ("Exec (us)", lambda p: p.us),
    "dma_latency": ("DMA (us)", lambda p: p.dma_us),
    "pe_util": ("PE Util%", lambda p: p.share(p.pt_us)),
    "pipeline_util": (
        "Pipeline%",
        lambda p: p.share((p.dma_us + p.pt_us + p.sfp_us + p.ring_us) / 4),
    ),
    "dma_overhead": ("DMA alone%", lambda p: p.share(max(0.0, p.us - p.pt_us - p.sfp_us))),
    "core_util": ("Cores%", lambda p: p.share(p.core_us / _CORES)),
    "inter_core": ("Ring%", lambda p: p.share(p.ring_us)),
    "stick_alignment": ("Restick%", lambda p: p.share(p.restickify_us)),
}


class Instrument:
    """What instrumented programs do while the context is open, by operator."""

    def __init__(self, metrics: Sequence[str] = ("execution_time", "dma_latency", "pe_util")):
        unknown = [name for name in metrics if name not in METRICS]
        if unknown:
            raise ValueError(f"metric {unknown[0]!r}: expected one of {', '.join(METRICS)}")
        self.metrics = list(metrics)
        self.profiles: dict[str, OpProfile] = {}

    def __enter__(self) -> Instrument:
        _open.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        _open.remove(self)

    def add(self, op: str, kernels: Sequence[KernelCounters]) -> None:
        """One launch of a program in which these kernels are of `op`."""
        self.profiles.setdefault(op, OpProfile(op)).add(kernels)

    def rows(self) -> list[dict[str, Any]]:
        """A row per operator that was launched, in the order of the first launch: "op", "launches"
        and the metrics by name; times are microseconds, shares percent."""
        return [
            {"op": p.op, "launches": p.launches, **{m: METRICS[m][1](p) for m in self.metrics}}
            for p in self.profiles.values()
        ]

    def report(self) -> str:
        """The rows as a table."""
        heads = ["Op", "Launches", *(METRICS[name][0] for name in self.metrics)]
        cells = [
            [row["op"], str(row["launches"]), *(f"{row[name]:.2f}" for name in self.metrics)]
            for row in self.rows()
        ]
        width = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        lines = [
            "  ".join([line[0].ljust(width[0]), *map(str.rjust, line[1:], width[1:])])
            for line in [heads, *cells]
        ]
        return "\n".join(lines)

    def print_report(self) -> None:
        """The table on stdout; a line that says so when nothing was instrumented."""
        print(self.report() if self.profiles else "no launch of an instrumented operator")


instrument = Instrument
_open: list[Instrument] = []


class _Counted(segment_launch.Launch):
    """A card segment whose launches are told to open instruments."""

    __slots__ = ("kernels",)

    def __init__(
        self, executable: _C.Executable, index: int, kernels: dict[str, list[KernelCounters]]
    ):
        super().__init__(executable, index)
        self.kernels = kernels

    def __call__(
        self, inputs: Sequence[torch.Tensor], card: int, scalars: tuple[float, ...] = ()
    ) -> list[torch.Tensor]:
        results = super().__call__(inputs, card, scalars)
        for told in list(_open):
            for op, kernels in self.kernels.items():
                told.add(op, kernels)
        return results


def launch_of(
    executable: _C.Executable, segment: Segment, nodes: Sequence[torch.fx.Node]
) -> segment_launch.Launch:
    """A card segment, which counts if it computes operators of config.spyre_instrument_ops. `nodes`
    are those of the graph. Raises ValueError for the name of no ATen operator."""
    wanted = {name: _checked(name) for name in config.spyre_instrument_ops}
    kernels = _kernels_of(executable, segment.index, nodes, wanted) if wanted else {}
    if not kernels:
        return segment_launch.Launch(executable, segment.index)
    return _Counted(executable, segment.index, kernels)


def _checked(name: object) -> OpOverloadPacket:
    namespace, _, op = name.partition(".") if isinstance(name, str) else ("", "", "")
    packet = getattr(getattr(torch.ops, namespace), op, None) if namespace and op else None
    if not isinstance(packet, OpOverloadPacket):
        raise ValueError(f"spyre_instrument_ops: {name!r} is no operator like 'aten.mm'")
    return packet


def _kernels_of(
    executable: _C.Executable,
    index: int,
    nodes: Sequence[torch.fx.Node],
    wanted: dict[str, OpOverloadPacket],
) -> dict[str, list[KernelCounters]]:
    """By name of the operator. The number of a kernel is that of its op in the final loop IR, whose
    value is named after the node."""
    packets = {node.name: overload_of(node).overloadpacket for node in nodes}
    ops, _buffers = executable.loops(index)
    origins = [packets.get(value.partition(".")[0]) for value, *_rest in ops]
    found: dict[str, list[KernelCounters]] = {}
    for kernel in executable.counters(index):
        number = kernel["name"].partition("_")[0]
        origin = origins[int(number)] if number.isdecimal() else None
        for name, packet in wanted.items():
            if origin is not None and origin is packet:
                found.setdefault(name, []).append(kernel)
    return found
