# SPDX-License-Identifier: Apache-2.0
"""Copies on the card of tensors that programs keep on the CPU.

Parameters and buffers are moved once and shared by all graphs of the process. A copy is made anew
when the tensor has another version (an in-place change that PyTorch saw) or other memory (an
assignment to `.data`), and freed with the tensor. A tensor made in inference mode has no version
and is moved for each call, but for a KV cache. Writes past PyTorch (through NumPy, through a tensor
that `.data` gave) are not seen.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from .. import _C
from .._pytorch.dispatch import version_of
from ..model_utils import move_weight

# tensor of the CPU -> {whether it is a matmul's transposed operand: (state, copy on the card)}
_copies = WeakTensorKeyDictionary()
_lock = threading.Lock()


def state_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Another one when the tensor has changed."""
    return version_of(tensor), tensor.data_ptr()


def on_card(tensor: torch.Tensor, multiplied: bool = False) -> torch.Tensor:
    """The copy of a tensor of the CPU, detached. `multiplied`: a matmul reads it transposed, as
    `Linear` does its weight, so that its sticks lie along dim 0."""
    if tensor.is_inference():
        return _move(tensor, multiplied)
    with _lock:
        copies: dict[bool, tuple[tuple[int, int], torch.Tensor]] = _copies.setdefault(tensor, {})
        state, copy = copies.get(multiplied, (None, tensor))
        if state != state_of(tensor):
            copy = _move(tensor.detach(), multiplied)
            copies[multiplied] = state_of(tensor), copy
        return copy


class Input:
    """One input of a graph that is a parameter or buffer. While it is the same tensor and has not
    changed its copy is found without a look at the table of all."""

    __slots__ = ("multiplied", "tensor", "state", "copy")

    def __init__(self, multiplied: bool):
        self.multiplied = multiplied
        self.tensor: Callable[[], Any] = object  # never the same one
        self.copy: Callable[[], torch.Tensor | None] = lambda: None
        self.state = (-1, 0)

    def known(self, value: Any) -> torch.Tensor | None:
        """The copy of the last tensor, if the value is that and has not changed."""
        if self.tensor() is value and self.state == state_of(value):
            return self.copy()
        return None

    def on_card(self, tensor: torch.Tensor) -> torch.Tensor:
        """As on_card() of this module."""
        copy = on_card(tensor, self.multiplied)
        if not tensor.is_inference():
            self.tensor, self.copy = weakref.ref(tensor), weakref.ref(copy)
            self.state = state_of(tensor)
        return copy


def _move(tensor: torch.Tensor, multiplied: bool) -> torch.Tensor:
    if multiplied and tensor.dim() == 2:
        return move_weight(tensor, torch.device("spyre"), None)
    return tensor.to("spyre")


# tensor of the CPU, a KV cache -> (state, its slots on the card)
_caches = WeakTensorKeyDictionary()


def cache_rows(tensor: torch.Tensor) -> torch.Tensor:
    """The slots [slots, heads * width] of a paged KV cache [blocks, block size, heads, width]. The
    tensor of the CPU gives them their first values; a change of it, all of them again."""
    with _lock:
        rows: torch.Tensor
        state, rows = _caches.get(tensor, (None, tensor))
        if state != state_of(tensor):
            rows = _rows(tensor.detach().flatten(2).flatten(0, 1))
            _caches[tensor] = state_of(tensor), rows
    return rows


_stores = 0


def count_store() -> None:
    """A call writes into a cache."""
    global _stores
    _stores += 1


def stores() -> int:
    """Counts the calls of the process that wrote into a cache."""
    return _stores


def _rows(slots: torch.Tensor) -> torch.Tensor:
    """On the card in the default layout, which no program changes: rows are written one by one."""
    layout = _C.SpyreTensorLayout(list(slots.shape), slots.dtype)
    return slots.to("spyre", device_layout=layout)  # type: ignore[call-overload, no-any-return]


def bytes_to_move(tensor: torch.Tensor) -> int:
    """Of a tensor's first copy; 0 when it has one."""
    with _lock:
        return 0 if tensor in _copies else tensor.numel() * tensor.element_size()


def bytes_of_new_cache(tensor: torch.Tensor) -> int:
    """Of a cache's slots; 0 when they are on the card."""
    with _lock:
        return 0 if tensor in _caches else tensor.numel() * tensor.element_size()


def bytes_on_card() -> tuple[int, int]:
    """Of copies of parameters and buffers, and of KV caches, as they lie on the card."""
    with _lock:
        copies = [copy for copies in _copies.values() for _, copy in copies.values()]
        caches = [rows for _, rows in _caches.values()]
    of_copies, of_caches = (sum(map(_bytes, tensors)) for tensors in (copies, caches))
    return of_copies, of_caches


def _bytes(tensor: torch.Tensor) -> int:
    return _C.get_spyre_tensor_layout(tensor).device_bytes()
