# SPDX-License-Identifier: Apache-2.0
"""grid_sample of two and three dims, and its gradients; resampling.py has the commonest form.

The image is a table of places with their channels as rows. A point of the grid reads the rows of
its taps, one, two or four along each dim; its result is their sum by the products of the taps'
weights. Gradients of the image are such rows, added at the taps' places; those of the grid come
from the weights' derivatives. Coordinates are float32, of which the card compares none: what is
whole is compared as integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, count, packed, positions

_aten = torch.ops.aten
LINEAR, NEAREST, CUBIC = range(3)  # PyTorch's numbers
ZEROS, BORDER, REFLECTION = range(3)
MOST_ROWS = 1 << 18  # taps of all points
_FARTHEST = 2.0**20  # no image reaches so far: infinities stay numbers


class _Tap(NamedTuple):
    """Of one dim and all points [N, points]: a place of the image, the weight (None: 1) and its
    derivative by the grid's coordinate (None: 0)."""

    place: torch.Tensor
    weight: torch.Tensor | None
    slope: torch.Tensor | None


def _whole(x: torch.Tensor) -> torch.Tensor:
    return positions(x)


def _odd(whole: torch.Tensor) -> torch.Tensor:
    """1.0 for odd whole numbers, 0.0 for even ones."""
    return whole - 2 * torch.floor(whole * 0.5)


def _nearest(x: torch.Tensor) -> torch.Tensor:
    """To the nearest whole number, ties to even."""
    below = torch.floor(x)
    twice = (x - below) * 2
    half = torch.floor(twice)  # 1 from a half on
    is_tie = half * (half + 1 + torch.floor(-twice))
    return below + half - is_tie * (1 - _odd(below))


def _reflected(x: torch.Tensor, size: int, align: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """x mirrored at the image's ends until it is inside, and by which sign it moves there."""
    low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
    if span == 0.0:
        return x * 0.0, x * 0.0
    away = (x - low).abs()
    rest = away - torch.floor(away / (2 * span)) * (2 * span)
    before = torch.where(_whole(torch.floor(x - low)) < 0, -1.0, 1.0)
    sign = before * (1 - 2 * _odd(torch.floor(away / span)))
    return span - (rest - span).abs() + low, sign


def _padded(
    x: torch.Tensor, size: int, padding: int, align: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The coordinate that is read for x and its derivative by x, None for 1."""
    if padding == ZEROS:
        return x, None
    slope = None
    if padding == REFLECTION:
        x, slope = _reflected(x, size, align)
    last = float(size - 1)
    inside = (_whole(-torch.floor(-x)) >= 1) & (_whole(torch.floor(x)) <= size - 2)
    moves = torch.where(inside, 1.0 if slope is None else slope, 0.0)
    return x.clamp(0.0, last), moves


def _cubic(t: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Weights of Keys' kernel (a = -0.75) at the taps -1, 0, 1, 2 of a point t behind tap 0, and
    their derivatives."""
    a = -0.75

    def outer(d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, (3 * a * d - 10 * a) * d + 8 * a

    def inner(d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return ((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d

    behind = [outer(2 - t), inner(1 - t)]
    return [outer(t + 1), inner(t), *((w, -slope) for w, slope in reversed(behind))]


def _taps(grid: torch.Tensor, size: int, how: int, padding: int, align: bool) -> list[_Tap]:
    """Of one dim of `size` places and its coordinates [N, points] in [-1, 1]."""
    scale = (size - 1) / 2 if align else size / 2
    x = grid.to(torch.float32) * scale + (size - 1) / 2
    x = x.clamp(-_FARTHEST, _FARTHEST)

    def tap(at: torch.Tensor, weight: torch.Tensor | None, slope: torch.Tensor | None) -> _Tap:
        wanted = _whole(at)
        place = wanted.clamp(0, size - 1)
        if padding == ZEROS:
            inside = place == wanted
            weight = torch.where(inside, 1.0 if weight is None else weight, 0.0)
            slope = None if slope is None else torch.where(inside, slope, 0.0)
        return _Tap(place, weight, slope)

    if how == CUBIC:
        first = torch.floor(x)
        taps = []
        for step, (weight, slope) in zip((-1, 0, 1, 2), _cubic(x - first), strict=True):
            at, _moves = _padded(first + step, size, padding, align)
            taps.append(tap(torch.floor(at + 0.5), weight, slope * scale))
        return taps
    x, moves = _padded(x, size, padding, align)
    if how == NEAREST:
        return [tap(_nearest(x), None, None)]
    first = torch.floor(x)
    t = x - first
    slope = torch.full_like(t, scale) if moves is None else moves * scale
    return [tap(first, 1 - t, -slope), tap(first + 1, t, slope)]


def _corners(
    shape: Sequence[int], grid: torch.Tensor, how: int, padding: int, align: bool
) -> Iterator[tuple[torch.Tensor, tuple[_Tap, ...]]]:
    """The row of the table and a tap a dim, for each combination of taps. `shape` is the image's;
    the last dim of the grid begins with the last dim of the image."""
    batch, _channels, *sizes = shape
    rank = len(sizes)
    by_dim = [
        _taps(grid[..., rank - 1 - d].reshape(batch, -1), n, how, padding, align)
        for d, n in enumerate(sizes)
    ]
    first = count(batch, grid).unsqueeze(1) if batch > 1 else None
    for taps in itertools.product(*by_dim):
        row = first
        for n, tap in zip(sizes, taps, strict=True):
            row = tap.place if row is None else row * n + tap.place
        assert row is not None
        yield row.reshape(-1), taps


def _joined(taps: Sequence[_Tap], derived: int | None = None) -> torch.Tensor | None:
    """The product of the taps' weights as a column, one of them derived; None for 1."""
    product: torch.Tensor | None = None
    for d, tap in enumerate(taps):
        factor = tap.slope if d == derived else tap.weight
        if factor is not None:
            product = factor if product is None else product * factor
    return None if product is None else product.to(torch.float32).reshape(-1, 1)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """[N, C, ..] -> [N * places, C]"""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def _is_taken(x: torch.Tensor, grid: torch.Tensor, how: int) -> bool:
    if x.dtype not in FLOATS or grid.dtype != x.dtype or x.numel() == 0 or grid.numel() == 0:
        return False
    rank = grid.shape[-1]
    taps = (1 if how == NEAREST else 4 if how == CUBIC else 2) ** rank
    return taps * (grid.numel() // rank) <= MOST_ROWS and how != CUBIC or rank == 2


@part(_aten.grid_sampler_3d.default, narrow=True)
def grid_sampler(
    x: torch.Tensor, grid: torch.Tensor, how: int, padding: int, align: bool
) -> torch.Tensor | NotTaken:
    if not _is_taken(x, grid, how):
        return NOT_TAKEN
    table = _rows(x)
    total: torch.Tensor | None = None
    for row, taps in _corners(x.shape, grid, how, padding, align):
        value, weight = _aten.embedding(table, row), _joined(taps)
        if weight is not None:
            value = value.to(torch.float32) * weight
        total = value if total is None else total + value
    assert total is not None
    sizes = [x.shape[0], *grid.shape[1:-1], x.shape[1]]
    return packed(total.to(x.dtype).reshape(sizes).movedim(-1, 1))


@part(_aten.grid_sampler_2d_backward.default, _aten.grid_sampler_3d_backward.default, narrow=True)
def grid_sampler_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    grid: torch.Tensor,
    how: int,
    padding: int,
    align: bool,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None] | NotTaken:
    if not _is_taken(x, grid, how) or grad.dtype != x.dtype:
        return NOT_TAKEN
    rank, table, given = grid.shape[-1], _rows(x), _rows(grad).to(torch.float32)
    places, rows = list[torch.Tensor](), list[torch.Tensor]()
    slopes: list[torch.Tensor | None] = [None] * rank  # by dim of the image
    for row, taps in _corners(x.shape, grid, how, padding, align):
        weight = _joined(taps)
        places.append(row)
        rows.append(given if weight is None else given * weight)
        if how == NEAREST:
            continue
        read = (given * _aten.embedding(table, row).to(torch.float32)).sum(1, True)
        for d in range(rank):
            slope = _joined(taps, d)
            assert slope is not None
            more, known = read * slope, slopes[d]
            slopes[d] = more if known is None else known + more
    to_image = None
    if wanted[0]:
        zeros = torch.zeros_like(table)
        added = torch.index_put(
            zeros, [torch.cat(places)], torch.cat(rows).to(x.dtype), accumulate=True
        )
        order = [x.shape[0], *x.shape[2:], x.shape[1]]
        to_image = packed(added.reshape(order).movedim(-1, 1))
    if not wanted[1]:
        return to_image, None
    if how == NEAREST:
        return to_image, torch.zeros_like(grid, memory_format=torch.contiguous_format)
    columns = [slope for slope in reversed(slopes) if slope is not None]
    return to_image, torch.cat(columns, 1).to(grid.dtype).reshape(grid.shape)
