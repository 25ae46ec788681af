# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are as large as values say: nonzero, reading at masks, what differs from
its neighbour. With every device the host waits for the number of elements; here it reads where they
are, too, at once, which is sooner done than a program of the card that counts them and a second
wait. What lies there is read on the card."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _fallback
from .._pytorch.dispatch import OpOverload
from ..compile.register_decomposition import NOT_TAKEN, NotTaken

_aten = torch.ops.aten

_RULE = "its size depends on values"


def nonzero(x: Tensor) -> Tensor | NotTaken:
    """[number, rank] int64: where x is not 0, in order; dims one behind the other, as PyTorch's."""
    found: Tensor | NotTaken = _read(_aten.nonzero.default, x)
    return found


def repeat_interleave(repeats: Tensor, output_size: int | None = None) -> Tensor | NotTaken:
    """[sum of repeats]: each index as often as it says."""
    found: Tensor | NotTaken = _read(
        _aten.repeat_interleave.Tensor, repeats, output_size=output_size
    )
    return found


def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, ...] | NotTaken:
    """Of equal neighbours the first; of each element that one's place; how many there are."""
    found: tuple[Tensor, ...] | NotTaken = _read(
        _aten.unique_consecutive.default, x, return_inverse, return_counts, dim
    )
    return found


def _read(op: OpOverload, x: Tensor, *how: Any, **options: Any) -> Any:
    """What the host finds in `x`, a tensor or several."""
    if x.device.type != "spyre" or x.layout != torch.strided:
        return NOT_TAKEN
    began = time.perf_counter()
    found = op(x.cpu(), *how, **options)
    several = found if isinstance(found, tuple) else (found,)
    results = tuple(part.to(x.device) for part in several)
    size = sum(part.nbytes for part in several)
    _fallback.account(op, _RULE, False, x.nbytes, size, time.perf_counter() - began)
    return results if isinstance(found, tuple) else results[0]


def masked_select(x: Tensor, mask: Tensor) -> Tensor | NotTaken:
    x, mask = torch.broadcast_tensors(x, mask)
    if mask.dtype is not torch.bool or x.device.type != "spyre" or x.device != mask.device:
        return NOT_TAKEN
    return x[mask]


def at_masks(x: Tensor, indices: Sequence[Tensor | None]) -> Iterator[Tensor | None]:
    """The indices, masks as the indices of what they choose. A mask of other sizes than its dims
    stays, for PyTorch to refuse."""
    dim = 0
    for index in indices:
        if index is None or index.dtype is not torch.bool:
            yield index
            dim += 1
            continue
        fits = index.dim() > 0 and index.shape == x.shape[dim : dim + index.dim()]
        dim += index.dim()
        if fits:
            yield from index.nonzero().unbind(1)
        else:
            yield index


COUNTED: dict[OpOverload, Callable[..., Any]] = {
    _aten.nonzero.default: nonzero,
    _aten.masked_select.default: masked_select,
    _aten.repeat_interleave.Tensor: repeat_interleave,
    _aten.unique_consecutive.default: unique_consecutive,
}
