# SPDX-License-Identifier: Apache-2.0
"""Where tensors lie in a card's memory: directives, and composite addresses.

The names are those of torch-spyre's specification of program execution. A card has seven memory
domains of one region each (`include/spyre/placement.h`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

import torch

from .. import _C
from . import streams
from .streams import Device

_ANYWHERE, _BIND, _INTERLEAVE = range(3)
_DOMAINS = 7
_REGION_BITS = 34


class LogicalAddress(NamedTuple):
    """A place in card memory. `region_id` is the number of a region, or, with FLEX_DEVICE=PF, the
    address at which it begins; `offset` is in bytes, a multiple of 128."""

    region_id: int
    offset: int


class Chunk(NamedTuple):
    """`size` bytes of an allocation that follow one another."""

    addr: LogicalAddress
    size: int
    domain: int


class CompositeAddress(tuple[Chunk, ...]):
    """The chunks of an allocation, in the order of its bytes: one, unless it is interleaved."""

    def chunks(self) -> tuple[Chunk, ...]:
        return tuple(self)

    def total_size(self) -> int:
        return sum(chunk.size for chunk in self)


class AllocationDirective:
    """`with AllocationDirective(..)`: where this thread's new tensors of a card go.

    bind: the memory domain of the one chunk. interleave: True for a chunk in every domain, or the
    domains that get one. Without both: wherever there is a place, as outside of the block. Inside
    of the block a full domain is an OutOfMemoryError that names it.

    Raises: ValueError for both, or for a domain that does not exist.
    """

    def __init__(self, bind: int | None = None, interleave: bool | Iterable[int] = False) -> None:
        spread = range(_DOMAINS) if interleave is True else tuple(interleave or ())
        if bind is not None and interleave is not False:
            raise ValueError("bind and interleave: a tensor is in one chunk or in several")
        named = spread if bind is None else (bind,)
        for domain in named:
            if not 0 <= domain < _DOMAINS:
                raise ValueError(f"memory domain {domain}: expected 0 to {_DOMAINS - 1}")
        if interleave not in (True, False) and not spread:
            raise ValueError("interleave: expected True or memory domains")
        kind = _BIND if bind is not None else _INTERLEAVE if spread else _ANYWHERE
        self._placement = (kind, sum(1 << domain for domain in set(named)))
        self._before: list[tuple[int, int]] = []

    def __enter__(self) -> AllocationDirective:
        self._before.append(_C._exchange_placement(*self._placement))
        return self

    def __exit__(self, *_exception: object) -> None:
        _C._exchange_placement(*self._before.pop())


def composite_address(tensor: torch.Tensor) -> CompositeAddress:
    """Where the memory of the storage of a tensor of any shape lies, rounded bytes included.

    Raises: ValueError for a tensor that is not on the card.
    """
    physical = os.environ.get("FLEX_DEVICE", "").startswith("PF")
    return CompositeAddress(
        Chunk(LogicalAddress(region << _REGION_BITS if physical else region, offset), size, domain)
        for region, offset, size, domain in _C._chunks(tensor)
    )


def memory_domains(device: Device = None) -> list[int]:
    """Bytes that are free in each memory domain of a card."""
    return _C._memory_domains(streams.device_index(device))
