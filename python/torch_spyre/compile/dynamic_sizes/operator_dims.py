# SPDX-License-Identifier: Apache-2.0
"""What operators do along the dims of their operands: tables by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import torch

from ..._pytorch.dispatch import OpOverload, schema_of

_aten = torch.ops.aten

# (arguments, sizes of operand 0) -> dims of operand 0
DimsOf = Callable[[Sequence[Any], Sequence[int]], Sequence[int]]


def _last(count: int) -> DimsOf:
    return lambda _args, shape: range(len(shape) - count, len(shape))


def _listed(at: int) -> DimsOf:
    def dims(args: Sequence[Any], shape: Sequence[int]) -> Sequence[int]:
        given: int | Sequence[int] | None = args[at] if len(args) > at else None
        if given is None or given == []:
            return range(len(shape))
        return [given] if isinstance(given, int) else given

    return dims


def padded(pads: Sequence[Any], rank: int) -> dict[int, tuple[Any, Any]]:
    """Of a padding, what it adds before and behind each dim that it changes."""
    pairs = zip(pads[::2], pads[1::2], strict=True)
    return {rank - 1 - n: pair for n, pair in enumerate(pairs) if pair != (0, 0)}


# ---- views

# With every element of a dim where it was.
VIEWS = {
    _aten.expand.default, _aten.unsqueeze.default, _aten.squeeze.dim, _aten.squeeze.dims,
    _aten.permute.default, _aten.transpose.int, _aten.t.default,
}  # fmt: skip
SHAPES = {_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default}

# ---- by elements

COPIES = {
    _aten.clone.default, _aten._to_copy.default, _aten.alias.default, _aten.detach.default,
    torch.ops.prims.convert_element_type.default,
}  # fmt: skip
MADE_LIKE = {_aten.fill.Scalar, _aten.full_like.default, _aten.zeros_like.default,
             _aten.ones_like.default, _aten.empty_like.default}  # fmt: skip
# Made of sizes, by the place of these among the arguments.
MADE = {
    _aten.arange.default: 0, _aten.full.default: 0, _aten.zeros.default: 0, _aten.ones.default: 0,
    _aten.empty.memory_format: 0, _aten.new_ones.default: 1, _aten.new_zeros.default: 1,
    _aten.new_full.default: 1,
}  # fmt: skip
TAKES_SIZES = {*VIEWS, *SHAPES, *MADE, _aten.slice.Tensor, _aten.arange.start,
               _aten.arange.start_step}  # fmt: skip
# Of integers, they raise for some numbers.
RAISES = {"floor_divide", "remainder", "fmod", "div", "bitwise_left_shift", "bitwise_right_shift",
          "pow"}  # fmt: skip
# Of two tensors, the other one may be a size.
TAKES_NUMBER = {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"}


def is_pointwise(op: object) -> TypeGuard[OpOverload[..., Any]]:
    return isinstance(op, OpOverload) and torch.Tag.pointwise in op.tags


def is_pure_pointwise(op: object) -> bool:
    return is_pointwise(op) and not schema_of(op).is_mutable


# ---- along dims

JOINS = {_aten.cat.default, _aten.stack.default}
PRODUCTS = {_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default}
SORTS = {_aten.sort.default, _aten.sort.stable, _aten.topk.default}
BY_PLACE = {_aten.tril.default, _aten.triu.default}  # counted from the first elements on
# Divided by how many elements there are.
MEANS = {_aten.mean.default, _aten.mean.dim, _aten.var.correction, _aten.std.correction}

# The number that changes no result of a reduction or a scan.
NEUTRAL: dict[object, float] = {
    **dict.fromkeys((
        _aten._softmax.default, _aten.softmax.int, _aten._log_softmax.default,
        _aten.amax.default, _aten.max.default, _aten.max.dim, _aten.argmax.default,
        _aten.logsumexp.default,
    ), -torch.inf),
    **dict.fromkeys((
        _aten.amin.default, _aten.min.default, _aten.min.dim, _aten.argmin.default,
    ), torch.inf),
    **dict.fromkeys((
        _aten.sum.dim_IntList, _aten.sum.default, _aten.cumsum.default, _aten.any.default,
        _aten.any.dim, _aten.any.dims,
    ), 0.0),
    **dict.fromkeys((
        _aten.all.default, _aten.all.dim, _aten.all.dims, _aten.prod.dim_int, _aten.prod.default,
        _aten.cumprod.default,
    ), 1.0),
}  # fmt: skip
# Of these those that ask for no element's place.
IN_ANY_ORDER = {_aten._softmax.default, _aten.softmax.int, _aten.sum.dim_IntList,
                _aten.sum.default, _aten.amax.default, _aten.amin.default, _aten.max.default,
                _aten.min.default}  # fmt: skip

# The dims of operand 0 along which elements meet or change places.
MEETS: dict[object, DimsOf] = {
    _aten.sum.dim_IntList: _listed(1),
    _aten.mean.dim: _listed(1),
    _aten.amax.default: _listed(1),
    _aten.amin.default: _listed(1),
    _aten.var.correction: _listed(1),
    _aten.std.correction: _listed(1),
    _aten.any.dim: _listed(1),
    _aten.all.dim: _listed(1),
    _aten._softmax.default: _listed(1),
    _aten._log_softmax.default: _listed(1),
    _aten.constant_pad_nd.default: lambda args, shape: list(padded(args[1], len(shape))),
    _aten.slice.Tensor: lambda args, _shape: [args[1] if len(args) > 1 else 0],
    _aten.select.int: _listed(1),
    _aten.split.Tensor: lambda args, _shape: [args[2] if len(args) > 2 else 0],
    _aten.split_with_sizes.default: lambda args, _shape: [args[2] if len(args) > 2 else 0],
    _aten.mm.default: _last(1),
    _aten.bmm.default: _last(1),
    _aten.linear.default: _last(1),
    _aten.layer_norm.default: lambda args, shape: _last(len(args[1]))(args, shape),
    _aten.native_layer_norm.default: lambda args, shape: _last(len(args[1]))(args, shape),
    _aten.rms_norm.default: lambda args, shape: _last(len(args[1]))(args, shape),
    **{op: lambda _args, _shape: [] for op in (
        *(VIEWS - {_aten.expand.default}), *COPIES, _aten.squeeze.default,
        _aten.zeros_like.default, _aten.ones_like.default, _aten.full_like.default,
    )},
}  # fmt: skip
