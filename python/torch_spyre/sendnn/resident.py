# SPDX-License-Identifier: Apache-2.0
"""Copies on the card of tensors that programs keep on the CPU.

Parameters and buffers are moved once and shared by all graphs of the process. A copy is made anew
when the tensor has another version (an in-place change that PyTorch saw) or other memory (an
assignment to `.data`), and freed with the tensor. A tensor made in inference mode has no version
and is moved for each call, but for a KV cache. Writes past PyTorch (through NumPy, through a tensor
that `.data` gave) are not seen.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Sequence
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


class Same:
    """Tensors of a call's arguments, by place: whether a later call has the same ones, unchanged.
    All are looked at together, as a step of a small model takes less time than a call of Python for
    each of its parameters."""

    def __init__(self, args: Sequence[Any], places: Sequence[int]):
        self.places = list(places)
        self.tensors = [weakref.ref(args[i]) for i in places]
        self.counted = [i for i in places if not args[i].is_inference()]  # see version_of()
        self.state = self._state(args)

    def holds(self, args: Sequence[Any]) -> bool:
        given, known = [args[i] for i in self.places], [tensor() for tensor in self.tensors]
        return all(map(operator.is_, given, known)) and self.state == self._state(args)

    def _state(self, args: Sequence[Any]) -> tuple[list[int], list[int]]:
        versions = [version_of(args[i]) for i in self.counted]
        return [args[i].data_ptr() for i in self.places], versions


class Copies(Same):
    """Those of a graph's arguments that stay on the card, at `places`; `moved` are all of them on
    the card. Neither tensors nor copies live longer for it."""

    def __init__(self, args: Sequence[Any], places: Sequence[int], moved: Sequence[Any]):
        super().__init__(args, places)
        self.copies = [weakref.ref(moved[i]) for i in places]
        self.others = sorted({*range(len(args))} - {*places})

    def put(self, args: Sequence[Any], moved: list[Any]) -> bool:
        """Puts the copies into their places, if all arguments there are as they were."""
        copies = [copy() for copy in self.copies]
        if any(copy is None for copy in copies) or not self.holds(args):
            return False
        for i, copy in zip(self.places, copies, strict=True):
            moved[i] = copy
        return True


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
