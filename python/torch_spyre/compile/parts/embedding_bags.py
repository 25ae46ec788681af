# SPDX-License-Identifier: Apache-2.0
"""Sums, means and maxima of bags of a table's rows, their gradients, and rows cut to a norm.

A bag is a run of the indices, from its offset to the next one. Sums are a product with the matrix
[bags, indices] of what is in which bag; gradients of rows are added at their indices.
"""

from __future__ import annotations

import math

import torch

from ..registered import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, INDICES, MOST_COMPARISONS, checked, computed, count

_aten = torch.ops.aten
SUM, MEAN, MAX = range(3)  # PyTorch's modes
Bags = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _is_taken(rows: torch.Tensor, indices: torch.Tensor, bags: int, mode: int) -> bool:
    if rows.dtype not in computed() or indices.dtype not in INDICES or indices.dim() != 1:
        return False
    work = indices.numel() * bags * (rows.shape[1] if mode == MAX else 1)
    return 0 < work <= MOST_COMPARISONS and rows.numel() > 0


def _bag_of_each(indices: torch.Tensor, offsets: torch.Tensor, bags: int) -> torch.Tensor:
    """The number of each index's bag: how many bags have begun, without the last."""
    begun = count(indices.shape[0], indices).unsqueeze(1) >= offsets[:bags]
    return begun.to(torch.float32).sum(1).to(torch.int64) - 1


def _members(
    indices: torch.Tensor, bag: torch.Tensor, bags: int, padding: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which index is in which bag, [bags, indices] of bools, and how many of a bag are."""
    inside = count(bags, bag).unsqueeze(1) == bag
    if padding >= 0:
        inside = inside & (indices != padding)
    return inside, inside.to(torch.float32).sum(1)


@part(_aten._embedding_bag.default, _aten._embedding_bag_forward_only.default, narrow=True)
def embedding_bag(
    table: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    by_frequency: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    factors: torch.Tensor | None = None,
    has_end: bool = False,
    padding: int = -1,
) -> Bags | NotTaken:
    """And, for the backward function: the bag of each index, sizes of bags, of which rows the
    maxima are."""
    bags = offsets.shape[0] - has_end
    if not _is_taken(table, indices, bags, mode):
        return NOT_TAKEN
    first = checked(offsets[:1], 1)  # is 0
    offsets = torch.cat([first, checked(offsets[1:], indices.shape[0] + 1)]) if bags > 1 else first
    bag = _bag_of_each(indices, offsets, bags)
    inside, sizes = _members(indices, bag, bags, padding)
    rows = _aten.embedding(table, indices)
    whole = sizes.to(torch.int64)
    if mode == MAX:
        found, place = torch.where(inside.unsqueeze(2), rows, -math.inf).max(1)
        found = torch.where((whole > 0).unsqueeze(1), found, 0.0)
        return found, bag.to(indices.dtype), whole.to(indices.dtype), indices[place]
    share = inside.to(rows.dtype)
    if factors is not None:
        share = share * factors
    result = share @ rows
    if mode == MEAN:
        result = (result / sizes.clamp(min=1.0).unsqueeze(1)).to(table.dtype)
    return result, bag.to(indices.dtype), whole.to(indices.dtype), indices.new_zeros(bags)


@part(_aten._embedding_bag_backward.default, narrow=True)
def embedding_bag_backward(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    _bag: torch.Tensor,
    _sizes: torch.Tensor,
    maxima: torch.Tensor,
    rows: int,
    by_frequency: bool,
    mode: int,
    sparse: bool,
    factors: torch.Tensor | None,
    padding: int = -1,
) -> torch.Tensor | NotTaken:
    bags = grad.shape[0]
    if not _is_taken(grad, indices, bags, mode) or sparse:
        return NOT_TAKEN
    bag = _bag_of_each(indices, offsets, bags)
    _inside, sizes = _members(indices, bag, bags, padding)
    zeros = grad.new_zeros(rows, grad.shape[1])
    if mode == MAX:
        given = torch.where((sizes.to(torch.int64) > 0).unsqueeze(1), grad, 0.0)
        return torch.scatter_add(zeros, 0, maxima.to(torch.int64), given)
    if mode == MEAN:
        grad = (grad / sizes.clamp(min=1.0).unsqueeze(1)).to(grad.dtype)
    parts = grad[bag]
    if factors is not None:
        parts = parts * factors.unsqueeze(1)
    added = add_rows(zeros, indices, parts, padding, by_frequency)
    return NOT_TAKEN if added is None else added


@part(_aten._embedding_bag_per_sample_weights_backward.default, narrow=True)
def factors_backward(
    grad: torch.Tensor,
    table: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    _bag: torch.Tensor,
    mode: int,
    padding: int = -1,
) -> torch.Tensor | NotTaken:
    if not _is_taken(grad, indices, grad.shape[0], mode):
        return NOT_TAKEN
    bag = _bag_of_each(indices, offsets, grad.shape[0])
    products = grad[bag].to(torch.float32) * _aten.embedding(table, indices).to(torch.float32)
    result = products.sum(1).to(grad.dtype)
    return torch.where(indices == padding, 0.0, result) if padding >= 0 else result


def add_rows(
    zeros: torch.Tensor,
    indices: torch.Tensor,
    rows: torch.Tensor,
    padding: int,
    by_frequency: bool,
) -> torch.Tensor | None:
    """`zeros` with rows [N, ..] added at indices [N], but for the one of `padding`; by the mean,
    not the sum, where rows are taken by their frequency. None where those are too many."""
    if padding >= 0:
        rows = rows.masked_fill((indices == padding).unsqueeze(-1), 0)
    if by_frequency:
        if indices.numel() ** 2 > MOST_COMPARISONS:
            return None
        equal = (indices.unsqueeze(1) == indices).to(torch.float32).sum(1)
        rows = (rows / equal.unsqueeze(1)).to(rows.dtype)
    return torch.index_add(zeros, 0, indices, rows)


@part(_aten.embedding_renorm.default, narrow=True)
def embedding_renorm(
    table: torch.Tensor, indices: torch.Tensor, most: float, order: float
) -> torch.Tensor | NotTaken:
    """Rows of the table whose norm is above `most`, cut to it; equal indices give equal rows."""
    if table.dtype not in FLOATS or indices.dtype not in INDICES or indices.numel() == 0:
        return NOT_TAKEN
    if order not in (1.0, 2.0, math.inf):
        return NOT_TAKEN
    indices = indices.reshape(-1)
    rows = _aten.embedding(table, indices)
    norm = torch.linalg.vector_norm(rows.to(torch.float32), order, 1, True)
    factor = (most / (norm + 1e-7)).clamp(max=1.0)
    return torch.index_put(table, [indices], (rows * factor).to(table.dtype))
