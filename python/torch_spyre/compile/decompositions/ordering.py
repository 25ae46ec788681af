# SPDX-License-Identifier: Apache-2.0
"""What follows from sorting, which the card does by rankings (topk, sort)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import MOST_COMPARISONS, MOST_COUNTED, count, from_lines, positions, to_lines

_aten = torch.ops.aten
Pair = tuple[torch.Tensor, torch.Tensor]


def _along(parts: Pair, x: torch.Tensor, dim: int, keepdim: bool) -> Pair:
    """Results [lines, 1] in the sizes of x but for a dim, which goes unless it is to be kept."""
    results = [from_lines(part.contiguous(), x.shape, dim) for part in parts]
    if not keepdim and x.dim():
        results = [result.squeeze(dim) for result in results]
    return results[0], results[1]


def _taken(lines: torch.Tensor, at: int) -> torch.Tensor:
    """The elements at a number that is below the length. Of one that follows from a symbolic length
    PyTorch cannot show that it is, so that a part of the lines would bound the length."""
    if isinstance(at, int):
        return lines.narrow(1, at, 1)
    rest = -math.inf if lines.is_floating_point() else 0
    return torch.where(count(lines.shape[1], lines) == at, lines, rest).amax(1, True)


@part(_aten.kthvalue.default, narrow=True)
def kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair | NotTaken:
    length = x.shape[dim] if x.dim() else 1
    if x.numel() == 0 or not 1 <= k <= length:
        return NOT_TAKEN
    values, order = to_lines(x, dim).topk(k, largest=False)
    return _along((values.narrow(1, k - 1, 1), order.narrow(1, k - 1, 1)), x, dim, keepdim)


@part(_aten.median.dim, narrow=True)
def median_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> Pair | NotTaken:
    """A NaN of float32 is the median of its line."""
    if x.numel() == 0:
        return NOT_TAKEN
    lines = to_lines(x, dim)
    n = lines.shape[1]
    middle = (n - 1) // 2
    values, order = lines.topk(middle + 1 if isinstance(n, int) else n, largest=False)
    result, place = _taken(values, middle), _taken(order, middle)
    if x.dtype is torch.float32:
        number = torch.where(lines.isnan(), n - count(n, x).to(torch.float32), 0.0).amax(1, True)
        has_nan = number > 0
        result = torch.where(has_nan, math.nan, result)
        place = torch.where(has_nan, positions(n - number), place)
    return _along((result, place), x, dim, keepdim)


@part(_aten.nanmedian.dim, narrow=True)
def nanmedian_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> Pair | NotTaken:
    """16 bits have no NaN: the median. In float32 they stand last, and are not counted."""
    if x.dtype is not torch.float32:
        return median_dim(x, dim, keepdim)
    if x.numel() == 0:
        return NOT_TAKEN
    lines = to_lines(x, dim)
    numbers = torch.where(lines.isnan(), 0.0, 1.0).sum(1, True)
    middle = positions(((numbers - 1) * 0.5).floor().clamp(min=0.0))
    n = lines.shape[1]
    values, order = lines.topk((n + 1) // 2 if isinstance(n, int) else n, largest=False)
    result = torch.where(numbers == 0, math.nan, values.gather(1, middle))
    return _along((result, order.gather(1, middle)), x, dim, keepdim)


def _of_all(along: Callable[..., Pair | NotTaken]) -> Callable[[torch.Tensor], Any]:
    """The median of all elements by that along a dim."""

    def whole(x: torch.Tensor) -> torch.Tensor | NotTaken:
        pair = along(x.reshape(-1), 0)
        return pair[0] if isinstance(pair, tuple) else pair

    return whole


part(_aten.median.default, narrow=True)(_of_all(median_dim))
part(_aten.nanmedian.default, narrow=True)(_of_all(nanmedian_dim))


@part(_aten.mode.default, narrow=True)
def mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Pair | NotTaken:
    """The least of the most frequent elements, and the last place where it stands: in order, equal
    elements lie together, and an element's count so far is how far the first of them is behind.
    NaN, unlike itself, is there once each, and comes last; PyTorch leaves its place open."""
    length = x.shape[dim] if x.dim() else 1
    if x.numel() == 0 or length > MOST_COUNTED:
        return NOT_TAKEN
    lines = to_lines(x, dim)
    values, order = lines.sort(stable=True)
    numbers = count(length, x).to(torch.float32)
    before = values.roll(1, 1)
    begins = torch.where((values == before) & (numbers > 0), 0.0, numbers)
    place = (numbers - begins.cummax(1).values).argmax(1, keepdim=True)
    return _along((values.gather(1, place), order.gather(1, place)), x, dim, keepdim)


def _insertion(
    sequence: torch.Tensor, values: torch.Tensor, narrow: bool, right: bool
) -> torch.Tensor | NotTaken:
    """How many elements of a sorted line are before each value: [.., n] and [.., m] -> [.., m].
    All are before a NaN, and a NaN of the line is before none."""
    comparisons = values.numel() * sequence.shape[-1]
    if comparisons > MOST_COMPARISONS or sequence.dtype != values.dtype:
        return NOT_TAKEN
    if comparisons == 0:
        kind = torch.int32 if narrow else torch.int64
        return torch.zeros(values.shape, dtype=kind, device=values.device)
    one_line = sequence.dim() == 1
    bounds = sequence if one_line else sequence.unsqueeze(-2)
    wanted = values.unsqueeze(-1)
    before = bounds <= wanted if right else bounds < wanted
    if sequence.dtype is torch.float32:
        before = before | wanted.isnan()
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
