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

    windows: tuple[int, ...]  # of sliding attentions, 0 for none: each that a layer has
    block_size: int
    blocks: int | None  # of a block table whose width is a number
    most_blocks: int | None = None  # that a sequence may have, if that is known


@dataclass
class Reads:
    """rows [batch, blocks, block size] that a layer reads, and for each of the form's windows: seen
    [batch, queries, blocks * block size], fresh [batch, queries, queries]."""

    rows: torch.Tensor
    seen: list[torch.Tensor]
    fresh: list[torch.Tensor]


def writes(slot_mapping: torch.Tensor) -> list[tuple[int, int, int]]:
    """Runs of slots that a call writes: (first slot, first token, tokens). Of tokens for one slot
    the last is the one that stays."""
    last = {slot: token for token, slot in enumerate(slot_mapping.flatten().tolist())}
    runs: list[tuple[int, int, int]] = []
    for slot, token in sorted(last.items(), key=lambda item: item[1]):
        first, begin, count = runs[-1] if runs else (-1, -1, 0)
        if (slot, token) == (first + count, begin + count):
            runs[-1] = first, begin, count + 1
        else:
            runs.append((slot, token, 1))
    return runs


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
    written = slot_mapping.numpy()
    batch, queries = written.shape
    _check_slots(written, slots, "slot_mapping")
    first, end = (
        metadata[name].numpy()[:batch, None]
        for name in ("left_padded_prompt_mask", "current_tkv_mask")
    )
    table = metadata["block_table"].numpy()[:batch]
    position = numpy.arange(end.max())
    inside = (position >= first) & (position < end)
    slot = _slots_of(position, table, form.block_size)
    _check_slots(slot[inside], slots, "block_table")
    visible = [_visible(position, end, queries, w) & inside[:, None] for w in form.windows]
    writer = numpy.full(slots, -1)
    writer[written.reshape(-1)] = numpy.arange(written.size)  # of equal slots the last one stays
    token = writer[numpy.where(inside, slot, 0)]
    is_fresh = inside & (token >= 0)
    reader, place = is_fresh.nonzero()
    owner, query = numpy.divmod(token[reader, place], queries)
    for b, other in {*zip(reader.tolist(), owner.tolist(), strict=True)}:
        if not are_equal(b, other):
            raise ValueError(f"paged attention: sequence {b} reads a slot that another one writes")
    fresh = [numpy.zeros((batch, queries, queries), bool) for _ in visible]
    for of_window, sees in zip(fresh, visible, strict=True):
        of_window[reader, :, query] = sees[reader, :, place]
    read = numpy.logical_or.reduce([sees.any(1) for sees in visible])
    rows, seen = _padded(slot, visible, inside & ~is_fresh & read, form)
    return Reads(rows, seen, list(map(torch.from_numpy, fresh)))


def _slots_of(position: Array, table: Array, block_size: int) -> Array:
    """[batch, positions]. ValueError for positions beyond the table."""
    if position.size > table.shape[1] * block_size:
        raise ValueError(f"paged attention: current_tkv_mask has {position.size} positions, "
                         f"block_table {table.shape[1]} blocks of {block_size}")  # fmt: skip
    found: Array = table[:, position // block_size] * block_size + position % block_size
    return found


def _check_slots(slot: Array, slots: int, what: str) -> None:
    if slot.size and (slot.min() < 0 or slot.max() >= slots):
        raise ValueError(f"paged attention: {what} names slots {slot.min()}..{slot.max()} of a "
                         f"cache of {slots}")  # fmt: skip


def _visible(position: Array, end: Array, queries: int, window: int) -> Array:
    """[batch, queries, positions]: the last query of a sequence stands at end - 1."""
    place = (end + numpy.arange(-queries, 0))[:, :, None]
    visible: Array = position <= place
    if window > 0:
        visible &= position > place - window
    return visible


def next_power(number: int) -> int:
    """The least power of two from `number` on."""
    return 1 << max(0, number - 1).bit_length()


def bucket(count: int, most: int | None) -> int:
    """The size of the program for so many: a power of two, or the most that there may be."""
    power = next_power(count)
    return most if most and count <= most < power else power


def buckets(most: int) -> list[int]:
    return sorted({bucket(count, most) for count in range(1, most + 1)})


def _padded(
    slot: Array, visible: list[Array], used: Array, form: Form
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Rows and seen: the slots that are used [batch, positions], at the beginning of as many rows
    for all sequences: a whole number of blocks, one of a bucket where the graph does not say how
    many."""
    batch, queries = visible[0].shape[:2]
    most = int(used.sum(1).max(initial=0))
    blocks = form.blocks or bucket(-(-most // form.block_size), form.most_blocks)
    rows = numpy.zeros((batch, blocks * form.block_size), numpy.int64)
    seen = [numpy.zeros((batch, queries, blocks * form.block_size), bool) for _ in visible]
    reader, place = used.nonzero()
    row = (used.cumsum(1) - 1)[reader, place]
    rows[reader, row] = slot[reader, place]
    for of_window, sees in zip(seen, visible, strict=True):
        of_window[reader, :, row] = sees[reader, :, place]
    in_blocks = rows.reshape(batch, blocks, form.block_size)
    return torch.from_numpy(in_blocks), list(map(torch.from_numpy, seen))
