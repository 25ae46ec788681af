# SPDX-License-Identifier: Apache-2.0
"""Writing at indices with every reduction.

The card's scattered store moves rows of sticks (rewrite_scatter.c). Single elements become rows of
their own for it. Where indices combine, each place along their dim is compared with all indices of
its line and takes from the source what they say: [lines, indices, places] comparisons. An index out
of range is a fault of the store, or of the gather that looks each one up.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from ..registered import NOT_TAKEN, NotTaken, part
from .host_operands import on_device
from .lines import (
    FLOATS,
    INDICES,
    INTEGERS,
    MOST_COMPARISONS,
    MOST_COUNTED,
    computed,
    count,
    to_lines,
)

_aten = torch.ops.aten
MOST_SET = 1 << 20  # elements that take a stick each
FEW = 16  # indices a line that the compiler writes one after the other (rewrite_scatter.c)


def _is_taken(x: torch.Tensor, dim: int, index: torch.Tensor, reduce: str) -> bool:
    dtypes = (*FLOATS, *INTEGERS, torch.bool) if reduce == "set" else FLOATS
    if x.dim() == 0 or index.dim() != x.dim() or x.dtype not in dtypes:
        return False
    if index.dtype not in INDICES or index.numel() == 0 or x.numel() == 0:
        return False
    if reduce == "set":
        return index.numel() // index.shape[dim] * x.shape[dim] <= MOST_SET
    return index.numel() * x.shape[dim] <= MOST_COMPARISONS


def _checked(index: torch.Tensor, places: int) -> torch.Tensor:
    """The indices, looked up in 0, 1, 2, ..: the card faults where one is out of range."""
    table = count(places, index).unsqueeze(1).expand(places, 2).contiguous()
    return table[index].select(-1, 0)


def _set_elements(x: torch.Tensor, number: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """x [P] with source [K] at number [K]: each element is a row, twice, that a stick holds."""
    rows = x.unsqueeze(1).expand(-1, 2).contiguous()
    written: torch.Tensor = _aten.index_put(rows, [number], source.unsqueeze(1))
    return written.select(1, 0)


def _set_in_lines(whole: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """whole [L, P] with source [L, K] at index [L, K], the last of equal ones."""
    lines, places = whole.shape
    first = (count(lines, index) * places).unsqueeze(1)
    number = (_checked(index, places) + first).reshape(-1)
    return _set_elements(whole.reshape(-1), number, source.reshape(-1)).reshape(lines, places)


def _combine(
    whole: torch.Tensor, index: torch.Tensor, source: torch.Tensor, reduce: str, include: bool
) -> torch.Tensor:
    """whole [L, P] with source [L, K] at index [L, K]."""
    if reduce == "set":
        return _set_in_lines(whole, index, source)
    places = whole.shape[1]
    hits = _checked(index, places).unsqueeze(2) == count(places, whole)  # [L, K, P]
    given = source.unsqueeze(2)
    if reduce in ("amax", "amin"):
        nothing = -math.inf if reduce == "amax" else math.inf
        masked = torch.where(hits, given, nothing)
        found = masked.amax(1) if reduce == "amax" else masked.amin(1)
        both = torch.maximum(whole, found) if reduce == "amax" else torch.minimum(whole, found)
        return torch.where(hits.any(1), both if include else found, whole)
    if reduce == "prod":
        found = _product(torch.where(hits, given, 1.0))
        return torch.where(hits.any(1), whole * found if include else found, whole)
    found = torch.where(hits, given, 0.0).to(torch.float32).sum(1)
    untouched = ~hits.any(1)
    base = whole.to(torch.float32)
    total = base + found if include else torch.where(untouched, base, found)
    if reduce == "mean":
        counts = hits.to(torch.float32).sum(1) + (1.0 if include else 0.0)
        total = total / counts.clamp(min=1.0)
    return torch.where(untouched, whole, total.to(whole.dtype))


def _product(x: torch.Tensor) -> torch.Tensor:
    """Over dim 1, in float32: of halves, of quarters, .."""
    dtype = x.dtype
    x = x.to(torch.float32)
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        joined = x[:, :half] * x[:, half : 2 * half]
        x = joined if x.shape[1] % 2 == 0 else torch.cat([joined, x[:, 2 * half :]], 1)
    return x.squeeze(1).to(dtype)


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


def _is_few(x: torch.Tensor, dim: int, index: torch.Tensor) -> bool:
    """The compiler's own."""
    dim %= x.dim()
    whole = all(n == x.shape[d] for d, n in enumerate(index.shape) if d != dim)
    return whole and index.shape[dim] <= FEW


def _has_rows(x: torch.Tensor, dim: int, index: torch.Tensor) -> bool:
    """The compiler's own: an index that is the same all along the other dims writes rows."""
    if index.dim() != x.dim() or x.dim() == 0 or x.numel() == x.shape[dim]:
        return False
    others = [d for d in range(x.dim()) if d != dim % x.dim()]
    return all(
        index.shape[d] == x.shape[d] and (index.shape[d] == 1 or index.stride(d) == 0)
        for d in others
    )


def _fits(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str
) -> bool:
    if not _is_taken(x, dim, index, reduce) or source.dim() != x.dim() or source.dtype != x.dtype:
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
    """Row i of the source is at (i, i + offset), below the first -offset rows."""
    if source.dtype != x.dtype or source.shape != x.diagonal(offset, dim1, dim2).shape:
        return NOT_TAKEN
    square = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = (torch.arange(n, device=x.device) for n in square.shape[-2:])
    above = max(-offset, 0)
    below = square.shape[-2] - source.shape[-1] - above
    values = F.pad(source, (above, below)).unsqueeze(-1)
    written = torch.where(columns - rows.unsqueeze(1) == offset, values, square)
    return written.movedim((-2, -1), (dim1, dim2)).contiguous()


@part(_aten.scatter.src, narrow=True)
def scatter(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    if x.dim() == index.dim() == source.dim() == 0 and x.dtype == source.dtype:
        _checked(index.reshape(1), 1)
        return source.clone()
    if _has_rows(x, dim, index):
        return NOT_TAKEN
    if not _fits(x, dim, index, source, "set") or _is_few(x, dim, index):
        return NOT_TAKEN
    return _scatter(x, dim, index, source, "set", True)


@part(_aten.scatter.value, narrow=True)
def scatter_value(
    x: torch.Tensor, dim: int, index: torch.Tensor, value: float
) -> torch.Tensor | NotTaken:
    if not _is_taken(x, dim, index, "set") or _is_few(x, dim, index) or _has_rows(x, dim, index):
        return NOT_TAKEN
    source = torch.full((), value, dtype=x.dtype, device=x.device).expand(index.shape)
    return scatter(x, dim, index, source)


@part(_aten.scatter_add.default, narrow=True)
def scatter_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    if not _fits(x, dim, index, source, "sum") or _is_few(x, dim, index):
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
        line = scatter_reduce(
            x.reshape(1), 0, index.reshape(1), source.reshape(1), reduce, include_self=include_self
        )
        return line.reshape(()) if isinstance(line, torch.Tensor) else line
    if not _fits(x, dim, index, source, reduce):
        return NOT_TAKEN
    return _scatter(x, dim, index, source, reduce, include_self)


@part(_aten.scatter.reduce, narrow=True)
def scatter_with(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, reduce: str
) -> torch.Tensor | NotTaken:
    if reduce not in ("add", "multiply"):
        return NOT_TAKEN
    if x.dim() == index.dim() == source.dim() == 0:
        return scatter_reduce(x, dim, index, source, "sum" if reduce == "add" else "prod")
    name = "sum" if reduce == "add" else "prod"
    if not _fits(x, dim, index, source, name):
        return NOT_TAKEN
    return _scatter(x, dim, index, source, name, True)


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
    if x.dim() == 0 and index.numel() == 1 and source.numel() == 1:
        scalars = index.reshape(()), source.reshape(())
        return scatter_reduce(x, 0, *scalars, reduce, include_self=include_self)
    if index.dim() != 1 or source.dim() != x.dim() or x.dim() == 0 or reduce not in _REDUCTIONS:
        return NOT_TAKEN
    sizes = [1] * x.dim()
    sizes[dim] = index.shape[0]
    wide = index.reshape(sizes).expand(source.shape)
    if not _fits(x, dim, wide, source, reduce) or index.shape[0] != source.shape[dim]:
        return NOT_TAKEN
    return _scatter(x, dim, wide, source, reduce, include_self)


def _put_rows(
    x: torch.Tensor, index: torch.Tensor, values: torch.Tensor, accumulate: bool
) -> torch.Tensor | NotTaken:
    """x [P, R] with values [K, R] at index [K], whose integers are in [0, P)."""
    if not accumulate and x.shape[1] == 1:
        return _set_elements(x.squeeze(1), index, values.squeeze(1)).unsqueeze(1)
    if accumulate and (x.dtype not in computed() or x.shape[1] == 1):
        wide = index.unsqueeze(0).expand(x.shape[1], index.shape[0])
        lines, given = x.t(), values.t()
        if not _fits(lines, 1, wide, given, "sum"):
            return NOT_TAKEN
        return _combine(lines, wide, given, "sum", True).t()
    rows: torch.Tensor = _aten.index_put(x, [index], values, accumulate)
    return rows


@part(_aten.index_put.default, _aten._unsafe_index_put.default, narrow=True)
def index_put(
    x: torch.Tensor,
    indices: list[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
) -> torch.Tensor | NotTaken:
    """Indices of several dims, rows of one element, sums of float32: the number of a row, of the
    dims that are indexed. A mask takes one number."""
    if moved := on_device(x, [*indices, values]):
        put: torch.Tensor = _aten.index_put(x, moved[:-1], moved[-1], accumulate)
        return put
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype is torch.bool:
        return _put_masked(x, indices[0], values, accumulate)
    dims = [d for d, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if not given or any(index.dtype not in INDICES or index.numel() == 0 for index in given):
        return NOT_TAKEN
    own = _is_row(x, dims, accumulate)
    if x.dtype not in FLOATS or values.dtype != x.dtype or x.numel() == 0 or own:
        return NOT_TAKEN
    order = dims + [d for d in range(x.dim()) if d not in dims]
    rows = math.prod(x.shape[d] for d in dims)
    if rows > MOST_COUNTED:
        return NOT_TAKEN
    number: torch.Tensor | None = None
    for d, index in zip(dims, given, strict=True):
        place = _checked(index, x.shape[d])
        number = place if number is None else number * x.shape[d] + place
    assert number is not None
    rest = [x.shape[d] for d in order[len(dims) :]]
    front = x.permute(order).reshape(rows, -1)
    adjoining = dims == list(range(dims[0], dims[0] + len(dims)))
    before = x.shape[: dims[0]] if adjoining else ()
    sizes = [*before, *number.shape, *rest[len(before) :]]
    source = values.expand(sizes)
    source = source.permute(
        *range(len(before), len(before) + number.dim()),
        *range(len(before)),
        *range(len(before) + number.dim(), len(sizes)),
    )
    result = _put_rows(front, number.reshape(-1), source.reshape(number.numel(), -1), accumulate)
    if not isinstance(result, torch.Tensor):
        return NOT_TAKEN
    back = [order.index(d) for d in range(x.dim())]
    return result.reshape([x.shape[d] for d in order]).permute(back).contiguous()


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
    x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor, accumulate: bool
) -> torch.Tensor | NotTaken:
    """Of several numbers each goes to a place that depends on the mask's."""
    if values.numel() != 1 or values.dtype != x.dtype or mask.dim() == 0 or x.numel() == 0:
        return NOT_TAKEN
    if mask.shape != x.shape[: mask.dim()]:
        return NOT_TAKEN
    wide = mask.reshape(*mask.shape, *[1] * (x.dim() - mask.dim()))
    number = values.reshape(())
    return torch.where(wide, x + number if accumulate else number, x)


@part(_aten.masked_scatter.default, narrow=True)
def masked_scatter(
    x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    """The n-th place of the mask gets the source's n-th element."""
    if x.dtype not in FLOATS or source.dtype != x.dtype or mask.dtype is not torch.bool:
        return NOT_TAKEN
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if math.prod(shape) > MOST_COUNTED or math.prod(shape) == 0 or source.numel() == 0:
        return NOT_TAKEN
    wide = mask.expand(shape).reshape(-1)
    number = (wide.to(torch.float32).cumsum(0) - 1).clamp(min=0.0).to(torch.int64)
    number = torch.where(wide, number, 0)
    found = source.reshape(-1)[number].reshape(shape)
    return torch.where(mask, found, x)


@part(_aten.take.default, narrow=True)
def take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor | NotTaken:
    if index.numel() == 0 or x.numel() == 0 or index.dtype is not torch.int64:
        return NOT_TAKEN
    return x.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def _is_row(x: torch.Tensor, dims: list[int], accumulate: bool) -> bool:
    """The compiler's own."""
    taken = x.dtype in computed() or not accumulate
    return len(dims) == 1 and taken and x.numel() > x.shape[dims[0]]


@part(_aten.put.default, narrow=True)
def put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor | NotTaken:
    if index.numel() != source.numel():
        return NOT_TAKEN
    flat = index_put(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.reshape(x.shape) if isinstance(flat, torch.Tensor) else flat


@part(_aten.index_copy.default, narrow=True)
def index_copy(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor | NotTaken:
    """Rows of one element."""
    return _put_along(x, dim, index, source, False)


@part(_aten.index_add.default, narrow=True)
def index_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: float = 1
) -> torch.Tensor | NotTaken:
    return _put_along(x, dim, index, source if alpha == 1 else source * alpha, True)


def _put_along(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, accumulate: bool
) -> torch.Tensor | NotTaken:
    line, given = (t.reshape(1) if t.dim() == 0 else t for t in (x, source))
    index = index.reshape(-1)
    dim %= line.dim()
    if line.dim() != given.dim() or given.shape[dim] != index.shape[0]:
        return NOT_TAKEN
    if not accumulate and line.numel() != line.shape[dim]:
        return NOT_TAKEN
    indices = [None] * dim + [index]
    own = _is_row(line, [dim], accumulate)
    result = (_aten.index_put if own else index_put)(line, indices, given, accumulate)
    return result.reshape(x.shape) if isinstance(result, torch.Tensor) else result


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
