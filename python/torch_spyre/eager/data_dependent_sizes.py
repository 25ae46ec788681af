# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are as large as values say: nonzero, reading at masks. The card finds
where the elements are, all of them with one program for tensors of a size; the host reads their
number, as it does with every device, and the result is the beginning of what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .._pytorch.dispatch import OpOverload
from ..compile.decompositions.lines import running_counts
from ..compile.registered import NOT_TAKEN, NotTaken

_aten = torch.ops.aten

MOST = 1 << 18  # elements, each of which takes a stick on the way
_FLAGS = {torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.int32}


def _is_taken(x: Tensor) -> bool:
    return x.device.type == "spyre" and x.dim() > 0 and 0 < x.numel() < MOST and x.dtype in _FLAGS


def nonzero(x: Tensor) -> Tensor | NotTaken:
    """[number, rank] int64: where x is not 0, in order; dims one behind the other, as PyTorch's."""
    if x.device.type == "spyre" and x.dim() == 0 and x.dtype in _FLAGS:
        return torch.empty(int(bool(x.item())), 0, dtype=torch.int64, device=x.device)
    if not _is_taken(x):
        return NOT_TAKEN
    flat = x.reshape(-1) if x.dtype is torch.bool else x.reshape(-1) != 0
    n = flat.numel()
    until = running_counts(flat.to(torch.float32))
    number = int(until[-1].item())
    if number == 0:
        return torch.empty_strided((0, x.dim()), (1, 0), dtype=torch.int64, device=x.device)
    places = torch.where(flat, until - 1, float(n)).to(torch.int32)  # n: of what is 0
    numbers = torch.arange(n, dtype=torch.float32, device=x.device)
    found = torch.zeros(n + 1, dtype=torch.float32, device=x.device).index_put((places,), numbers)
    places = _coordinates(found[:n].to(torch.int32).to(torch.int64), x.shape)
    kept = torch.empty(x.dim(), number, dtype=torch.int64, device=x.device)
    return kept.copy_(places[:, :number]).t()  # a copy on the card, no program for each number


def _coordinates(number: Tensor, size: torch.Size) -> Tensor:
    """[rank, n] of the numbers of elements."""
    columns = []
    for extent in reversed(size[1:]):
        rest = number // extent
        columns.append(number - rest * extent)
        number = rest
    return torch.stack([number, *reversed(columns)])


def masked_select(x: Tensor, mask: Tensor) -> Tensor | NotTaken:
    x, mask = torch.broadcast_tensors(x, mask)
    if mask.dtype is not torch.bool or not _is_taken(mask) or x.device != mask.device:
        return NOT_TAKEN
    return x[mask]


def at_masks(x: Tensor, indices: Sequence[Tensor | None]) -> Iterator[Tensor | None]:
    """The indices, masks as the indices of what they choose. A mask of other sizes than its dims
    stays, for PyTorch to refuse; so does one that is too long for the card."""
    dim = 0
    for index in indices:
        if index is None or index.dtype is not torch.bool:
            yield index
            dim += 1
            continue
        fits = index.dim() > 0 and index.shape == x.shape[dim : dim + index.dim()]
        dim += index.dim()
        if fits and (index.is_cpu or _is_taken(index)):
            yield from index.nonzero().unbind(1)
        else:
            yield index


COUNTED: dict[OpOverload, Callable[..., Any]] = {
    _aten.nonzero.default: nonzero,
    _aten.masked_select.default: masked_select,
}
