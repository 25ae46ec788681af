# SPDX-License-Identifier: Apache-2.0
"""Padding by what lies at the edges of dims: parts are put side by side, so every bit stays.
Gradients are sums at the edges; where these are long, products with the matrix of what was put
where, unless the dim is long, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, as_stored, computed
from .resampling import by_matrix, is_at, places_of

_aten = torch.ops.aten
MOST_OF_MATRIX = 1 << 10  # elements of a dim
MOST_SLICES = 4


def _edge(x: torch.Tensor, dim: int, first: int, number: int, mirrors: bool) -> list[torch.Tensor]:
    """So many elements from `first` on the other way round, few of them one by one, or the first
    one as often."""
    if mirrors and number > MOST_SLICES:
        return [x.narrow(dim, first, number).flip(dim)]
    if mirrors:
        return [x.narrow(dim, at, 1) for at in reversed(range(first, first + number))]
    edge = x.narrow(dim, first, 1)
    return [edge.expand([number if d == dim else size for d, size in enumerate(x.shape)])]


def _padded(x: torch.Tensor, dim: int, before: int, behind: int, mirrors: bool) -> torch.Tensor:
    last, parts = x.shape[dim] - 1, [x]
    if before:
        parts = _edge(x, dim, 1 if mirrors else 0, before, mirrors) + parts
    if behind:
        parts += _edge(x, dim, last - behind if mirrors else last, behind, mirrors)
    return torch.cat(parts, dim) if len(parts) > 1 else x


def _pad(x: torch.Tensor, padding: Sequence[int], mirrors: bool) -> torch.Tensor | NotTaken:
    """`padding` has a pair for each dim, the last dim first."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    if x.numel() == 0 or len(pairs) > x.dim():
        return NOT_TAKEN
    for i, pair in enumerate(pairs):
        most = x.shape[x.dim() - 1 - i]
        if min(pair) < 0 or (mirrors and max(pair) >= most):
            return NOT_TAKEN
    result = x
    for i, (before, behind) in enumerate(pairs):
        result = _padded(result, x.dim() - 1 - i, before, behind, mirrors)
    return as_stored(result, x) if result is not x else x.clone()


@part(
    _aten.reflection_pad1d.default, _aten.reflection_pad2d.default,
    _aten.reflection_pad3d.default, narrow=True,
)  # fmt: skip
def reflection_pad(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor | NotTaken:
    return _pad(x, padding, True)


@part(
    _aten.replication_pad1d.default, _aten.replication_pad2d.default,
    _aten.replication_pad3d.default, narrow=True,
)  # fmt: skip
def replication_pad(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor | NotTaken:
    return _pad(x, padding, False)


def circular_pad(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
    """By the other end of each dim, after what negative numbers cut off."""
    for i, (before, behind) in enumerate(zip(padding[::2], padding[1::2], strict=True)):
        dim = x.dim() - 1 - i
        size = x.shape[dim] + min(before, 0) + min(behind, 0)
        x = x.narrow(dim, max(-before, 0), size)
        ends = [(size - before, before), (0, size), (0, behind)]
        parts = [x.narrow(dim, first, length) for first, length in ends if length > 0]
        x = torch.cat(parts, dim) if len(parts) > 1 else x
    return x.contiguous()


def _added_edges(
    grad: torch.Tensor, dim: int, size: int, before: int, mirrors: bool
) -> torch.Tensor:
    """What arrives at so many elements, with what arrives in front of them and behind added to the
    elements that were put there."""
    given = grad.narrow(dim, before, size)
    behind = grad.shape[dim] - before - size
    edges = [(0, before, 1 if mirrors else 0), (before + size, behind, size - 1 - mirrors)]
    for number, (start, length, place) in enumerate(edges):
        if not length:
            continue
        edge = grad.narrow(dim, start, length)
        if not mirrors:
            parts = [edge.to(torch.float32).sum(dim, True)]
        elif length <= MOST_SLICES:
            parts = list(reversed(edge.split(1, dim)))
        else:
            parts = [edge.flip(dim)]
        step = parts[0].shape[dim]
        at = place - step * len(parts) + 1 if number else place
        pieces = [given.narrow(dim, 0, at)] if at else []
        for one in parts:
            pieces.append((given.narrow(dim, at, step) + one).to(grad.dtype))
            at += step
        rest = [given.narrow(dim, at, size - at)] if at < size else []
        given = torch.cat(pieces + rest, dim)
    return given


def _edges_backward(mirrors: bool) -> Callable[..., Any]:
    """The gradient of padding by what lies at the edges; `padding` has the last dim first."""

    def hand_back(
        grad: torch.Tensor, x: torch.Tensor, padding: Sequence[int]
    ) -> torch.Tensor | NotTaken:
        rank = len(padding) // 2
        if grad.dtype not in FLOATS or grad.numel() == 0 or x.numel() == 0:
            return NOT_TAKEN
        for i in range(rank):
            dim = x.dim() - rank + i
            size, first = x.shape[dim], 2 * (rank - 1 - i)
            before, behind = padding[first], padding[first + 1]
            cut = [max(-before, 0), max(-behind, 0)]  # negative numbers leave out elements
            few = grad.shape[dim] - size <= 2 * MOST_SLICES and sum(cut) < size
            if few or size > MOST_OF_MATRIX or grad.dtype not in computed():
                if sum(cut) >= size:
                    return NOT_TAKEN
                grad = _added_edges(grad, dim, size - sum(cut), max(before, 0), mirrors)
                if any(cut):
                    inner = [0] * (2 * (x.dim() - 1 - dim))
                    grad = torch.constant_pad_nd(grad, [*inner, *cut])
                continue
            out, places = places_of(grad, size, grad.shape[dim])
            last = float(size - 1)
            at = (out - before).abs() if mirrors else (out - before).clamp(0.0, last)
            at = last - (last - at).abs() if mirrors else at
            grad = by_matrix(grad, dim, is_at(at, places), True)
        return grad.contiguous()

    return hand_back


part(
    _aten.replication_pad1d_backward.default, _aten.replication_pad2d_backward.default,
    _aten.replication_pad3d_backward.default, narrow=True,
)(_edges_backward(False))  # fmt: skip
part(
    _aten.reflection_pad1d_backward.default, _aten.reflection_pad2d_backward.default,
    _aten.reflection_pad3d_backward.default, narrow=True,
)(_edges_backward(True))  # fmt: skip
