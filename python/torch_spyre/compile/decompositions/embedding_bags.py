# SPDX-License-Identifier: Apache-2.0
"""Sums, means and maxima of bags of a table's rows, their gradients, and rows cut to a norm.

A bag is a run of the indices, from its offset to the next one. The number of an index's bag is how
many bags have begun before; rows are joined at it, and gradients of rows at the indices. Of bags of
one size, as a matrix of indices has them, rows are summed along a dim of their own.
"""

from __future__ import annotations

import math

import torch

from ..._pytorch.fx import arguments_of, made_by
from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, INDICES, MOST_COUNTED, count, positions, running_counts

_aten = torch.ops.aten
SUM, MEAN, MAX = range(3)  # PyTorch's modes
Bags = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _is_taken(rows: torch.Tensor, indices: torch.Tensor, bags: int) -> bool:
    if rows.dtype not in FLOATS or indices.dtype not in INDICES or indices.dim() != 1:
        return False
    return 0 < indices.numel() <= MOST_COUNTED and bags > 0 and rows.numel() > 0


def _counted(places: int, at: torch.Tensor) -> torch.Tensor:
    """How often each of so many places is among `at`, float32."""
    ones = torch.ones(at.shape, dtype=torch.float32, device=at.device)
    return torch.index_add(ones.new_zeros(places), 0, at, ones)


def _bag_of_each(indices: torch.Tensor, offsets: torch.Tensor, bags: int) -> torch.Tensor:
    """The number of each index's bag. Where the first offset is not 0 it is -1, and beyond the
    indices there is no place for an offset: the card faults at both."""
    begun = _counted(indices.shape[0] + 1, offsets[:bags].to(torch.int64))
    return positions(running_counts(begun[: indices.shape[0]]) - 1)


def _joined(
    indices: torch.Tensor, offsets: torch.Tensor, bag: torch.Tensor, bags: int, padding: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The bag that each index is joined to, an own one behind all for the padding, and how many
    are joined to each."""
    if padding < 0:
        begins = offsets[:bags].to(torch.float32)
        ends = torch.cat((begins[1:], begins.new_full((1,), float(indices.shape[0]))))
        return bag, ends - begins
    to = torch.where(indices == padding, bags, bag)
    return to, _counted(bags + 1, to)[:bags]


def _size_of_all(indices: torch.Tensor, offsets: torch.Tensor, bags: int) -> int | None:
    """Of bags that the graph in work counts off, as embedding_bag() of a matrix does."""
    maker = made_by(offsets)
    if maker is None or maker.target is not _aten.arange.start_step:
        return None
    first, end, step = [*arguments_of(maker), 1][:3]
    n = indices.shape[0]
    even = type(n) is int and type(step) is int and (first, end) == (0, n) and n == step * bags
    return step if even else None


def _even_bags(
    table: torch.Tensor, indices: torch.Tensor, size: int, mode: int, factors: torch.Tensor | None
) -> Bags:
    n, bags = indices.shape[0], indices.shape[0] // size
    rows = _aten.embedding(table, indices.reshape(bags, size))
    if factors is not None:
        rows = rows * factors.reshape(bags, size, 1)
    joined = rows.mean(1) if mode == MEAN else rows.sum(1)
    bag = (count(n, indices) // size).to(indices.dtype)
    sizes = torch.full((bags,), size, dtype=indices.dtype, device=indices.device)
    return joined, bag, sizes, indices.new_zeros(bags)


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
    if not _is_taken(table, indices, bags):
        return NOT_TAKEN
    size = _size_of_all(indices, offsets, bags)
    if size is not None and mode != MAX and padding < 0:
        return _even_bags(table, indices, size, mode, factors)
    bag = _bag_of_each(indices, offsets, bags)
    to, sizes = _joined(indices, offsets, bag, bags, padding)
    rows = _aten.embedding(table, indices)
    whole = positions(sizes).to(indices.dtype)
    if mode == MAX:
        found, maxima = _largest(rows, indices, to, sizes)
        return found, bag.to(indices.dtype), whole, maxima
    if factors is not None:
        rows = rows * factors.unsqueeze(1)
    result = torch.index_add(rows.new_zeros(bags + 1, rows.shape[1]), 0, to, rows)[:bags]
    if mode == MEAN:
        result = (result / sizes.clamp(min=1.0).unsqueeze(1)).to(table.dtype)
    return result, bag.to(indices.dtype), whole, indices.new_zeros(bags)


def _largest(
    rows: torch.Tensor, indices: torch.Tensor, to: torch.Tensor, sizes: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each bag, 0 where it is empty, and the index of the first row that has it."""
    bags, n = sizes.shape[0], rows.shape[0]
    least = rows.new_full((bags + 1, rows.shape[1]), -math.inf)
    found = torch.index_reduce(least, 0, to, rows, "amax")
    number = count(n, rows).to(torch.float32).unsqueeze(1)
    number = torch.where(rows == found.index_select(0, to), number, float(n))
    beyond = number.new_full(least.shape, float(n))
    place = torch.index_reduce(beyond, 0, to, number, "amin")[:bags].clamp(max=float(n - 1))
    is_empty = (positions(sizes) == 0).unsqueeze(1)
    return found[:bags].masked_fill(is_empty, 0.0), indices[positions(place)]


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
    if not _is_taken(grad, indices, bags) or sparse:
        return NOT_TAKEN
    zeros = grad.new_zeros(rows, grad.shape[1])
    size = _size_of_all(indices, offsets, bags)
    if size is not None and mode != MAX and padding < 0:
        given = grad / size if mode == MEAN else grad
        parts = given.unsqueeze(1).expand(bags, size, grad.shape[1]).flatten(0, 1)
    else:
        bag = _bag_of_each(indices, offsets, bags)
        _to, sizes = _joined(indices, offsets, bag, bags, padding)
        if mode == MAX:
            given = torch.where((positions(sizes) > 0).unsqueeze(1), grad, 0.0)
            return torch.scatter_add(zeros, 0, maxima.to(torch.int64), given)
        if mode == MEAN:
            grad = (grad / sizes.clamp(min=1.0).unsqueeze(1)).to(grad.dtype)
        parts = grad[bag]
    if factors is not None:
        parts = parts * factors.unsqueeze(1)
    return add_rows(zeros, indices, parts, padding, by_frequency)


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
    if not _is_taken(grad, indices, grad.shape[0]):
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
) -> torch.Tensor:
    """`zeros` with rows [N, ..] added at indices [N], but for the one of `padding`; by the mean,
    not the sum, where rows are taken by their frequency."""
    if padding >= 0:
        rows = rows.masked_fill((indices == padding).unsqueeze(-1), 0)
    if by_frequency:
        equal = _counted(zeros.shape[0], indices).index_select(0, indices)
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
