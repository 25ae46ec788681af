# SPDX-License-Identifier: Apache-2.0
"""Rows of a length by their place: slices, writes, concatenations, paddings, flips."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from ..._pytorch.fx import arguments_of
from ..dynamic_sizes.operator_dims import padded
from .draft import Draft, Rule
from .elementwise import is_whole

_aten = torch.ops.aten
Node = torch.fx.Node


def _sliced(draft: Draft, node: Node) -> Node | None:
    return _last_rows(draft, node) or _moved_up(draft, node)


def _last_rows(draft: Draft, node: Node) -> Node | None:
    """The rows before a length."""
    args = arguments_of(node)
    if len(args) != 4:
        return None
    tensor, dim, first, last = args
    from_end = isinstance(first, int) and first < 0 and last == sys.maxsize
    if from_end:
        last = tensor.meta["val"].shape[dim]
    number = draft.dims.length(last)
    if number is None or draft.dims.length(node.meta["val"].shape[dim]) is not None:
        return None
    values = draft.dims.values
    rows = values[node].shape[dim]
    if not from_end and values[last] - values.get(first, -1) != rows:
        return None
    places = draft.place(number, rows)
    return draft.emit(_aten.index_select.default, (draft.made[tensor], dim, places), node)


def _moved_up(draft: Draft, node: Node) -> Node | None:
    """Some of the first rows, or those up to a length without the first ones or some of the
    last; what is behind them may be anything."""
    op, args = node.target, arguments_of(node)
    tensor, dim, first, _last, step = args + (None, 0, None, None, 1)[len(args) :]
    number, made = (draft.dims.length(n.meta["val"].shape[dim]) for n in (tensor, node))
    first = first or 0
    if number is None or step != 1 or type(first) is not int or first < 0:
        return None
    if draft.dims.is_product(number):
        return None
    if made is None:
        last = first + draft.dims.values[node].shape[dim]
        return draft.emit(op, (draft.made[tensor], dim, first, last), node)
    if first == 0 and is_whole(draft, node):
        return None
    there, end = draft.dims.ends[number], draft.dims.ends[made]
    behind = max(first + end - there, 0)
    draft.offset = max(draft.offset, first)
    if behind > first:
        return None
    rows = draft.emit(op, (draft.made[tensor], dim, first, first + end - behind), node)
    if not behind:
        return rows
    others = draft.emit(op, (draft.made[tensor], dim, 0, behind), node)
    return draft.emit(_aten.cat.default, ([rows, others], dim), node)


def _selected(draft: Draft, node: Node) -> Node | None:
    """One row of those before a length."""
    tensor, dim, index = arguments_of(node)
    number = draft.dims.length(tensor.meta["val"].shape[dim])
    if number is None or type(index) is not int:
        return None
    if index >= 0:
        return draft.emit(_aten.select.int, (draft.made[tensor], dim, index), node)
    place = draft.emit(_aten.slice.Tensor, (draft.place(number, -index), 0, 0, 1), node)
    row = draft.emit(_aten.index_select.default, (draft.made[tensor], dim, place), node)
    return draft.emit(_aten.squeeze.dim, (row, dim), node)


def _written(draft: Draft, node: Node) -> Node | None:
    """Rows that grown_arguments.py writes behind an argument."""
    args = arguments_of(node)
    argument = args[0] if args else None
    for grown in draft.growing:
        wanted = (grown.dim, -grown.rows)
        if argument is draft.sources[grown.argument] and args[2:4] == wanted:
            places = draft.place(draft.dims.of(argument)[grown.dim], grown.rows)
            draft.written[node] = argument
            draft.kept |= {argument} & draft.kept and {node}
            few = draft.made[args[1]]
            return draft.emit(
                _aten.index_copy.default, (draft.made[argument], grown.dim, places, few), node
            )
    return None


def _joined(draft: Draft, node: Node) -> Node | None:
    """A concatenation: along no length, of a length and rows before and behind it, or of several
    that are as long."""
    op, args = node.target, arguments_of(node)
    parts, *rest = args
    dim = (rest[0] if rest else 0) % node.meta["val"].dim()
    lengths = [draft.dims.of(part).get(dim) for part in parts]
    if op is _aten.stack.default or lengths == [None] * len(parts):
        return draft.emit(op, draft.given(node)[0], node)
    there = draft.dims.of(node).get(dim)
    kinds = {part.meta["val"].dtype for part in parts}
    if there is not None and draft.dims.is_product(there):
        return _repeated(draft, node, there, lengths)
    if len(parts) - lengths.count(None) > 1 or there is None or len(kinds) > 1:
        return None
    (at,) = (place for place, number in enumerate(lengths) if number is not None)
    end = draft.dims.ends[there]
    if draft.dims.ends[lengths[at] or 0] != end:
        return None
    made: Node = draft.made[parts[at]]
    if at:
        before = [draft.made[part] for part in parts[:at]]
        draft.offset = max(draft.offset, *(n.meta["val"].shape[dim] for n in before))
        made = draft.emit(op, ([*before, made], dim), node)
        made = draft.emit(_aten.slice.Tensor, (made, dim, 0, end), node)
    few = [draft.made[part] for part in parts[at + 1 :]]
    if few:
        rows = few[0] if len(few) == 1 else draft.emit(op, (few, dim), node)
        places = draft.place(there, rows.meta["val"].shape[dim])
        made = draft.emit(_aten.index_copy.default, (made, dim, places, rows), node)
    if parts[at] in draft.kept and draft.dims.of(node).keys() == {dim}:
        draft.kept.add(node)
    return made


def _repeated(draft: Draft, node: Node, number: int, lengths: Sequence[int | None]) -> Node | None:
    """Parts of one length each, along a dim of that product."""
    length = lengths[0]
    if length is None or draft.dims.is_product(length) or set(lengths) != {length}:
        return None
    if not draft.dims.tell_order(number, ((False, len(lengths)), (True, length))):
        return None
    return draft.emit(node.target, draft.given(node)[0], node)


def _padded(draft: Draft, node: Node) -> Node | None:
    """Rows of a number before and behind a length."""
    args = arguments_of(node)
    pads = padded(args[1], args[0].meta["val"].dim())
    along = pads.keys() & draft.dims.of(args[0])
    if pads.keys() != along or any(type(n) is not int or n < 0 for d in pads for n in pads[d]):
        return None
    made: Node = draft.made[args[0]]
    for dim, (before, behind) in pads.items():
        there = draft.dims.of(node).get(dim)
        if there is None or draft.dims.ends[there] != made.meta["val"].shape[dim]:
            return None
        draft.offset = max(draft.offset, before)
        if before:
            made = draft.emit(
                _aten.cat.default, ([_rows(draft, node, dim, before), made], dim), node
            )
            made = draft.emit(_aten.slice.Tensor, (made, dim, 0, draft.dims.ends[there]), node)
        if behind:
            places, rows = draft.place(there, behind), _rows(draft, node, dim, behind)
            made = draft.emit(_aten.index_copy.default, (made, dim, places, rows), node)
    return made


def _rows(draft: Draft, node: Node, dim: int, count: int) -> Node:
    """What a padding adds along one of its dims."""
    value, number = draft.dims.at_end(node), [*arguments_of(node), 0][2]
    sizes = [count if d == dim else size for d, size in enumerate(value.shape)]
    made = {"dtype": value.dtype, "device": value.device}
    return draft.emit(_aten.full.default, (sizes, number), node, **made)


def _flipped(draft: Draft, node: Node) -> Node | None:
    """A flip: elements from the end of a length on."""
    op, args = node.target, arguments_of(node)
    of = args[0].meta["val"]
    made, others = draft.made[args[0]], []
    for dim in (dim % of.dim() for dim in args[1]):
        number = draft.dims.of(args[0]).get(dim)
        if number is None:
            others.append(dim)
            continue
        places = draft.all_places(number)
        places = draft.emit(_aten.sub.Tensor, (draft.place(number, 1), places), node)
        places = draft.emit(_aten.clamp_min.default, (places, 0), node)
        made = draft.emit(_aten.index_select.default, (made, dim, places), node)
    return draft.emit(op, (made, others), node) if others else made


RULES_OF_JOINED: dict[object, Rule] = {
    _aten.slice.Tensor: _sliced,
    _aten.cat.default: _joined,
    _aten.stack.default: _joined,
}
RULES: dict[object, Rule] = {
    _aten.slice.Tensor: _sliced,
    _aten.select.int: _selected,
    _aten.slice_scatter.default: _written,
    _aten.cat.default: _joined,
    _aten.stack.default: _joined,
    _aten.constant_pad_nd.default: _padded,
    _aten.flip.default: _flipped,
}
