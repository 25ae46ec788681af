# SPDX-License-Identifier: Apache-2.0
"""Nodes in which elements up to a length depend on none behind it: by elements, or along other
dims."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from ..._pytorch import pytree
from ..._pytorch.fx import SYMBOLIC, arguments_of, overload_of
from ..dynamic_sizes.operator_dims import (
    BY_PLACE,
    COPIES,
    MADE,
    MADE_LIKE,
    MEETS,
    RAISES,
    SHAPES,
    TAKES_NUMBER,
    VIEWS,
    is_pointwise,
    is_pure_pointwise,
)
from ..graph_builder import location
from .dims import Seen
from .draft import Draft

_aten = torch.ops.aten
Node = torch.fx.Node


def with_number(draft: Draft, node: Node) -> Node | None:
    """Arithmetic with a number that follows from a length."""
    op, args = node.target, arguments_of(node)
    if not is_pointwise(op) or len(args) != 2:
        return None
    size = args[1].meta["val"] if isinstance(args[1], Node) else None
    takes = isinstance(size, SYMBOLIC) and op.overloadpacket.__name__ in TAKES_NUMBER
    if size is None or not takes or not draft.dims.has_length(size):
        return None
    number = draft.number(size.node.expr, isinstance(size, torch.SymInt), node)
    pair = (draft.made[args[0]], number)
    return draft.emit(op.overloadpacket.Tensor, pair, node, **node.kwargs)


def unchanged(draft: Draft, node: Node, ragged: Sequence[Node], measured: Sequence[Node]) -> Node:
    """The node as it is."""
    if not _is_blind(draft, node, ragged, measured):
        raise Seen(f"{node.format_node()}, {location(node)}")
    args, kwargs = draft.given(node)
    return draft.emit(node.target, args, node, **kwargs)


def _is_blind(draft: Draft, node: Node, ragged: Sequence[Node], measured: Sequence[Node]) -> bool:
    """Whether elements up to a length depend on none behind it."""
    op, args = node.target, arguments_of(node)
    if any(draft.made[size] is None for size in measured):
        return False
    if op in MADE:
        if op is _aten.arange.default:
            draft.counts.add(node)
        sizes = pytree.tree_leaves(args[MADE[op]])
        return all(any(size is s for s in sizes) for size in measured)
    if op is _aten.arange.start and args[0] == 0:
        draft.counts.add(node)
        return True
    if op in VIEWS or op in SHAPES:
        return _is_view(draft, node, ragged)
    if op is _aten.slice.Tensor:
        return is_whole(draft, node)
    if measured:
        return False
    if op in MADE_LIKE:
        return True
    draft.keep(node, ragged, op in COPIES)
    if op in COPIES or op is _aten.copy.default:
        return True
    if op is _aten.add.Tensor and args[1] == 0 and args[0] in draft.counts:
        draft.counts.add(node)
    if op is _aten.copy_.default:
        return draft.written.get(args[1]) is args[0]
    if op in BY_PLACE:
        return True
    if op in MEETS:
        dims = MEETS[op](args, args[0].meta["val"].shape)
        return len(ragged) == 1 and ragged[0] is args[0] and not (
            {d % args[0].meta["val"].dim() for d in dims} & set(draft.dims.of(args[0]))
        )  # fmt: skip
    return is_pure_pointwise(op) and not _may_raise(draft, node)


def _may_raise(draft: Draft, node: Node) -> bool:
    """Whether a number behind a length can be one that the operator refuses."""
    args = arguments_of(node)
    whole = not draft.dims.values[node].dtype.is_floating_point
    by_number = len(args) > 1 and type(args[1]) is int and args[1] > 0
    name = overload_of(node).overloadpacket.__name__.rstrip("_")
    return whole and name in RAISES and not by_number


def _is_view(draft: Draft, node: Node, ragged: Sequence[Node]) -> bool:
    op, source = node.target, arguments_of(node)[0]
    draft.keep(node, ragged, True)
    if source in draft.counts and len(draft.dims.of(node)) == 1:
        draft.counts.add(node)
    return op not in SHAPES or draft.dims.is_same(source, node)


def is_whole(draft: Draft, node: Node) -> bool:
    """Whether a slice is along no length, or of the first elements of what there is: all up to
    a length that is no longer, or of a table that reaches to its end."""
    args = arguments_of(node)
    defaults = (None, 0, None, None, 1)
    tensor, dim, first, last, step = args + defaults[len(args) :]
    size = tensor.meta["val"].shape[dim]
    number, end = draft.dims.length(size), draft.dims.length(last)
    if draft.dims.length(first) is not None or draft.dims.is_product(end):
        return False
    if number is None and end is None:
        return True
    made = draft.dims.length(node.meta["val"].shape[dim])
    if step == 1 and made == number and last in (None, sys.maxsize):
        draft.keep(node, [tensor], True)
        return True
    if not isinstance(first, int | None) or first or step != 1 or end is None:
        return False
    if draft.dims.is_product(number):
        return False
    there = draft.dims.values[tensor].shape[dim] if number is None else draft.dims.ends[number]
    return there >= draft.dims.ends[end] and made == end
