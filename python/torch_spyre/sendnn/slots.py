# SPDX-License-Identifier: Apache-2.0
"""Slots of a paged KV cache that a call reads and writes: by slot mapping, block table, masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import numpy.typing
import torch

Array = numpy.typing.NDArray[Any]


@dataclass
class Form:
    """What all layers of a graph have in common."""

    window: int  # of a sliding attention, 0 for none
    block_size: int
    blocks: int | None  # of a block table whose width is a number


@dataclass
class Reads:
    """rows [batch, blocks, block size], seen [batch, queries, blocks * block size], fresh [batch,
    queries, queries]."""

    rows: torch.Tensor
    seen: torch.Tensor
    fresh: torch.Tensor


def writes(slot_mapping: torch.Tensor) -> list[tuple[int, int, int]]:
    """Runs of slots that a call writes: (first slot, first token, tokens). Of tokens for one slot
    the last is the one that stays."""
    slots = slot_mapping.numpy().reshape(-1)
    _, last = numpy.unique(slots[::-1], return_index=True)
    tokens = numpy.sort(slots.size - 1 - last)
    kept = slots[tokens]
    starts = numpy.flatnonzero((numpy.diff(kept) != 1) | (numpy.diff(tokens) != 1)) + 1
    bounds = [0, *starts.tolist(), kept.size]
    return [(int(kept[a]), int(tokens[a]), b - a) for a, b in zip(bounds, bounds[1:], strict=False)]


def reads(
    slot_mapping: torch.Tensor,
    metadata: dict[str, torch.Tensor],
    form: Form,
    slots: int,
    are_equal: Callable[[int, int], bool] = lambda a, b: a == b,
) -> Reads:
    """What the sequences of a call read of a cache of so many slots. ValueError for a slot that the
    cache does not have, and for one that one sequence writes and another reads in the same call,
    unless `are_equal` of both: they write the same, as where one sequence fills up a batch."""
    written, block_size = slot_mapping.numpy(), form.block_size
    batch, queries = written.shape
    _check_slots(written, slots, "slot_mapping")
    writer = numpy.full(slots, -1)
    writer[written.reshape(-1)] = numpy.arange(written.size)  # of equal slots the last one stays
    fresh = numpy.zeros((batch, queries, queries), bool)
    cached = []
    for b in range(batch):
        first, end = (int(metadata[n][b]) for n in ("left_padded_prompt_mask", "current_tkv_mask"))
        position = numpy.arange(first, end)
        slot = metadata["block_table"][b].numpy()[position // block_size] * block_size
        slot = slot + position % block_size
        _check_slots(slot, slots, "block_table")
        visible = _visible(position, end, queries, form.window)
        token = writer[slot]
        is_fresh = token >= 0
        if not all(are_equal(b, other) for other in set((token[is_fresh] // queries).tolist())):
            raise ValueError(f"paged attention: sequence {b} reads a slot that another one writes")
        fresh[b][:, token[is_fresh] % queries] = visible[:, is_fresh]
        used = ~is_fresh & visible.any(0)
        cached.append((slot[used], visible[:, used]))
    return _padded(cached, fresh, form)


def _check_slots(slot: Array, slots: int, what: str) -> None:
    if slot.size and (slot.min() < 0 or slot.max() >= slots):
        raise ValueError(f"paged attention: {what} names slots {slot.min()}..{slot.max()} of a "
                         f"cache of {slots}")  # fmt: skip


def _visible(position: Array, end: int, queries: int, window: int) -> Array:
    """[queries, positions]: the last query stands at end - 1."""
    place = numpy.arange(end - queries, end)[:, None]
    visible = position[None] <= place
    if 0 < window < position.size:
        visible &= position[None] > place - window
    return visible


def next_power(number: int) -> int:
    """The least power of two from `number` on."""
    return 1 << max(0, number - 1).bit_length()


def _padded(cached: list[Any], fresh: Array, form: Form) -> Reads:
    """All sequences with as many rows: a whole number of blocks, a power of two where the graph
    does not say how many."""
    most = max(len(slot) for slot, _ in cached)
    blocks = form.blocks or next_power(-(-most // form.block_size))
    rows = numpy.zeros((len(cached), blocks * form.block_size), numpy.int64)
    seen = numpy.zeros((len(cached), fresh.shape[1], blocks * form.block_size), bool)
    for b, (slot, visible) in enumerate(cached):
        rows[b, : slot.size] = slot
        seen[b, :, : slot.size] = visible
    in_blocks = rows.reshape(len(cached), blocks, form.block_size)
    return Reads(*(torch.from_numpy(x) for x in (in_blocks, seen, fresh)))
