# SPDX-License-Identifier: Apache-2.0
"""Matrix products and attention along a length."""

from __future__ import annotations

import torch

from ..._pytorch.fx import arguments_of, overload_of
from ..dynamic_sizes.operator_dims import PRODUCTS
from .draft import Draft, Rule, named_arguments

_aten = torch.ops.aten
Node = torch.fx.Node


def _multiplied(draft: Draft, node: Node) -> Node:
    """A product along a length."""
    op, args = node.target, arguments_of(node)
    given, kwargs = draft.given(node)
    left, right = args[-2:]
    pair = [draft.without(operand, 0, {operand.meta["val"].dim() + dim})
            for operand, dim in ((left, -1), (right, -2))]  # fmt: skip
    return draft.emit(op, (*given[:-2], *pair), node, **kwargs)


def _attention(draft: Draft, node: Node) -> Node | None:
    given = named_arguments(node)
    operands = [given[name] for name in ("query", "key", "value")]
    rows = operands[1].meta["val"].dim() - 2
    queries, keys, values = (
        {d: n for d, n in draft.dims.of(o).items() if d >= rows} for o in operands
    )
    is_causal, number = given.get("is_causal", False), keys.get(rows)
    if keys != values or {*queries, *keys} - {rows} or (is_causal and queries != keys):
        return None
    if draft.dims.is_product(number):
        return None
    made = dict(torch.fx.map_arg(given, draft.made.__getitem__))
    if number is not None:
        made["key"], made["value"] = (draft.without(o, 0, {rows}) for o in operands[1:])
        if not is_causal:  # else no row up to the length sees one behind it
            made["attn_mask"] = _masked(draft, number, made.get("attn_mask"), operands[0], node)
    operands = [made.pop(name) for name in ("query", "key", "value")]
    copy = draft.graph.call_function(overload_of(node), tuple(operands), made)
    copy.meta = {**node.meta, "val": draft.dims.at_end(node)}
    return copy


def _masked(draft: Draft, number: int, mask: Node | None, query: Node, like: Node) -> Node:
    """An attention mask that leaves out the keys behind a length."""
    valid = draft.valid(number, like)
    if mask is not None and mask.meta["val"].dtype is torch.bool:
        return draft.emit(_aten.bitwise_and.Tensor, (mask, valid), like)
    dtype = (mask if mask is not None else query).meta["val"].dtype
    nothing = draft.scalar(-torch.inf, dtype, like)
    if mask is None:
        mask = draft.scalar(0.0, dtype, like)
    return draft.emit(_aten.where.self, (valid, mask, nothing), like)


RULES: dict[object, Rule] = {
    **dict.fromkeys(PRODUCTS, _multiplied),
    _aten.scaled_dot_product_attention.default: _attention,
}
