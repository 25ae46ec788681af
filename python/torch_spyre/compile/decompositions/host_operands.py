# SPDX-License-Identifier: Apache-2.0
"""Operands that PyTorch lets lie on the host beside a tensor of the device: indices, and numbers in
tensors without dimensions. They go to the card."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part

_aten = torch.ops.aten

Indices = Sequence[torch.Tensor | None]


def on_device(x: torch.Tensor, indices: Indices) -> list[torch.Tensor | None] | None:
    """The indices, all of them beside x; None where they are there already."""
    if x.is_cpu or not any(i is not None and i.is_cpu for i in indices):
        return None
    return [i.to(x.device) if i is not None and i.is_cpu else i for i in indices]


@part(_aten.index.Tensor, narrow=True)
def index(x: torch.Tensor, indices: Indices) -> torch.Tensor | NotTaken:
    moved = on_device(x, indices)
    if moved is None or any(i is not None and i.dtype is torch.bool for i in moved):
        return NOT_TAKEN  # how many elements a mask chooses is the host's business
    found: torch.Tensor = _aten.index(x, moved)
    return found


@part(_aten.masked_fill.Tensor)
def masked_fill(
    x: torch.Tensor, mask: torch.Tensor, value: torch.Tensor
) -> torch.Tensor | NotTaken:
    if x.is_cpu or not value.is_cpu or value.dim() > 0:
        return NOT_TAKEN
    return x.masked_fill(mask, value.to(x.device))


@part(_aten.index_fill.int_Tensor, narrow=True)
def index_fill(
    x: torch.Tensor, dim: int, index: torch.Tensor, value: torch.Tensor
) -> torch.Tensor | NotTaken:
    if x.is_cpu or not value.is_cpu or value.dim() > 0:
        return NOT_TAKEN
    return x.index_fill(dim, index, value.to(x.device, x.dtype))
