# SPDX-License-Identifier: Apache-2.0
"""`Tensor.resize_` of the card."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._pytorch.dynamo import untraced


def _resize_(
    tensor: Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> Tensor:
    shape = torch.Size(size)
    if memory_format is torch.preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    form = memory_format or torch.contiguous_format
    if tensor.shape == shape and (
        memory_format is None or tensor.is_contiguous(memory_format=form)
    ):
        return tensor
    fresh = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    kept = min(fresh.numel(), tensor.numel())
    if kept:
        fresh.view(-1)[:kept].copy_(tensor.reshape(-1)[:kept])
    stride = torch.empty(shape, device="meta", memory_format=form).stride()
    return tensor.set_(fresh.untyped_storage(), 0, fresh.shape, stride)


def register() -> torch.library.Library:
    """Registers the operator; it stays as long as what is returned."""
    aten = torch.library.Library("aten", "IMPL", "PrivateUse1")
    aten.impl("resize_", untraced(_resize_))
    return aten
