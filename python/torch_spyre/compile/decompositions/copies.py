# SPDX-License-Identifier: Apache-2.0
"""Copies, of tensors with gaps and in the order of given strides, and what is written into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._pytorch.dispatch import has_gaps
from ..register_decomposition import NOT_TAKEN, NotTaken, traced_part

_aten = torch.ops.aten


@traced_part(_aten.copy.default)
def copy(
    x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False
) -> torch.Tensor | NotTaken:
    """A copy over x, a part of a tensor, would have the gaps of x; nothing needs them."""
    if not has_gaps(x):
        return NOT_TAKEN
    value = source.to(device=x.device, dtype=x.dtype).expand(x.shape)
    return value.clone(memory_format=torch.contiguous_format)


def _without_gaps(op: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """The same for an operator whose result has the strides of its first operand."""

    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | NotTaken:
        if not has_gaps(x):
            return NOT_TAKEN
        return op(x.clone(memory_format=torch.contiguous_format), *args, **kwargs)

    return decomposition


for op in (_aten.slice_scatter.default, _aten.select_scatter.default):
    traced_part(op)(_without_gaps(op))


@traced_part(torch.ops.prims.copy_strided.default)
def copy_strided(x: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """Contiguous in the order that the strides put the dims in."""
    order = sorted(range(x.dim()), key=lambda dim: -stride[dim])
    stored = x.permute(order).clone(memory_format=torch.contiguous_format)
    return stored.permute([order.index(dim) for dim in range(x.dim())])
