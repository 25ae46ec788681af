# SPDX-License-Identifier: Apache-2.0
"""The segments of an executable as records; include/spyre/compile.h describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .. import _C


class View(NamedTuple):
    """A result that a launch does not return, because it is a view of an input or of another
    result. Sizes, strides and offset are in elements."""

    result: int  # its position among the segment's results
    of_input: bool
    source: int  # position of the viewed input or result
    size: list[int]
    stride: list[int]
    offset: int

    def of(self, base: torch.Tensor) -> torch.Tensor:
        return base.as_strided(self.size, self.stride, self.offset)


@dataclass(frozen=True, slots=True)
class Segment:
    """One program of the card, or a run of nodes that the host computes. Work (`kernels`, `macs`,
    `memory_bytes`, `card_us`) is that of one launch, modelled, and 0 of a host segment."""

    index: int
    on_card: bool
    name: str  # "sdsc_fused_mul_add_0_1a2b3c4d"; "" of a host segment
    nodes: Sequence[int]  # of the compiler's graph
    inputs: Sequence[int]  # ids of values
    outputs: Sequence[int]
    views: Sequence[View]
    kernels: int
    macs: int  # multiply-accumulates
    memory_bytes: int  # read and written
    pool_bytes: int  # of card memory for intermediates
    card_us: float


class NodeReport(NamedTuple):
    """What became of a node of the compiler's graph."""

    op: str  # "aten.add.Tensor"
    location: str  # the user's line, or "unknown"
    layer: str  # "native", "decomposition", "view", "host" or "removed"
    reason: str | None  # of the host: the rule that keeps the node from the card
    composition: str | None  # "aten.silu.default(%x)": the call that nodes up to this one spell out


def nodes_of(executable: _C.Executable) -> list[NodeReport]:
    """The nodes of the graph in their order."""
    return [NodeReport(*node) for node in executable.nodes()]


def segment_of(executable: _C.Executable, index: int) -> Segment:
    """Segment `index`. Raises IndexError behind the last one."""
    raw = executable.segment(index)
    return Segment(
        index=index,
        on_card=raw["kind"] == "card",
        name=raw["name"] or "",
        nodes=raw["nodes"],
        inputs=raw["inputs"],
        outputs=raw["outputs"],
        views=[View(*view) for view in raw["views"]],
        kernels=raw["kernels"],
        macs=raw["macs"],
        memory_bytes=raw["bytes"],
        pool_bytes=raw["pool_bytes"],
        card_us=raw["card_us"],
    )


def segments_of(executable: _C.Executable) -> list[Segment]:
    """All segments, in the order in which they run."""
    return [segment_of(executable, index) for index in range(executable.segment_count())]


def card_segments(executable: _C.Executable) -> Iterator[Segment]:
    """Those that the card runs."""
    return (segment for segment in segments_of(executable) if segment.on_card)
