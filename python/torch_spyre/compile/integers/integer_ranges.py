# SPDX-License-Identifier: Apache-2.0
"""Ranges of integers: of tensors, and of what arithmetic makes of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import torch

from ... import _C
from ...constants import DEVICE_NAME

Range = tuple[float, float]  # smallest and largest value; of integers these are int
# Of a tensor or a parameter of a call: least, most, whether 0 is left out (core/eager/eager.c).
Bound = tuple[torch.Tensor | int, int, int, bool]
# What integers the device has.
WHOLE = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
CARD: Range = (-(2**31), 2**31 - 1)
WIDE: Range = (-(2**63), 2**63 - 1)
UNBOUNDED: Range = (-math.inf, math.inf)  # of floating values that nothing bounds


class Nonzero(tuple[float, float]):
    """A range that goes across 0 of values that are not 0."""

    __slots__ = ()


def has_zero(found: Range) -> bool:
    return found[0] <= 0 <= found[1] and not isinstance(found, Nonzero)


def fits(found: Range) -> bool:
    """Whether the card's integers hold all values of the range."""
    return CARD[0] <= found[0] and found[1] <= CARD[1]


def range_of_tensor(tensor: torch.Tensor) -> Range:
    """Of a tensor's values, cut towards zero, but for infinities and NaN: what integer they become
    is undefined in PyTorch, and on the card an end of 32 bits."""
    if tensor.device.type == DEVICE_NAME and tensor.dtype in WHOLE:
        least, most, with_zero = _C.integer_range(tensor)
        return (least, most) if with_zero else Nonzero((least, most))
    values = tensor.cpu()
    if tensor.is_floating_point():
        values = values[values.isfinite()]
    if values.numel() == 0:
        return 0, 0
    low, high = (end.item() for end in values.aminmax())
    if not (WIDE[0] <= low and high <= WIDE[1]):
        return WIDE
    found = int(low), int(high)
    return Nonzero(found) if has_zero(found) and bool(values.all()) else found


def bound(tensor: torch.Tensor, found: Range) -> Bound:
    """As core/eager/eager.c takes it."""
    return tensor, int(found[0]), int(found[1]), not has_zero(found)


def is_within(now: Range, known: Range) -> bool:
    zero_is_known = not isinstance(known, Nonzero) or not has_zero(now)
    return known[0] <= now[0] and now[1] <= known[1] and zero_is_known


def _bits_of(found: Range) -> int:
    return max(int(abs(end)).bit_length() for end in found)


def _of_bits(found: Range, bits: int, with_zero: bool) -> Range:
    """A range of the same signs, of numbers of so many bits."""
    most = 2**bits - 1
    wider = (
        min(found[0], -most if found[0] < 0 else 0),
        max(found[1], most if found[1] > 0 else 0),
    )
    return wider if with_zero or has_zero(found) else Nonzero(wider)


def widest(found: Sequence[Range], holds: Callable[[list[Range]], bool]) -> list[Range]:
    """Ranges around those that hold, which hold as well: what grows, or is another number the next
    time, stays within them for long. Those of divisors stay without 0."""
    least = max(map(_bits_of, found), default=31)
    for with_zero, bits in itertools.product((True, False), range(31, least - 1, -1)):
        wider = [_of_bits(one, bits, with_zero) for one in found]
        if all(map(fits, wider)) and holds(wider):
            return wider
    return list(found)


# ---- arithmetic


def hull(numbers: Iterable[float]) -> Range:
    numbers = list(numbers)
    return min(numbers), max(numbers)


def total(x: Range, y: Range, factor: float = 1) -> Range:
    low, high = hull(factor * end for end in y)
    return x[0] + low, x[1] + high


def joined(ranges: Sequence[Range]) -> Range:
    """Of values that are among those of some range."""
    found = hull(end for one in ranges for end in one)
    return found if any(map(has_zero, ranges)) else Nonzero(found)


def product(x: Range, y: Range) -> Range:
    return hull(a * b for a in x for b in y)


def absolute(x: Range) -> Range:
    return hull([abs(x[0]), abs(x[1]), *([0] if x[0] <= 0 <= x[1] else [])])


def clamped(x: Range, least: Range | None, most: Range | None) -> Range:
    """The bounds' own ranges; None where there is none."""
    low, high = x
    if least:
        low, high = max(low, least[0]), max(high, least[1])
    if most:
        low, high = min(low, most[0]), min(high, most[1])
    return low, high


def power(x: Range, exponent: int) -> Range:
    if exponent < 0:
        return WIDE  # PyTorch's error
    if exponent > 64:
        return (-1, 1) if x[0] >= -1 and x[1] <= 1 else WIDE
    return hull([x[0] ** exponent, x[1] ** exponent, *([0] if x[0] <= 0 <= x[1] else [])])


def shifted(x: Range, y: Range) -> Range:
    ends = [2 ** max(0, min(int(end), 64)) for end in y]
    return hull([0, *(a * b for a in x for b in ends)])


def running_sum(x: Range, size: torch.Size, dim: int) -> Range:
    count = size[dim] if size else 1
    return hull([x[0], x[1], count * x[0], count * x[1]])


def whole(x: Range) -> Range:
    """Without infinite ends, which come from floating values."""
    return int(max(x[0], WIDE[0])), int(min(x[1], WIDE[1]))


def remainder(_x: Range, y: Range) -> Range:
    return min(0, y[0] + 1), max(0, y[1] - 1)


def signed_rest(x: Range, y: Range) -> Range:
    most = max(abs(y[0]), abs(y[1])) - 1
    return max(-most, min(x[0], 0)), min(most, max(x[1], 0))


def quotient(x: Range, y: Range) -> Range:
    near = [end for end in (-1, 1) if y[0] <= end <= y[1]]
    return hull(q for a in x for b in (*y, *near) if b for q in (a // b, -(-a // b)))


def bits(x: Range, y: Range) -> Range:
    """Of or and xor: as many bits as the longer operand has."""
    bits = max((int(end) if end >= 0 else ~int(end)).bit_length() for end in (*x, *y))
    return (0 if min(x[0], y[0]) >= 0 else -(2**bits)), 2**bits - 1


def common_bits(x: Range, y: Range) -> Range:
    """Of and: no more than an operand that has no sign."""
    most = [end for least, end in (x, y) if least >= 0]
    return (0, min(most)) if most else bits(x, y)
