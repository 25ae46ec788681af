# SPDX-License-Identifier: Apache-2.0
"""Functional collectives in compiled graphs: nodes that the host starts and waits for, on tensors
that stay on the card. What a node says is read when the graph is compiled (`plan`), a start and a
wait are then one call of the C part each (`run`); a view of what they read or give stays where it
is. What has no plan goes through PyTorch's own
kernels (`exchange`), which call the process group of each tensor's device. A group for tensors of
the CPU alone, as graphs for `sendnn` have it, gets copies on the CPU, which have arrived before the
graph goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import _C
from .._pytorch import distributed, pytree
from .._pytorch.dispatch import OpOverload
from ..report import Exchange
from .segments import Segment

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")

# The library's operation of each operator of tensors on the card.
_KINDS = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}
_REDUCTIONS = {"sum": "sum", "avg": "avg", "min": "min", "max": "max", "product": "prod"}


class Step(NamedTuple):
    """A start of one collective a source, a wait, or a view."""

    op: OpOverload
    plan: _C.Exchange | None  # None: a wait, or a view
    sources: list[int]  # ids of values
    results: list[int]
    others: list[Any]  # arguments of `op` behind the tensors
    is_view: bool = False


def is_collective(op: OpOverload) -> bool:
    """Whether the operator moves data between ranks, or waits for one that does."""
    return op.namespace in _NAMESPACES


def plan(
    node: torch.fx.Node, op: OpOverload, ids: Callable[[torch.fx.Node], list[int]]
) -> Step | None:
    """The step of a collective between cards that PyTorch's kernels are not needed for, or of a
    view beside it."""
    tensors, *others = node.args or [None]
    sources = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    if node.kwargs or not all(isinstance(source, torch.fx.Node) for source in sources):
        return None
    if not is_collective(op):
        numbers = not any(isinstance(leaf, torch.fx.Node) for leaf in pytree.tree_leaves(others))
        views = op.is_view and numbers and len(sources) == 1
        return Step(op, None, ids(sources[0]), ids(node), others, True) if views else None  # type: ignore[arg-type]
    given = [id for source in sources for id in ids(source)]  # type: ignore[arg-type]
    name = op.name().split("::")[1].split(".")[0]
    if name == "wait_tensor":
        return Step(op, None, given, ids(node), [])
    kind = _KINDS.get(name)
    if kind is None or any(isinstance(leaf, torch.fx.Node) for leaf in pytree.tree_leaves(others)):
        return None
    names: list[Any] = [other for other in others if isinstance(other, str)]
    group, reduction = names[-1], _REDUCTIONS.get(names[0]) if len(names) > 1 else "sum"
    if not isinstance(others[-1], str) or reduction is None:
        return None
    if not distributed.moves_cards_tensors(group):
        return None
    root: Any = others[0] if kind == "broadcast" else 0
    rows: Any = others[:2] if kind == "all_to_all" else [[], []]
    made = _C.exchange_plan(kind, group, reduction, root, list(rows[0]), list(rows[1]))
    return Step(op, made, given, ids(node), others)


def price(
    segments: Sequence[Segment], steps: Sequence[list[Step] | None], sizes: Mapping[int, int]
) -> list[Exchange]:
    """What the collectives of a graph take, on a link that does one after the other, and how much
    of it lies behind the card's segments between start and wait. `sizes` are bytes by value."""
    now = link_free = 0.0
    ends: dict[int, tuple[int, float]] = {}  # by result: place in `found`, end
    found: list[Exchange] = []
    for segment, own in zip(segments, steps, strict=True):
        now += segment.card_us if segment.on_card else 0.0
        for step in own or []:
            for source, result in zip(step.sources, step.results, strict=True):
                if step.plan is not None:
                    ranks, us = _C.exchange_price(step.plan, sizes[source])
                    link_free = max(now, link_free) + us
                    ends[result] = len(found), link_free
                    found.append(Exchange(str(step.op), ranks, sizes[source], us, us))
                elif source in ends and not step.is_view:
                    place, end = ends[source]
                    seen = min(max(end - now, 0.0), found[place].us)
                    found[place] = found[place]._replace(hidden_us=found[place].us - seen)
                    now = max(now, end)
    return found


def run(step: Step, values: dict[int, torch.Tensor]) -> None:
    """Adds the results of a step to the values, by id, whose tensors are on the card."""
    for source, result in zip(step.sources, step.results, strict=True):
        if step.is_view:
            values[result] = step.op(values[source], *step.others)
            continue
        if step.plan is None:
            values[result] = _C.exchange_wait(values[source])
            continue
        tensor = _C.exchange_start(step.plan, values[source])
        if tensor is None:  # a backend that wraps ours
            _run_by_pytorch(step, values)
            return
        values[result] = tensor


def _run_by_pytorch(step: Step, values: dict[int, torch.Tensor]) -> None:
    tensors = [values[source] for source in step.sources]
    several = "coalesced" in step.op.name()
    made = step.op(tensors if several else tensors[0], *step.others)
    values.update(zip(step.results, made if several else [made], strict=True))


def exchange(
    op: OpOverload,
    args: list[Any],
    kwargs: dict[str, Any],
    as_placed: Callable[[object], object],
    to_cpu: Callable[[object], object],
) -> Any:
    """Results of a collective whose arguments one of the two functions gives, where the graph has
    them or on the CPU."""
    names = [given for given in args if isinstance(given, str)]  # the group's is the last one
    if not names or distributed.moves_cards_tensors(names[-1]):
        return op(*pytree.tree_map(as_placed, args), **kwargs)
    return pytree.tree_map(_arrived, op(*pytree.tree_map(to_cpu, args), **kwargs))


def _arrived(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.ops._c10d_functional.wait_tensor(value)
    return value
