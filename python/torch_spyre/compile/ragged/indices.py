# SPDX-License-Identifier: Apache-2.0
"""Indices with a length, or into one: behind their length they are 0. Numbers of rows."""

from __future__ import annotations

from typing import Any

import torch

from ..._pytorch.fx import arguments_of
from .draft import Draft, Rule

_aten = torch.ops.aten
Node = torch.fx.Node


def _embedding(draft: Draft, node: Node) -> Node | None:
    table, index, *rest = arguments_of(node)
    if draft.dims.of(table):
        return None
    return draft.emit(node.target, (draft.made[table], draft.without(index, 0), *rest), node)


def _index_select(draft: Draft, node: Node) -> Node:
    tensor, dim, index = arguments_of(node)
    made, lengths = draft.without(index, 0), draft.dims.of(tensor)
    if dim in lengths:
        made = _from_end(draft, made, lengths[dim], index)
    return draft.emit(node.target, (draft.made[tensor], dim, made), node)


def _gather(draft: Draft, node: Node) -> Node:
    tensor, dim, index = arguments_of(node)[:3]
    return draft.emit(node.target, (draft.made[tensor], dim, draft.without(index, 0)), node)


def _index(draft: Draft, node: Node) -> Node | None:
    tensor, indices = arguments_of(node)
    lengths, given = draft.dims.of(tensor), list[Any]()
    for dim, index in enumerate(indices):
        if index is None:
            given.append(None)
        elif index.meta["val"].dtype is torch.bool:
            return None
        elif index in draft.counts and set(draft.dims.of(index).values()) == {lengths.get(dim)}:
            given.append(draft.made[index])
        else:
            made = draft.without(index, 0)
            given.append(_from_end(draft, made, lengths[dim], index) if dim in lengths else made)
    return draft.emit(node.target, (draft.made[tensor], given), node)


def _from_end(draft: Draft, index: Node, number: int, like: Node) -> Node:
    """An index along a length, those from its end counted from its begin."""
    last = draft.emit(_aten.view.default, (draft.place(number, 1), []), like)
    length = draft.emit(_aten.add.Tensor, (last, 1), like)
    negative = draft.emit(_aten.lt.Scalar, (index, 0), like)
    moved = draft.emit(_aten.add.Tensor, (index, length), like)
    return draft.emit(_aten.where.self, (negative, moved, index), like)


def _counted(draft: Draft, node: Node) -> Node | None:
    """The numbers up to a length."""
    (last,) = arguments_of(node)[:1]
    return _up_to(draft, node, last)


def _counted_from(draft: Draft, node: Node) -> Node | None:
    """The last of these, or all."""
    first, last = arguments_of(node)[:2]
    made = _last_numbers(draft, node)
    return made or (_up_to(draft, node, last) if first == 0 else None)


def _up_to(draft: Draft, node: Node, last: object) -> Node | None:
    number = draft.dims.length(last) if isinstance(last, Node) else None
    elsewhere = node.meta["val"].device != draft.device
    if number is None or elsewhere or draft.dims.is_product(number):
        return None
    draft.counts.add(node)
    return _as(draft, node, draft.all_places(number))


def _last_numbers(draft: Draft, node: Node) -> Node | None:
    first, last = arguments_of(node)[:2]
    number = draft.dims.length(last)
    if number is None or draft.dims.length(node.meta["val"].shape[0]) is not None:
        return None
    values = draft.dims.values
    rows = values[node].shape[0]
    if values[last] - values.get(first, -1) != rows:
        return None
    return _as(draft, node, draft.place(number, rows))


def _as(draft: Draft, node: Node, places: Node) -> Node:
    return draft.emit(_aten._to_copy.default, (places,), node, dtype=node.meta["val"].dtype)


RULES: dict[object, Rule] = {
    _aten.embedding.default: _embedding,
    _aten.index_select.default: _index_select,
    _aten.gather.default: _gather,
    _aten.index.Tensor: _index,
    _aten.arange.default: _counted,
    _aten.arange.start: _counted_from,
    _aten.arange.start_step: _last_numbers,
}
