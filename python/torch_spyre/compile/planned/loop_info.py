# SPDX-License-Identifier: Apache-2.0
"""The counted loops around an op, under torch-spyre's name (docs/tiling.md)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class CoarseTileInfo:
    """One entry a loop, outermost first. Positions are those of the op's kept loops, or of its
    reduced ones; an empty list says that the op is the same in every iteration."""

    loop_group_id: tuple[int, ...]  # (1, 0): the first loop in the second; its ops share the path
    loop_count: list[int]
    loop_tiled_dims: list[list[int]]
    loop_tiled_reduction_dims: list[list[int]] = field(default_factory=list)
