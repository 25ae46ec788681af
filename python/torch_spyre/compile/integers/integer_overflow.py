# SPDX-License-Identifier: Apache-2.0
"""Whether int64 arithmetic stays within the 32 bits in which the card computes integers, and
whether integers are divided by 0.

PyTorch promises 64 bits. The smallest and largest value of each operand give an interval for the
result; where that leaves 32 bits, the host computes. Operands are read for it, which costs little
beside the exactness: integers of 64 bits are positions, lengths and indices. A quotient of integers
has no value where a divisor is 0: the host then raises PyTorch's error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._pytorch.dispatch import Arguments, OpOverload, schema_of
from .integer_ranges import (
    CARD,
    WHOLE,
    WIDE,
    Range,
    absolute,
    bits,
    common_bits,
    fits,
    has_zero,
    hull,
    power,
    product,
    quotient,
    range_of_tensor,
    remainder,
    running_sum,
    shifted,
    signed_rest,
    total,
    whole,
    widest,
)

_aten = torch.ops.aten

_CASTS = {_aten._to_copy, torch.ops.prims.convert_element_type}
LEAVES = "its int64 values leave 32 bits"
ZERO = "a divisor may be 0"


# ---- results of operators: (values of the arguments, ranges of its tensors and numbers) -> range


def _summed(values: Arguments, x: Range) -> Range:
    """Of the elements of each sum."""
    size, dims = values[0].shape, values[1]
    dims = [dims] if isinstance(dims, int) else dims
    count = values[0].numel()
    if size and isinstance(dims, (list, tuple)) and dims:
        count = math.prod(size[dim] for dim in dims)
    return product(x, (count, count))


def _products(values: Arguments, x: Range) -> Range:
    """Of as many factors as prod and cumprod multiply, and of fewer."""
    size, dim = values[0].shape, values[1]
    count = size[dim] if size and isinstance(dim, int) else values[0].numel()
    most = max(abs(x[0]), abs(x[1]), 1)
    if count > 64 and most > 1:
        return WIDE
    return (0 if x[0] >= 0 else -(most**count)), most**count


def _comers(name: str, values: Arguments) -> int:
    """How many elements of the source may join one place."""
    index = values[1] if name in _PUTS else values[2]
    if isinstance(index, torch.Tensor):
        along = name.startswith("scatter") and index.dim() > 0
        return int(index.shape[values[1]] if along else index.numel())
    return math.prod(torch.broadcast_shapes(*(i.shape for i in index if i is not None)))


def _is_product(name: str, values: Arguments) -> bool:
    return name in _REDUCED and values[4] == "prod"


def _joined_to(name: str, values: Arguments, x: Range, source: Range) -> Range:
    """Of what the elements of a source join, by sum or product."""
    count = _comers(name, values)
    if _is_product(name, values):
        most = max(abs(source[0]), abs(source[1]), 1)
        all_of_source = WIDE if count > 64 and most > 1 else (-(most**count), most**count)
        return hull([*x, *product(x, all_of_source), *all_of_source])
    factor = values[4] if name == "index_add" else 1
    ends = [count * factor * end for end in source]
    return x[0] + min(0, *ends), x[1] + max(0, *ends)


# By what has no 0.
DIVISIONS: dict[str, Callable[[Range, Range], Range]] = {
    "remainder": remainder, "fmod": signed_rest, "floor_divide": quotient, "div": quotient,
}  # fmt: skip
BITWISE: dict[str, Callable[[Range, Range], Range]] = {
    "bitwise_and": common_bits, "bitwise_or": bits, "bitwise_xor": bits,
}  # fmt: skip
_PRODUCTS = ("prod", "cumprod")
_PUTS = ("index_put", "_unsafe_index_put", "_index_put_impl", "put")
_REDUCED = ("scatter_reduce", "index_reduce")
_JOINING = ("scatter_add", "index_add", *_REDUCED, *_PUTS)
_SUMS = ("sum", "nansum")
_LEFT_SHIFTS = ("__lshift__", "bitwise_left_shift")
RIGHT_SHIFTS = ("__rshift__", "bitwise_right_shift")
_RULES: dict[str, Callable[..., Range]] = {
    **{
        name: lambda values, x, y, of=of: WIDE if has_zero(y) else of(whole(x), whole(y))
        for name, of in DIVISIONS.items()
    },
    **dict.fromkeys(_LEFT_SHIFTS, lambda values, x, y: shifted(x, y)),
    **dict.fromkeys(_PRODUCTS, _products),
    **{
        name: lambda values, x, source, name=name: _joined_to(name, values, x, source)
        for name in _JOINING
    },
    "add": lambda values, x, y: total(x, y, values[2]),
    "sub": lambda values, x, y: total(x, y, -values[2]),
    "rsub": lambda values, x, y: total(y, x, -values[2]),
    "mul": lambda values, x, y: product(x, y),
    "neg": lambda values, x: (-x[1], -x[0]),
    "abs": lambda values, x: absolute(x),
    "square": lambda values, x: power(x, 2),
    "pow": lambda values, x, _exponent: power(x, values[1]),
    "cumsum": lambda values, x: running_sum(x, values[0].shape, values[1]),
    **dict.fromkeys(_SUMS, _summed),
    "_to_copy": lambda values, x: x,
}
# Of these, what a floating result has a range by, and how far rounding may move its ends.
FLOATING = {"add", "sub", "rsub", "mul", "neg", "abs", "_to_copy"}
ROUNDING = 2.0**-7
# dtypes with values beyond 32 bits: of float16 the infinities
_BEYOND_INT32 = {torch.float32, torch.bfloat16, torch.float16}
_PAIRS = {"add", "sub", "rsub", "mul", "pow", *_LEFT_SHIFTS, *DIVISIONS}  # the others have one


def _operands(name: str, values: Sequence[Any]) -> Sequence[Any]:
    if name in _JOINING:
        return values[0], values[2 if name in _PUTS else 3]
    return values[: 2 if name in _PAIRS else 1]


def rule_of(op: OpOverload) -> str | None:
    name = schema_of(op).name.removeprefix("aten::")
    exponent_is_tensor = name == "pow" and op is not _aten.pow.Tensor_Scalar
    return name if name in _RULES and not exponent_is_tensor else None


def _number_types(values: Arguments) -> set[torch.dtype]:
    return {value.dtype for value in values if isinstance(value, torch.Tensor)}


def is_at_risk(op: OpOverload, values: Arguments) -> bool:
    """Whether the operator, its arguments in the order of the schema, has an int64 result that may
    need more bits than its operands."""
    name = rule_of(op)
    if name is None:
        return False
    if name == "_to_copy":
        return values[1] is torch.int64 and bool(_number_types(values[:1]) & _BEYOND_INT32)
    operands = _operands(name, values)
    dtypes = _number_types(operands)
    if name in _SUMS:
        return bool(dtypes & {torch.int64, torch.int32})
    whole = not any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)
    if name in _PRODUCTS:
        return whole and dtypes != {torch.bool} and values[-1] in (None, torch.int64)
    if name == "cumsum":
        return whole
    if name in _PUTS and not values[3] or name in _REDUCED and values[4] in ("amax", "amin"):
        return False
    whole = whole and all(isinstance(value, (torch.Tensor, int)) for value in operands)
    if name in DIVISIONS:
        by_tensor = isinstance(values[1], torch.Tensor)
        at_all = by_tensor or values[1] == -1 and torch.int64 in dtypes
        return whole and at_all and (name != "div" or values[2:3] not in ([], [None]))
    return whole and torch.int64 in dtypes


def may_saturate(op: OpOverload, result: torch.Tensor, operands: Arguments) -> bool:
    """Whether the operator makes int64 of floating numbers inside a graph, where their range is not
    known before. The card cuts them to 32 bits, PyTorch to 64."""
    return (
        op.overloadpacket in _CASTS
        and result.dtype is torch.int64
        and any(isinstance(x, torch.Tensor) and x.dtype.is_floating_point for x in operands)
    )


def is_saturated(tensor: torch.Tensor, source: torch.Tensor | None) -> bool:
    """Whether an int64 tensor that the card made of the floating `source` has an end of 32 bits
    in the place of a number beyond."""
    least, most = range_of_tensor(tensor)
    if CARD[0] < least and most < CARD[1]:
        return False
    return source is None or not fits(range_of_tensor(source))


# Operators of which numbers may vary as those of tensors do.
_SPREADING = {"add", "sub", "rsub", "mul"}


def bounds_of(op: OpOverload, values: Arguments) -> list[Range] | None:
    """Ranges of the first two operands of an operator at risk that has results with these: with all
    other numbers within them it has results, too. None where values themselves tell."""
    name = rule_of(op)
    if (
        name is None
        or name in (*_PRODUCTS, *_JOINING)
        or not all(_is_whole(v) for v in _operands(name, values))
    ):
        return None
    ranges = [_range_of_value(value) for value in values]
    count = len(_operands(name, values))
    spread = [i for i in range(count)
              if isinstance(values[i], torch.Tensor) or name in _SPREADING]  # fmt: skip

    def holds(wider: list[Range]) -> bool:
        given = list(ranges)
        for place, one in zip(spread, wider, strict=True):
            given[place] = one
        is_divided = name in DIVISIONS and has_zero(given[1])
        return not is_divided and fits(result_of(op, values, given))

    for place, one in zip(spread, widest([ranges[i] for i in spread], holds), strict=True):
        ranges[place] = one
    return ranges[:count]


def _is_whole(value: object) -> bool:
    return type(value) is int or isinstance(value, torch.Tensor) and value.dtype in WHOLE


def why_not(op: OpOverload, values: Arguments) -> str | None:
    """Why the card has no result of an operator at risk with these tensors."""
    name = rule_of(op)
    if name in _PRODUCTS:
        made = op(values[0].cpu().double(), *values[1:-1]).abs().max().item()
        leaves = not made <= CARD[1]
    else:
        read = [_joined(name, values), *values[1:]] if name in _JOINING else values
        ranges = [_range_of_value(value) for value in read]
        if name in DIVISIONS and has_zero(ranges[1]):
            return ZERO
        leaves = not fits(result_of(op, values, ranges))
    return "its int64 result may leave the card's 32-bit integers" if leaves else None


def _joined(name: str, values: Arguments) -> torch.Tensor:
    """Of the first operand what something comes to, where that is less: the rest stays."""
    x: torch.Tensor = values[0]
    at = values[1] if name in _PUTS else values[2]
    given = at if isinstance(at, (list, tuple)) else [at]
    if any(index is None or index.device != x.device for index in given):
        return x
    if isinstance(at, (list, tuple)):
        few = _comers(name, values) * math.prod(x.shape[len(at) :])
        is_mask = any(index.dtype is torch.bool for index in at)
        return x if is_mask or few >= x.numel() // 2 else x[tuple(at)]
    if x.dim() == 0 or at.dim() == 0:
        return x
    if name == "put":
        return x.take(at) if at.numel() < x.numel() // 2 else x
    of_rows = name.startswith("index")
    few = at.numel() * (x.numel() // max(x.shape[values[1]], 1) if of_rows else 1)
    if few >= x.numel() // 2:
        return x
    return x.index_select(values[1], at) if of_rows else x.gather(values[1], at)


def _range_of_value(value: object) -> Range:
    if isinstance(value, torch.Tensor):
        return range_of_tensor(value)
    return (value, value) if isinstance(value, int) else WIDE


def result_of(op: OpOverload, values: Arguments, ranges: Sequence[Range]) -> Range:
    name = rule_of(op)
    assert name is not None
    return _RULES[name](values, *_operands(name, ranges))
