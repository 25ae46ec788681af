# SPDX-License-Identifier: Apache-2.0
"""The ops of a compiled graph as the counted loops that they stand in, under torch-spyre's names
(torch_spyre/_inductor/scheduler.py, torch-spyre/torch-spyre at 0b06ec7).

    for node in build_loop_scheduler_nodes(operations_of(executable)): print(node)

There they are nodes of Inductor's scheduler, which makes kernels of them. Here they are views of
what the pass coarse_tile made (docs/tiling.md): no scheduler takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import _C
from . import loops
from .loops import LoopOp

__all__ = ["CountedLoopSchedulerNode", "build_loop_scheduler_nodes", "operations_of"]


@dataclass(eq=False)
class CountedLoopSchedulerNode:
    """A loop and what stands in it, in order: ops, and loops inside."""

    snodes: list[LoopOp | CountedLoopSchedulerNode]
    loop_count: int

    @classmethod
    def create(
        cls, snodes: Sequence[LoopOp | CountedLoopSchedulerNode], loop_count: int
    ) -> CountedLoopSchedulerNode:
        return cls(list(snodes), loop_count)

    def get_nodes(self) -> list[LoopOp | CountedLoopSchedulerNode]:
        return self.snodes

    def get_name(self) -> str:
        names = (n.name if isinstance(n, LoopOp) else n.get_name() for n in self.snodes)
        return "_".join(names)

    def unpack(self) -> list[CountedLoopSchedulerNode]:
        """A loop is one thing."""
        return [self]

    @classmethod
    def can_fuse(cls, producer: object, consumer: object) -> bool:
        return False

    def __str__(self) -> str:
        inside = (n.opfunc if isinstance(n, LoopOp) else str(n) for n in self.snodes)
        return f"for {self.loop_count}: {{{'; '.join(inside)}}}"


def operations_of(executable: _C.Executable, segment: int = 0) -> list[LoopOp]:
    """The ops of a card segment after all passes, each with its `loop_info`."""
    return loops.from_values(*executable.loops(segment)).operations


def build_loop_scheduler_nodes(
    nodes: Sequence[LoopOp],
) -> list[LoopOp | CountedLoopSchedulerNode]:
    """Ops in the order of execution, those of a loop as one node. RuntimeError for a loop whose ops
    are apart or count differently."""
    return _group(nodes, ())


def _group(ops: Sequence[LoopOp], path: tuple[int, ...]) -> list[LoopOp | CountedLoopSchedulerNode]:
    depth = len(path)
    made: list[LoopOp | CountedLoopSchedulerNode] = []
    seen: set[tuple[int, ...]] = set()
    at = 0
    while at < len(ops):
        loop = _loop_at(ops[at], depth)
        if loop is None:
            made.append(ops[at])
            at += 1
            continue
        inner, count = loop
        if inner in seen:
            raise RuntimeError(f"loop group {inner} is not contiguous: op {ops[at].name}")
        seen.add(inner)
        end = at
        while end < len(ops) and (found := _loop_at(ops[end], depth)) and found[0] == inner:
            if found[1] != count:
                raise RuntimeError(
                    f"loop group {inner} counts {count} and {found[1]}: op {ops[end].name}"
                )
            end += 1
        made.append(CountedLoopSchedulerNode.create(_group(ops[at:end], inner), count))
        at = end
    return made


def _loop_at(op: LoopOp, depth: int) -> tuple[tuple[int, ...], int] | None:
    """The loop around the op at a depth, by its path, and its count."""
    info = op.loop_info
    if info is None or len(info.loop_group_id) <= depth:
        return None
    return info.loop_group_id[: depth + 1], info.loop_count[depth]
