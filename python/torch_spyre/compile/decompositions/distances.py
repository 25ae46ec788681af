# SPDX-License-Identifier: Apache-2.0
"""Distances between rows, all with all, and the margin losses, which compare elements of a row in
pairs: PyTorch has one kernel each, the card the pairs."""

from __future__ import annotations

import math

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, MOST_COMPARISONS, computed, count, positions
from .sums import vector_norm

_aten = torch.ops.aten
_NONE, _MEAN = 0, 1  # aten's numbers of reductions


def _length(way: torch.Tensor, p: float) -> torch.Tensor:
    """The norm of order p along the last dim."""
    length = vector_norm(way, p, [-1])
    return length if isinstance(length, torch.Tensor) else torch.linalg.vector_norm(way, p, dim=-1)


def _slope(way: torch.Tensor, length: torch.Tensor, p: float) -> torch.Tensor:
    """The gradient of _length by `way`; 0 where nothing is apart. `length` keeps the last dim."""
    sign = torch.sign(way)
    if p == 0:
        return way * 0
    if p == 1:
        return sign
    if math.isinf(p):
        return torch.where(way.abs() == length, sign, 0.0)
    if p == 2:
        return torch.where(length == 0, 0.0, way / length)
    part_of = sign * (way.abs() / length) ** (p - 1)
    return torch.where((length == 0) | (way == 0), 0.0, part_of)


def _is_taken(x: torch.Tensor, pairs: int) -> bool:
    return x.dtype in computed() and 0 < pairs * x.shape[-1] <= MOST_COMPARISONS


def _ways(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(-2) - y.unsqueeze(-3)


def _pairs(x: torch.Tensor, y: torch.Tensor) -> int:
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return int(math.prod(batch)) * x.shape[-2] * y.shape[-2]


@part(_aten._cdist_forward.default)
def cdist(
    x: torch.Tensor, y: torch.Tensor, p: float, compute_mode: int | None
) -> torch.Tensor | NotTaken:
    return _length(_ways(x, y), p) if _is_taken(x, _pairs(x, y)) else NOT_TAKEN


@part(_aten._cdist_backward.default)
def cdist_backward(
    grad: torch.Tensor, x: torch.Tensor, y: torch.Tensor, p: float, length: torch.Tensor
) -> torch.Tensor | NotTaken:
    if not _is_taken(x, _pairs(x, y)):
        return NOT_TAKEN
    slope = _slope(_ways(x, y), length.unsqueeze(-1), p)
    return (slope * grad.unsqueeze(-1)).sum(-2)


def _upper(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of the rows of every pair, by how many rows' pairs begin before it."""
    n = x.shape[0]
    row, pair = count(n - 1, x), count(n * (n - 1) // 2, x)
    begin = torch.div(row * (2 * n - 1 - row), 2, rounding_mode="floor")
    first = positions((begin <= pair.unsqueeze(1)).to(torch.float32).sum(1) - 1)
    return first, pair - begin[first] + first + 1


@part(_aten._pdist_forward.default, narrow=True)
def pdist(x: torch.Tensor, p: float = 2.0) -> torch.Tensor | NotTaken:
    if x.shape[0] < 2:
        return x.new_zeros(0)
    if not _is_taken(x, x.shape[0] ** 2):
        return NOT_TAKEN
    first, second = _upper(x)
    return _length(x[first] - x[second], p)


@part(_aten._pdist_backward.default, narrow=True)
def pdist_backward(
    grad: torch.Tensor, x: torch.Tensor, p: float, length: torch.Tensor
) -> torch.Tensor | NotTaken:
    if x.shape[0] < 2:
        return torch.zeros_like(x)
    if not _is_taken(x, x.shape[0] ** 2):
        return NOT_TAKEN
    first, second = _upper(x)
    slope = _slope(x[first] - x[second], length.unsqueeze(-1), p) * grad.unsqueeze(-1)
    return torch.zeros_like(x).index_add(0, first, slope).index_add(0, second, -slope)


def _shared(grad: torch.Tensor, rows: int, reduction: int) -> torch.Tensor:
    """The gradient that each row gets: [rows, 1], or of all alike."""
    if reduction == _NONE:
        return grad.reshape(rows, 1)
    return grad / rows if reduction == _MEAN else grad


@part(_aten.multi_margin_loss_backward.default, narrow=True)
def multi_margin_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, p: float, margin: float,
    weight: torch.Tensor | None = None, reduction: int = _MEAN,
) -> torch.Tensor | NotTaken:  # fmt: skip
    if x.dtype not in FLOATS or x.numel() == 0:
        return NOT_TAKEN
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    wanted = target.reshape(-1, 1)
    hit = count(rows.shape[1], x) == wanted
    beyond = rows - torch.where(hit, rows, 0.0).sum(1, True) + margin
    scale = 1.0 if p == 1 else beyond * 2
    slope = torch.where((beyond > 0) & ~hit, scale, 0.0) / rows.shape[1]
    if weight is not None:
        slope = slope * torch.where(hit, weight, 0.0).sum(1, True)
    slope = slope - torch.where(hit, slope.sum(1, True), 0.0)
    return (slope * _shared(grad, rows.shape[0], reduction)).reshape(x.shape).to(x.dtype)


def _listed(target: torch.Tensor) -> torch.Tensor:
    """How often a row lists each class before its first -1: [rows, classes]"""
    numbers = count(target.shape[1], target)
    end = torch.where(target < 0, numbers, target.shape[1]).to(torch.float32).amin(1, True)
    classes = torch.where(numbers.to(torch.float32) < end, target, -1)
    return (classes.unsqueeze(2) == numbers).to(torch.float32).sum(1)


@part(_aten.multilabel_margin_loss_forward.default, narrow=True)
def multilabel_margin(
    x: torch.Tensor, target: torch.Tensor, reduction: int
) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    """PyTorch's decomposition counts what stands behind the first -1 as class 0."""
    if x.dtype not in FLOATS or x.shape != target.shape or not 1 <= x.dim() <= 2:
        return NOT_TAKEN
    if not 0 < x.numel() * x.shape[-1] <= MOST_COMPARISONS:
        return NOT_TAKEN
    rows = x.reshape(-1, x.shape[-1])
    listed = _listed(target.reshape(rows.shape))
    others = torch.where(listed > 0, 0.0, 1.0)
    beyond = (1 - rows.unsqueeze(2) + rows.unsqueeze(1)).clamp_min(0)
    beyond = beyond * listed.unsqueeze(2) * others.unsqueeze(1)  # [rows, listed, other]
    losses = beyond.sum((1, 2)) / rows.shape[1]
    hits = (1 - others).reshape(x.shape).to(x.dtype)
    if reduction == _NONE:
        return losses.reshape(x.shape[:-1]).to(x.dtype), hits
    return (losses.mean() if reduction == _MEAN else losses.sum()).to(x.dtype), hits


@part(_aten.multilabel_margin_loss_backward.default, narrow=True)
def multilabel_margin_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, hits: torch.Tensor
) -> torch.Tensor | NotTaken:
    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    if x.dtype not in FLOATS or not 0 < x.numel() * rows.shape[1] <= MOST_COMPARISONS:
        return NOT_TAKEN
    listed = _listed(target.reshape(rows.shape))
    others = torch.where(listed > 0, 0.0, 1.0)
    near = torch.where(1 - rows.unsqueeze(2) + rows.unsqueeze(1) > 0, 1.0, 0.0)
    near = near * listed.unsqueeze(2) * others.unsqueeze(1)  # [rows, listed, other]
    slope = (near.sum(1) - near.sum(2)) / rows.shape[1]
    return (slope * _shared(grad, rows.shape[0], reduction)).reshape(x.shape).to(x.dtype)
