# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans and sorts along a length: what is behind it becomes a number that changes no
result."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from ..._pytorch.fx import arguments_of
from ..dynamic_sizes.operator_dims import IN_ANY_ORDER, MEANS, NEUTRAL, SORTS
from .draft import Draft, Rule, named_arguments

_aten = torch.ops.aten
Node = torch.fx.Node
_SUMMED = {torch.float16, torch.bfloat16, torch.float32}


def _met(draft: Draft, node: Node) -> Node:
    """A softmax or sum along a length."""
    op, args = node.target, arguments_of(node)
    rank = args[0].meta["val"].dim()
    dims = args[1] if len(args) > 1 and args[1] not in (None, []) else range(rank)
    met = {dim % rank for dim in ([dims] if isinstance(dims, int) else dims)}
    given, kwargs = draft.given(node)
    operand = draft.without(args[0], NEUTRAL[op], met)
    return draft.emit(op, (operand, *given[1:]), node, **kwargs)


def _mean(draft: Draft, node: Node) -> Node | None:
    """A mean, or a variance, along a length: what the compiler makes of one, with numbers that
    follow from the length."""
    op = node.target
    given = named_arguments(node)
    operand = given["self"]
    of = operand.meta["val"]
    dims = {dim % of.dim() for dim in given.get("dim") or range(of.dim())}
    if of.dtype not in _SUMMED or not dims & set(draft.dims.of(operand)):
        return None
    keeps = bool(given.get("keepdim"))
    if op in (_aten.mean.default, _aten.mean.dim):
        made = _mean_of(draft, operand, draft.made[operand], dims, keeps)
    else:
        less = given.get("correction")
        made = _variance(draft, operand, dims, keeps, 1 if less is None else less, True)
    if op is _aten.std.correction:
        made = draft.emit(_aten.sqrt.default, (made,), node)
    return draft.emit(_aten._to_copy.default, (made,), node, dtype=node.meta["val"].dtype)


def _wide(draft: Draft, made: Node, operand: Node) -> Node:
    return draft.emit(_aten._to_copy.default, (made,), operand, dtype=torch.float32)


def _mean_of(
    draft: Draft, operand: Node, instead: Node, dims: Collection[int], keeps: bool
) -> Node:
    """Of what has an operand's sizes, in the dtype of that."""
    dtype = instead.meta["val"].dtype
    values = draft.without(operand, 0, dims, instead)
    values = _wide(draft, values, operand)
    made = draft.emit(_aten.sum.dim_IntList, (values, sorted(dims), keeps), operand)
    made = draft.times(made, 1 / draft.dims.count(operand, dims), operand)
    return draft.emit(_aten._to_copy.default, (made,), operand, dtype=dtype)


def _variance(
    draft: Draft, operand: Node, dims: Collection[int], keeps: bool, less: float, wide: bool
) -> Node:
    """In float32; by distances from the mean, and the mean of these. Squares are `wide`, of float32
    as well, where no eps is added to them."""
    mean = _mean_of(draft, operand, draft.made[operand], dims, True)
    apart = draft.emit(_aten.sub.Tensor, (draft.made[operand], mean), operand)
    factor = _wide(draft, apart, operand) if wide else apart
    squares = draft.emit(_aten.mul.Tensor, (factor, factor), operand)
    rest = _wide(draft, _mean_of(draft, operand, apart, dims, keeps), operand)
    rest = draft.emit(_aten.mul.Tensor, (rest, rest), operand)
    made = _wide(draft, _mean_of(draft, operand, squares, dims, keeps), operand)
    made = draft.emit(_aten.sub.Tensor, (made, rest), operand)
    made = draft.emit(_aten.clamp_min.default, (made, 0), operand)
    count = draft.dims.count(operand, dims)
    return draft.times(made, count / (count - less), operand) if less else made


def _normed(draft: Draft, node: Node) -> Any:
    """A layer norm along a length: its result, or all three."""
    given = named_arguments(node)
    operand = given["input"]
    dim, eps = operand.meta["val"].dim() - 1, given.get("eps", 1e-5)
    if len(given["normalized_shape"]) != 1 or dim not in draft.dims.of(operand):
        return None
    if operand.meta["val"].dtype not in _SUMMED:
        return None
    mean = _mean_of(draft, operand, draft.made[operand], {dim}, True)
    apart = draft.emit(_aten.sub.Tensor, (draft.made[operand], mean), operand)
    part = draft.number(1 / draft.dims.count(operand, {dim}), False, operand)
    vectors = (given.get("weight"), given.get("bias"))
    weight, bias = (vector and draft.made[vector] for vector in vectors)
    normed = draft.emit(
        torch.ops.spyre.counted_layer_norm.default,
        (draft.without(operand, 0, {dim}, apart), part, weight, bias, eps), operand,
    )  # fmt: skip
    if node.target is _aten.layer_norm.default:
        return normed
    parts = (mean, _mean_of(draft, operand, apart, {dim}, True))
    wide, rest = (_wide(draft, each, operand) for each in parts)
    variance = _variance(draft, operand, {dim}, True, 0, False)
    shifted = draft.emit(_aten.add.Tensor, (variance, eps), operand)
    scale = draft.emit(_aten.rsqrt.default, (shifted,), operand)
    return [normed, draft.emit(_aten.add.Tensor, (wide, rest), operand), scale]


def _ordered(draft: Draft, node: Node) -> Node | None:
    """A sort or the first of one along a length: what is behind sorts last."""
    op = node.target
    given = named_arguments(node)
    falls = given.get("largest", True) if op is _aten.topk.default else given.get("descending")
    of = given["self"].meta["val"]
    dim = given.get("dim", -1) % of.dim()
    number = draft.dims.of(given["self"]).get(dim)
    if draft.dims.is_product(number):
        return None
    if number is None:
        return draft.emit(op, draft.given(node)[0], node, **node.kwargs)
    last = -torch.inf if falls else torch.nan if of.dtype.is_floating_point else torch.inf
    operand = draft.without(given["self"], last, {dim})
    _first, *rest = draft.given(node)[0]
    return draft.emit(op, (operand, *rest), node, **node.kwargs)


_NORMS = (_aten.layer_norm.default, _aten.native_layer_norm.default)
RULES: dict[object, Rule] = {
    **dict.fromkeys(NEUTRAL, _met),
    **dict.fromkeys(MEANS, _mean),
    **dict.fromkeys(SORTS, _ordered),
    **dict.fromkeys(_NORMS, _normed),
}
RULES_OF_JOINED: dict[object, Rule] = {
    **dict.fromkeys(IN_ANY_ORDER, _met),
    **dict.fromkeys(MEANS, _mean),
    **dict.fromkeys(SORTS, _ordered),
    **dict.fromkeys(_NORMS, _normed),
}
