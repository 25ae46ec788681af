# SPDX-License-Identifier: Apache-2.0
"""`Tensor.resize_` of the card."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._pytorch.dynamo import untraced


def _make_room(tensor: Tensor, elements: int) -> None:
    """Lengthens the storage, which other tensors may lie over, to that many elements."""
    storage = tensor.untyped_storage()
    bytes_ = elements * tensor.element_size()
    if storage.nbytes() < bytes_:
        storage.resize_(bytes_)


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
    stride = torch.empty(shape, device="meta", memory_format=form).stride()
    storage, offset = tensor.untyped_storage(), int(tensor.storage_offset())
    if not storage.nbytes() and not offset:  # one with the layout of that shape
        storage = torch.empty(shape, dtype=tensor.dtype, device=tensor.device).untyped_storage()
    elif shape.numel():
        _make_room(tensor, offset + shape.numel())
    return tensor.set_(storage, offset, shape, stride)


def register() -> torch.library.Library:
    """Registers the operator; it stays as long as what is returned."""
    aten = torch.library.Library("aten", "IMPL", "PrivateUse1")
    aten.impl("resize_", untraced(_resize_))
    return aten
