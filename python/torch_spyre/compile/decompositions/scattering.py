# SPDX-License-Identifier: Apache-2.0
"""Writing at indices with every reduction.

The compiler writes and joins at indices of one dim (rewrite_scatter.c). What is here leads other
forms to these: indices for a part of the other dims, or of several. An index out of range is a
fault of the store, or of the gather that looks each one up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .host_operands import on_device
from .lines import (
    FLOATS,
    INDICES,
    INTEGERS,
    MOST_COMPARISONS,
    MOST_COUNTED,
    checked,
    count,
    packed,
    positions,
    running_counts,
    to_lines,
)

_aten = torch.ops.aten
_DTYPES = (*FLOATS, *INTEGERS, torch.bool)


def _is_taken(x: torch.Tensor, index: torch.Tensor) -> bool:
    if x.dim() == 0 or index.dim() != x.dim() or x.dtype not in _DTYPES:
        return False
    return index.dtype in INDICES and index.numel() > 0 and x.numel() > 0


def _combine(
    whole: torch.Tensor, index: torch.Tensor, source: torch.Tensor, reduce: str, include: bool
) -> torch.Tensor:
    """whole [L, P] with source [L, K] at index [L, K]."""
    if reduce == "set":
        written: torch.Tensor = _aten.scatter.src(whole, 1, index, source)
        return written
    joined: torch.Tensor = _aten.scatter_reduce(
        whole, 1, index, source, reduce, include_self=include
    )
    return joined


def _scatter(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, include: bool
) -> torch.Tensor:
    """Indices may be for a part of the other dims, which the rest stands around."""
    dim %= x.dim()
    sizes = [n if d == dim else index.shape[d] for d, n in enumerate(x.shape)]
    whole, given = x, source
    for d, n in enumerate(sizes):
        whole = whole.narrow(d, 0, n) if n != whole.shape[d] else whole
        wanted = index.shape[d]
        given = given.narrow(d, 0, wanted) if wanted != given.shape[d] else given
    lines = _combine(
        to_lines(whole, dim), to_lines(index, dim), to_lines(given, dim), reduce, include
    )
    order = [n for d, n in enumerate(sizes) if d != dim] + [sizes[dim]]
    result = lines.reshape(order).movedim(-1, dim)
    for d in range(x.dim() - 1, -1, -1):
        if sizes[d] == x.shape[d]:
            continue
        rest = x
        for e in range(d):
            rest = rest.narrow(e, 0, sizes[e])
        result = torch.cat([result, rest.narrow(d, sizes[d], x.shape[d] - sizes[d])], d)
    return result.contiguous()


def _is_own(x: torch.Tensor, dim: int, index: torch.Tensor) -> bool:
    """The compiler's: indices for all of the other dims."""
    if index.dim() != x.dim() or x.dim() == 0:
        return False
    dim %= x.dim()
    return all(n == x.shape[d] for d, n in enumerate(index.shape) if d != dim)


def _fits(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> bool:
    if not _is_taken(x, index) or source.dim() != x.dim() or source.dtype != x.dtype:
        return False
    dim %= x.dim()
    return all(
        index.shape[d] <= source.shape[d] and (d == dim or index.shape[d] <= x.shape[d])
        for d in range(x.dim())
    )


@part(_aten.diagonal_scatter.default, narrow=True)
def diagonal_scatter(
    x: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor | NotTaken:
    """Row i of the source is at (i, i + offset), below the first -offset rows: one element of each
    of these rows is written."""
    if source.dtype != x.dtype or source.shape != x.diagonal(offset, dim1, dim2).shape:
        return NOT_TAKEN
    if source.numel() == 0:
        return packed(x.clone())
    square = x.movedim((dim1, dim2), (-2, -1))
    above, rows = max(-offset, 0), source.shape[-1]
    lines = square.narrow(-2, above, rows)
    columns = torch.arange(rows, device=x.device) + (above + offset)
    columns = columns.unsqueeze(-1).expand(*lines.shape[:-1], 1)
    written = _aten.scatter(lines, lines.dim() - 1, columns, source.unsqueeze(-1))
    if rows < square.shape[-2]:
        written = _aten.slice_scatter(square, written, square.dim() - 2, above, above + rows)
    return packed(written.movedim((-2, -1), (dim1, dim2)))


@part(_aten.as_strided_scatter.default, narrow=True)
def as_strided_scatter(
    x: torch.Tensor,
    source: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int | None = None,
) -> torch.Tensor | NotTaken:
    """Of a tensor that lies as its elements are counted."""
    if not x.is_contiguous() or x.storage_offset() or source.numel() == 0:
        return NOT_TAKEN
    if source.dtype != x.dtype or list(source.shape) != list(size):
        return NOT_TAKEN
    number = torch.full((1,) * len(size), offset or 0, device=x.device)
    for dim, (n, step) in enumerate(zip(size, stride, strict=True)):
        sizes = [n if d == dim else 1 for d in range(len(size))]
        number = number + (count(n, x) * step).reshape(sizes)
    number = number.expand(size).reshape(-1)
    written: torch.Tensor = _aten.index_put(x.reshape(-1), [number], source.reshape(-1))
    return written.reshape(x.shape).contiguous()


@part(_aten.scatter.src, narrow=True)
def scatter(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    if x.dim() == index.dim() == source.dim() == 0 and x.dtype == source.dtype:
        checked(index.reshape(1), 1)
        return source.clone()
    if _is_own(x, dim, index) or not _fits(x, dim, index, source):
        return NOT_TAKEN
    return _scatter(x, dim, index, source, "set", True)


@part(_aten.scatter.value, narrow=True)
def scatter_value(
    x: torch.Tensor, dim: int, index: torch.Tensor, value: float
) -> torch.Tensor | NotTaken:
    scalars = x.dim() == index.dim() == 0
    if not scalars and (_is_own(x, dim, index) or not _is_taken(x, index)):
        return NOT_TAKEN
    source = torch.full((), value, dtype=x.dtype, device=x.device).expand(index.shape)
    return scatter(x, dim, index, source)


@part(_aten.scatter_add.default, narrow=True)
def scatter_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    if x.dim() == index.dim() == source.dim() == 0 and x.dtype == source.dtype:
        return scatter_reduce(x, dim, index, source, "sum")
    if _is_own(x, dim, index) or not _fits(x, dim, index, source):
        return NOT_TAKEN
    return _scatter(x, dim, index, source, "sum", True)


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@part(_aten.scatter_reduce.two, narrow=True)
def scatter_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor | NotTaken:
    if reduce not in _REDUCTIONS:
        return NOT_TAKEN
    if x.dim() == index.dim() == source.dim() == 0:
        line: torch.Tensor = _aten.scatter_reduce(
            x.reshape(1), 0, index.reshape(1), source.reshape(1), reduce, include_self=include_self
        )
        return line.reshape(())
    if _is_own(x, dim, index) or not _fits(x, dim, index, source):
        return NOT_TAKEN
    return _scatter(x, dim, index, source, reduce, include_self)


@part(_aten.scatter.reduce, narrow=True)
def scatter_with(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, reduce: str
) -> torch.Tensor | NotTaken:
    if reduce not in ("add", "multiply"):
        return NOT_TAKEN
    name = "sum" if reduce == "add" else "prod"
    if x.dim() == index.dim() == source.dim() == 0:
        return scatter_reduce(x, dim, index, source, name)
    if not _fits(x, dim, index, source):
        return NOT_TAKEN
    joined: torch.Tensor = _aten.scatter_reduce(x, dim, index, source, name)
    return joined


@part(_aten.scatter.value_reduce, narrow=True)
def scatter_value_with(
    x: torch.Tensor, dim: int, index: torch.Tensor, value: float, *, reduce: str
) -> torch.Tensor | NotTaken:
    source = torch.full((), value, dtype=x.dtype, device=x.device).expand(index.shape)
    return scatter_with(x, dim, index, source, reduce=reduce)


@part(_aten.index_reduce.default, narrow=True)
def index_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor | NotTaken:
    is_refused = x.dtype is torch.bool and not include_self  # by PyTorch
    if reduce not in _REDUCTIONS[1:] or is_refused:
        return NOT_TAKEN
    if x.dim() == 0 and index.numel() == 1 and source.numel() == 1:
        scalars = index.reshape(()), source.reshape(())
        return scatter_reduce(x, 0, *scalars, reduce, include_self=include_self)
    if index.dim() != 1 or source.dim() != x.dim() or x.dim() == 0:
        return NOT_TAKEN
    sizes = [1] * x.dim()
    sizes[dim] = index.shape[0]
    wide = index.reshape(sizes).expand(source.shape)
    if not _fits(x, dim, wide, source) or index.shape[0] != source.shape[dim]:
        return NOT_TAKEN
    joined: torch.Tensor = _aten.scatter_reduce(
        x, dim, wide, source, reduce, include_self=include_self
    )
    return joined


@part(_aten.index_put.default, _aten._unsafe_index_put.default, narrow=True)
def index_put(
    x: torch.Tensor,
    indices: list[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
) -> torch.Tensor | NotTaken:
    """Indices of the host go to the card. A mask takes what is the same for all its places."""
    if moved := on_device(x, [*indices, values]):
        put: torch.Tensor = _aten.index_put(x, moved[:-1], moved[-1], accumulate)
        return put
    *none, last = indices
    if last is not None and last.dtype is torch.bool and all(index is None for index in none):
        return _put_masked(x, len(none), last, values, accumulate)
    return NOT_TAKEN


@part(_aten._index_put_impl.default, narrow=True)
def index_put_impl(
    x: torch.Tensor,
    indices: list[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> torch.Tensor | NotTaken:
    return index_put(x, indices, values, accumulate)


def _put_masked(
    x: torch.Tensor, before: int, mask: torch.Tensor, values: torch.Tensor, accumulate: bool
) -> torch.Tensor | NotTaken:
    """x[:, .., mask] with so many dims in front. Values that are the same for all places of the
    mask: of several, each would go to a place that depends on the mask's."""
    behind = x.dim() - before - mask.dim()
    if values.dtype != x.dtype or mask.dim() == 0 or x.numel() == 0 or behind < 0:
        return NOT_TAKEN
    if mask.shape != x.shape[before : before + mask.dim()]:
        return NOT_TAKEN
    sizes = list(values.shape)
    while sizes and sizes[0] == 1:
        del sizes[0]
    if len(sizes) > behind:
        at = len(sizes) - behind - 1  # of the places
        if sizes[at] != 1:
            return NOT_TAKEN
        sizes[at : at + 1] = [1] * mask.dim()
    fits = zip(reversed(sizes), reversed(x.shape), strict=False)
    if len(sizes) > x.dim() or any(size not in (1, wanted) for size, wanted in fits):
        return NOT_TAKEN
    wide = mask.reshape(*mask.shape, *[1] * behind)
    new = values.reshape(sizes)
    return torch.where(wide, x + new if accumulate else new, x)


@part(_aten.masked_scatter.default, narrow=True)
def masked_scatter(
    x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    """The n-th place of the mask gets the source's n-th element."""
    if x.dtype not in _DTYPES or source.dtype != x.dtype or mask.dtype is not torch.bool:
        return NOT_TAKEN
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if math.prod(shape) > MOST_COUNTED or math.prod(shape) == 0 or source.numel() == 0:
        return NOT_TAKEN
    wide = mask.expand(shape).reshape(-1)
    until = running_counts(wide.to(torch.float32))
    number = positions(torch.where(wide, until - 1, 0.0))
    found = source.reshape(-1).gather(0, number).reshape(shape)
    return torch.where(mask, found, x)


@part(_aten.masked_scatter_backward.default, narrow=True)
def masked_scatter_backward(
    grad: torch.Tensor, mask: torch.Tensor, sizes: Sequence[int]
) -> torch.Tensor | NotTaken:
    """What arrives at the n-th place of the mask is the source's n-th element's."""
    n, number = grad.numel(), math.prod(sizes)
    if grad.dtype not in FLOATS or mask.dtype is not torch.bool or not 0 < n <= MOST_COUNTED:
        return NOT_TAKEN
    wide = mask.expand(grad.shape).reshape(-1)
    until = running_counts(wide.to(torch.float32))
    beyond = max(n, number)
    places = positions(torch.where(wide, until - 1, float(beyond)))
    put: torch.Tensor = _aten.index_put(grad.new_zeros(beyond + 1), [places], grad.reshape(-1))
    return put[:number].reshape(list(sizes))


@part(_aten.take.default, narrow=True)
def take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor | NotTaken:
    if index.numel() == 0 or x.numel() == 0 or index.dtype is not torch.int64:
        return NOT_TAKEN
    return x.reshape(-1)[index.reshape(-1)].reshape(index.shape)


@part(_aten.put.default, narrow=True)
def put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor | NotTaken:
    if index.numel() != source.numel():
        return NOT_TAKEN
    if x.dtype not in _DTYPES or index.dtype not in INDICES or source.dtype != x.dtype:
        return NOT_TAKEN
    flat: torch.Tensor = _aten.index_put(
        x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate
    )
    return flat.reshape(x.shape)


@part(_aten.index_copy.default, narrow=True)
def index_copy(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    """Where the whole has no dims."""
    return _put_along(x, dim, index, source, False)


@part(_aten.index_add.default, narrow=True)
def index_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: float = 1
) -> torch.Tensor | NotTaken:
    """Raises: RuntimeError for sizes that PyTorch refuses; its decomposition broadcasts them."""
    if x.dim() > 0 and source.dim() > 0:
        along = dim % x.dim()
        others = [[n for d, n in enumerate(t.shape) if d != along] for t in (x, source)]
        if others[0] != others[1]:
            raise RuntimeError(
                "source tensor shape must match self tensor shape, excluding the specified"
                f" dimension. Got self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
            )
    scaled = source if alpha == 1 else (source * alpha).to(source.dtype)
    return _put_along(x, dim, index, scaled, True)


def _put_along(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, accumulate: bool
) -> torch.Tensor | NotTaken:
    line, given = (t.reshape(1) if t.dim() == 0 else t for t in (x, source))
    index = index.reshape(-1)
    dim %= line.dim()
    if line.dim() != given.dim() or given.shape[dim] != index.shape[0]:
        return NOT_TAKEN
    if not accumulate and x.dim() > 0:
        return NOT_TAKEN
    if not accumulate:
        copied: torch.Tensor = _aten.index_copy(line, dim, index, given)
        return copied.reshape(x.shape)
    sizes = [index.shape[0] if d == dim else 1 for d in range(line.dim())]
    wide = index.reshape(sizes).expand(given.shape)
    result: torch.Tensor = _aten.scatter_add(line, dim, wide, given)
    return result.reshape(x.shape)


@part(_aten.index_select.default, narrow=True)
def index_select(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor | NotTaken:
    """Where the table or the index has no dims."""
    if (x.dim() > 0 and index.dim() > 0) or index.numel() != 1:
        return NOT_TAKEN
    line = x.reshape(1) if x.dim() == 0 else x
    selected: torch.Tensor = _aten.index_select(line, dim, index.reshape(1))
    return selected.reshape(x.shape) if x.dim() == 0 else selected


@part(_aten.gather.default, narrow=True)
def gather(
    x: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False
) -> torch.Tensor | NotTaken:
    """Where the table or the index has no dims."""
    if (x.dim() > 0) == (index.dim() > 0) and x.dim() > 0 or index.numel() == 0:
        return NOT_TAKEN
    line, number = (t.reshape(1) if t.dim() == 0 else t for t in (x, index))
    found: torch.Tensor = _aten.gather(line, dim, number)
    return found.reshape(index.shape)


@part(_aten.isin.Tensor_Tensor, narrow=True)
def isin(
    x: torch.Tensor, wanted: torch.Tensor, *, assume_unique: bool = False, invert: bool = False
) -> torch.Tensor | NotTaken:
    """Every element compared with every wanted one."""
    if x.numel() * wanted.numel() > MOST_COMPARISONS or wanted.numel() == 0 or x.numel() == 0:
        return NOT_TAKEN
    found = (x.reshape(-1, 1) == wanted.reshape(-1)).any(1).reshape(x.shape)
    return ~found if invert else found
