# SPDX-License-Identifier: Apache-2.0
"""for_each_tile: a computation written tile by tile, with torch-spyre's interface
(torch-spyre/torch-spyre, torch_spyre/_inductor/wsr/for_each_tile.py at 0875e81).

The number of tiles is known when the function is traced, and every step is traced by itself, with a
mark that says which it is: the compiler makes the steps one counted loop again. Steps that differ
in more than their tiles stay one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._pytorch.pytree import tree_leaves
from .hint_scopes import new_scope, step_of

__all__ = ["Gather", "for_each_tile"]


@dataclass(frozen=True)
class Gather:
    """An operand of which step i sees the one row index[i] along `axis`."""

    axis: int
    index: torch.Tensor


Cut = int | Gather | None  # how a step sees an operand: a tile along a dim, one row, the whole


def for_each_tile(
    body: Callable[[Any, tuple[torch.Tensor, ...]], tuple[Any, torch.Tensor | None]],
    operands: Sequence[torch.Tensor],
    *,
    dims: Cut | tuple[Cut, ...],
    tile_size: int,
    init: Any = None,
    out_dim: int | None = None,
    reverse: bool = False,
) -> tuple[Any, torch.Tensor | None]:
    """(carry, out) after body(carry, tiles) -> (carry, tile of the result) for every tile.

    `dims`, one for all operands or a tuple with one each: the dim along which an operand is cut
    into tiles of `tile_size`, None for one that every step sees whole, or a Gather. `init` is the
    first carry; without one the body gets None and its carry is dropped. Tiles of the result are
    laid behind each other along `out_dim`; without it there is no result. `reverse` runs from the
    last tile to the first; the result keeps its order. A carry is made of tensors: a number in it
    would be the step's index, which a loop does not give to its body. An operand
    [.., n * tile_size, ..] gives tiles [.., tile_size, ..]; tiles [.., m, ..] of the result make up
    [.., n * m, ..].

    Raises: TypeError for arguments of another kind, ValueError for sizes that `tile_size` does not
    divide and numbers of tiles that differ, NotImplementedError for a result that is scattered.
    """
    if not callable(body):
        raise TypeError(f"for_each_tile: expected a function of (carry, tiles), got {body!r}")
    if not isinstance(operands, Sequence):
        raise TypeError(f"for_each_tile: expected a list of operands, got {operands!r}")
    operands = tuple(operands)
    each = dims if isinstance(dims, tuple) else (dims,) * len(operands)
    if isinstance(dims, list):
        raise TypeError("for_each_tile: dims of several operands are a tuple")
    if len(each) != len(operands):
        raise ValueError(f"for_each_tile: {len(each)} dims for {len(operands)} operands")
    if not isinstance(tile_size, int) or isinstance(tile_size, bool) or tile_size < 1:
        raise ValueError(f"for_each_tile: tile_size={tile_size!r} is no whole number from 1 on")
    if isinstance(out_dim, Gather):
        rule = "a result cannot be scattered, expected a dim or None"
        raise NotImplementedError(f"for_each_tile: out_dim={out_dim!r}: {rule}")
    if init is None and out_dim is None:
        raise ValueError("for_each_tile: neither init nor out_dim, so there is nothing to return")
    count = _count_tiles(operands, each, tile_size)
    results: dict[int, Any] = {}
    carry, scope = init, new_scope()
    backwards = reverse and init is not None  # without a carry the order is of no consequence
    for turn in range(count):
        step = count - 1 - turn if backwards else turn
        _check_carry(carry)
        with step_of(scope, turn, count):
            tiles = tuple(
                _tile(operand, dim, step, tile_size)
                for operand, dim in zip(operands, each, strict=True)
            )
            made = body(carry, tiles)
            if not isinstance(made, tuple) or len(made) != 2:
                rule = "expected (carry, tile of the result)"
                raise TypeError(f"for_each_tile: body returned {type(made).__name__}: {rule}")
            after, results[step] = made
        carry = carry if init is None else after
    _check_carry(carry)
    if out_dim is None:
        return carry, None
    return carry, torch.cat([results[step] for step in range(count)], dim=out_dim)


def _check_carry(carry: object) -> None:
    for value in tree_leaves(carry):
        if value is not None and not isinstance(value, torch.Tensor):
            rule = "a carry is made of tensors, and the index of a step is not known in the body"
            raise TypeError(f"for_each_tile: {value!r} in the carry: {rule}")


def _count_tiles(operands: Sequence[object], dims: Sequence[Cut], tile_size: int) -> int:
    counts = {}
    for number, (operand, dim) in enumerate(zip(operands, dims, strict=True)):
        if not isinstance(operand, torch.Tensor):
            raise ValueError(f"for_each_tile: operand {number} is no tensor")
        if isinstance(dim, Gather):
            _check_dim(f"dims: operand {number}", dim.axis, operand.dim())
            if dim.index.dim() != 1 or dim.index.dtype not in (torch.int32, torch.int64):
                raise ValueError(f"for_each_tile: the index of operand {number} is no list")
            counts[number] = dim.index.shape[0]
        elif dim is not None:
            _check_dim(f"dims: operand {number}", dim, operand.dim())
            size = operand.shape[dim]
            if size % tile_size:
                raise ValueError(
                    f"for_each_tile: operand {number} has size {size} along dim {dim}, no multiple "
                    f"of tile_size={tile_size}; the nearest is {_nearest(size, tile_size)}"
                )
            counts[number] = size // tile_size
    if not counts:
        raise ValueError("for_each_tile: no operand is cut into tiles")
    if len(set(counts.values())) > 1:
        raise ValueError(f"for_each_tile: operands of different numbers of tiles: {counts}")
    return next(iter(counts.values()))


def _check_dim(what: str, dim: object, rank: int) -> None:
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"for_each_tile: {what}: expected a dim, None or a Gather, got {dim!r}")
    if not -rank <= dim < rank:
        raise ValueError(f"for_each_tile: {what} has no dim {dim}: expected {-rank}..{rank - 1}")


def _nearest(size: int, wanted: int) -> int:
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    return min(divisors, key=lambda d: abs(d - wanted))


def _tile(operand: torch.Tensor, dim: Cut, step: int, tile_size: int) -> torch.Tensor:
    if dim is None:
        return operand
    if isinstance(dim, Gather):
        return operand.index_select(dim.axis, dim.index[step : step + 1])
    return operand.narrow(dim, step * tile_size, tile_size)
