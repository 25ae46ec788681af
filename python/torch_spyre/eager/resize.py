# SPDX-License-Identifier: Apache-2.0
"""`Tensor.resize_` of the card."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .._pytorch.dynamo import untraced


def _by_card(tensor: Tensor, fresh: Tensor, kept: int) -> None:
    fresh.view(-1)[:kept].copy_(tensor.reshape(-1)[:kept])


def by_host(tensor: Tensor, fresh: Tensor, kept: int) -> None:
    """Takes the first `kept` elements along as torch-spyre does: by none of its kernels."""
    host = torch.empty(fresh.shape, dtype=fresh.dtype)
    host.view(-1)[:kept] = tensor.cpu().reshape(-1)[:kept]
    fresh.copy_(host)


def _resize_(
    keep: Callable[[Tensor, Tensor, int], None],
    tensor: Tensor,
    size: Sequence[int],
    memory_format: torch.memory_format | None,
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
        keep(tensor, fresh, kept)
    stride = torch.empty(shape, device="meta", memory_format=form).stride()
    return tensor.set_(fresh.untyped_storage(), 0, fresh.shape, stride)


def register(keep: Callable[[Tensor, Tensor, int], None] = _by_card) -> torch.library.Library:
    """Registers the operator; it stays as long as what is returned. `keep` moves elements."""
    aten = torch.library.Library("aten", "IMPL", "PrivateUse1")

    def resize_(
        tensor: Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
    ) -> Tensor:
        return _resize_(keep, tensor, size, memory_format)

    untraced(_resize_)
    aten.impl("resize_", untraced(resize_))
    return aten
