# SPDX-License-Identifier: Apache-2.0
"""Sorting, and what follows from it.

The card ranks up to some hundreds of elements (topk); it has no exchange of lanes that sorts. So
every element counts those that stand before it: that is its position, and a position's element is
the one that has counted so. Both are comparisons of all pairs of a line, which the card does many
at a time; a line of n elements costs 2 n^2 of them, so long ones are the host's.
"""

from __future__ import annotations

import math

import torch

from ..registered import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, INTEGERS, MOST_COMPARISONS, count, from_lines, least, to_lines

_aten = torch.ops.aten
Pair = tuple[torch.Tensor, torch.Tensor]


def _is_too_long(x: torch.Tensor, dim: int) -> bool:
    length = x.shape[dim] if x.dim() else 1
    known = x.dtype in (*FLOATS, *INTEGERS, torch.bool)
    return not known or x.numel() == 0 or x.numel() * length > MOST_COMPARISONS


def _positions(x: torch.Tensor, descending: bool) -> torch.Tensor:
    """[lines, n] -> the position of every element, float32; equal elements keep their order, NaN is
    the greatest."""
    n = x.shape[1]
    here, other = x.unsqueeze(1), x.unsqueeze(2)
    before = other > here if descending else other < here
    same = other == here
    if x.dtype is torch.float32:
        nan, nan_other = here.isnan(), other.isnan()
        before = before | (nan_other & ~nan if descending else nan & ~nan_other)
        same = same | (nan & nan_other)
    places = count(n, x)
    before = before | (same & (places.unsqueeze(1) < places))
    return before.to(torch.float32).sum(1)


def _sorted(x: torch.Tensor, descending: bool) -> Pair:
    """Of lines: the elements in order, and where they were."""
    n = x.shape[1]
    places = count(n, x)
    positions = _positions(x, descending).to(torch.int64)
    found = positions.unsqueeze(2) == places
    numbers = places.to(torch.float32).unsqueeze(1)
    order = torch.where(found, numbers, 0.0).sum(1).to(torch.int64)
    if x.dtype in INTEGERS:
        return x.gather(1, order), order
    nothing = torch.full((), least(x.dtype), dtype=x.dtype, device=x.device)
    if x.dtype is torch.bool:
        return (found & x.unsqueeze(2)).any(1), order
    return torch.where(found, x.unsqueeze(2), nothing).amax(1), order


@part(_aten.sort.stable, narrow=True)
def sort_stable(
    x: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Pair | NotTaken:
    if _is_too_long(x, dim):
        return NOT_TAKEN
    values, order = _sorted(to_lines(x, dim), descending)
    return from_lines(values, x.shape, dim), from_lines(order, x.shape, dim)


@part(_aten.sort.default, narrow=True)
def sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Pair | NotTaken:
    return sort_stable(x, dim=dim, descending=descending)


def _at(x: torch.Tensor, k: int, dim: int, keepdim: bool) -> Pair:
    """The element at place k of the order along a dim, and where it is."""
    values, order = _sorted(to_lines(x, dim), False)
    results = [from_lines(part.narrow(1, k, 1), x.shape, dim) for part in (values, order)]
    if not keepdim and x.dim():
        results = [result.squeeze(dim) for result in results]
    return results[0], results[1]


@part(_aten.kthvalue.default, narrow=True)
def kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair | NotTaken:
    length = x.shape[dim] if x.dim() else 1
    if _is_too_long(x, dim) or not 1 <= k <= length:
        return NOT_TAKEN
    return _at(x, k - 1, dim, keepdim)


@part(_aten.median.dim, narrow=True)
def median_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> Pair | NotTaken:
    """A NaN of float32 is the median of its line."""
    if _is_too_long(x, dim):
        return NOT_TAKEN
    lines = to_lines(x, dim)
    n = lines.shape[1]
    values, order = _sorted(lines, False)
    middle = (n - 1) // 2
    result, place = values.narrow(1, middle, 1), order.narrow(1, middle, 1)
    if x.dtype is torch.float32:
        number = torch.where(lines.isnan(), n - count(n, x).to(torch.float32), 0.0).amax(1, True)
        has_nan = number > 0
        result = torch.where(has_nan, math.nan, result)
        place = torch.where(has_nan, (n - number).to(torch.int64), place)
    pair = [from_lines(part, x.shape, dim) for part in (result, place)]
    if not keepdim and x.dim():
        pair = [part.squeeze(dim) for part in pair]
    return pair[0], pair[1]


@part(_aten.median.default, narrow=True)
def median(x: torch.Tensor) -> torch.Tensor | NotTaken:
    flat = x.reshape(-1)
    if _is_too_long(flat, 0):
        return NOT_TAKEN
    pair = median_dim(flat, 0)
    return pair[0] if isinstance(pair, tuple) else pair


@part(_aten.nanmedian.dim, narrow=True)
def nanmedian_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> Pair | NotTaken:
    """16 bits have no NaN: the median."""
    return NOT_TAKEN if x.dtype is torch.float32 else median_dim(x, dim, keepdim)


@part(_aten.nanmedian.default, narrow=True)
def nanmedian(x: torch.Tensor) -> torch.Tensor | NotTaken:
    return NOT_TAKEN if x.dtype is torch.float32 else median(x)


@part(_aten.mode.default, narrow=True)
def mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Pair | NotTaken:
    """The least of the most frequent elements, and the last place where it stands."""
    if _is_too_long(x, dim) or x.dtype in INTEGERS or x.dtype is torch.bool:
        return NOT_TAKEN
    lines = to_lines(x, dim)
    same = lines.unsqueeze(1) == lines.unsqueeze(2)
    counts = same.to(torch.float32).sum(1)
    most = counts == counts.amax(1, True)
    value = torch.where(most, lines, math.inf).amin(1, True)
    numbers = count(lines.shape[1], x).to(torch.float32)
    place = torch.where(lines == value, numbers, -1.0).amax(1, True).to(torch.int64)
    pair = [from_lines(part, x.shape, dim) for part in (value, place)]
    if not keepdim and x.dim():
        pair = [part.squeeze(dim) for part in pair]
    return pair[0], pair[1]


@part(_aten.topk.default, narrow=True)
def topk(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Pair | NotTaken:
    """What the card's ranking does not take: many ranks, the least of float32."""
    length = x.shape[dim] if x.dim() else 1
    ranked = k <= MOST_RANKED and (largest or x.dtype is not torch.float32)
    if ranked or _is_too_long(x, dim) or k > length:
        return NOT_TAKEN
    values, order = _sorted(to_lines(x, dim), largest)
    return (
        from_lines(values.narrow(1, 0, k), x.shape, dim),
        from_lines(order.narrow(1, 0, k), x.shape, dim),
    )


MOST_RANKED = 128  # of rewrite_rank.c


def _insertion(
    sequence: torch.Tensor, values: torch.Tensor, narrow: bool, right: bool
) -> torch.Tensor | NotTaken:
    """How many elements of a sorted line are before each value: [.., n] and [.., m] -> [.., m]"""
    comparisons = values.numel() * sequence.shape[-1]
    if sequence.dtype is torch.float32 or comparisons > MOST_COMPARISONS or comparisons == 0:
        return NOT_TAKEN  # NaN has a place in float32
    if sequence.dtype != values.dtype:
        return NOT_TAKEN
    one_line = sequence.dim() == 1
    bounds = sequence if one_line else sequence.unsqueeze(-2)
    wanted = values.unsqueeze(-1)
    before = bounds <= wanted if right else bounds < wanted
    counts = before.to(torch.float32).sum(-1)
    return counts.to(torch.int32 if narrow else torch.int64)


@part(_aten.searchsorted.Tensor, narrow=True)
def searchsorted(
    sequence: torch.Tensor,
    values: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor | NotTaken:
    if side not in (None, "left", "right") or right and side == "left":
        return NOT_TAKEN
    fits = sequence.dim() == 1 or sequence.shape[:-1] == values.shape[:-1]
    if not fits or sequence.dim() == 0:
        return NOT_TAKEN
    if sorter is not None and sequence.numel():
        sequence = sequence.gather(-1, sorter)
    return _insertion(sequence, values, out_int32, right or side == "right")


@part(_aten.bucketize.Tensor, narrow=True)
def bucketize(
    values: torch.Tensor, bounds: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> torch.Tensor | NotTaken:
    if bounds.dim() != 1:
        return NOT_TAKEN
    return _insertion(bounds, values, out_int32, right)
