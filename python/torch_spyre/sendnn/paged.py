# SPDX-License-Identifier: Apache-2.0
"""Paged attention of a graph for `sendnn`: the KV cache stays on the card.

A graph of foundation-model-stack stores keys and values by `spyre::paged_attn_store`, which returns
a whole new cache, and attends by `spyre::paged_attn_compute`. On the card one operator does both
(compile/paged_attention.py): it attends to rows of the cache as it was and to this call's keys, and
those are written into their slots when the graph has run. So a store writes its rows only, and what
a program gets as the new cache is the tensor that it passed in: its values on the CPU are those of
its beginning, the card has the others. A program that writes into it starts a cache anew.

Which rows a sequence reads, and which keys each query sees, is worked out here from slot mapping,
block table and masks, once for all layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
import numpy.typing
import torch

Array = numpy.typing.NDArray[Any]
_STORE = "spyre.paged_attn_store"
_COMPUTE = {"spyre.paged_attn_compute": False, "spyre.paged_attn_compute_with_sinks": True}
_METADATA = ("current_tkv_mask", "left_padded_prompt_mask", "block_table")


class NotPaged(Exception):
    """Paged attention in a form that has no operator on the card; the message says which."""


@dataclass
class Store:
    """One layer's: inputs that are its cache, results of the graph that are the cache behind it."""

    caches: tuple[int, int]  # of keys and of values
    results: tuple[int | None, int | None]
    rows: tuple[int, int]  # results of the rewritten graph: keys and values of this call


@dataclass
class Plan:
    """A graph whose stores and computes have been rewritten. Indices are of placeholders."""

    stores: list[Store]
    slot_mapping: int
    metadata: dict[str, int]  # by name of _METADATA; empty of a graph that only stores
    window: int  # of a sliding attention, 0 for none
    block_size: int
    blocks: int | None  # of a block table whose width is a number
    result_count: int  # of the graph before
    kept: list[int]  # inputs of the rewritten graph; beyond the others: rows, seen, fresh


def _name(node: Any) -> str:
    return str(node.target).removesuffix(".default") if node.op == "call_function" else ""


def rewrite(gm: torch.fx.GraphModule, fakes: list[Any]) -> Plan | None:
    """Rewrites a graph of Dynamo in place and gives new inputs their fakes; None, and nothing done,
    of a graph without paged attention. Raises NotPaged before anything is changed."""
    stores: list[Any] = [node for node in gm.graph.nodes if _name(node) == _STORE]
    if not stores:
        return None
    return _Rewriter(gm, fakes, stores).rewrite()


class _Rewriter:
    def __init__(self, gm: torch.fx.GraphModule, fakes: list[Any], stores: list[Any]):
        self.gm, self.graph, self.fakes, self.stores = gm, gm.graph, fakes, stores
        self.placeholders: list[Any] = gm.graph.find_nodes(op="placeholder")
        self.computes: list[Any] = [node for node in gm.graph.nodes if _name(node) in _COMPUTE]
        (self.output,) = gm.graph.find_nodes(op="output")

    def rewrite(self) -> Plan:
        plan = self._check()
        inputs = self._add_inputs(plan)
        for node in self.computes:
            self._replace_compute(node, inputs)
        self._return_rows(plan)
        for store in self.stores:
            for part in list(store.users):
                self.graph.erase_node(part)
            self.graph.erase_node(store)
        for store in plan.stores:
            for index in store.caches:
                self.fakes[index] = _as_rows(self.fakes[index])
        self._drop_inputs(plan)
        self.gm.recompile()
        return plan

    # ---- what the graph must be

    def _check(self) -> Plan:
        first = self.stores[0]
        slot_mapping = self._input(first.args[4], "slot_mapping")
        results = self._results()
        stores = []
        for node in self.stores:
            if node.args[4] is not first.args[4]:
                raise NotPaged("layers of several slot mappings")
            stores.append(self._check_store(node, results))
        windows = {int(node.args[8]) for node in self.computes if _COMPUTE[_name(node)]} or {0}
        if len(windows) > 1:
            raise NotPaged("layers of several sliding windows")
        block_size = self.fakes[stores[0].caches[1]].shape[1]
        metadata, blocks = self._metadata(), None
        if metadata:
            width = self.fakes[metadata["block_table"]].shape[1]
            blocks = width if isinstance(width, int) else None
        window = max(windows)
        return Plan(
            stores, slot_mapping, metadata, max(window, 0), block_size, blocks, len(results), []
        )

    def _results(self) -> list[Any]:
        (results,) = self.output.args
        return list(results)

    def _input(self, node: Any, what: str) -> int:
        if node not in self.placeholders:
            raise NotPaged(f"{what} that is no input of the graph")
        return self.placeholders.index(node)

    def _check_store(self, node: Any, results: list[Any]) -> Store:
        caches = tuple(self._input(node.args[i], "a cache") for i in (2, 3))
        places: list[int | None] = [None, None]
        for index in caches:
            if len(self.placeholders[index].users) > 1:
                raise NotPaged("a cache that more than a store reads")
            if not all(isinstance(size, int) for size in self.fakes[index].shape):
                raise NotPaged("a cache of symbolic sizes")
        for part in node.users:
            for user in part.users:
                if user is self.output and results.count(part) == 1:
                    places[part.args[1]] = results.index(part)
                elif user not in self.computes or user.args[1 + part.args[1]] is not part:
                    raise NotPaged(f"{user.target} reads a cache")
        return Store(caches, (places[0], places[1]), (-1, -1))  # type: ignore[arg-type]

    def _metadata(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in self.computes:
            caches = [cache.args[0] if cache.args else None for cache in node.args[1:3]]
            if caches[0] not in self.stores or caches[1] is not caches[0]:
                raise NotPaged("attention to a cache that is not stored to in the graph")
            for name, value in zip(_METADATA, node.args[4:7], strict=True):
                if found.setdefault(name, self._input(value, name)) != self._input(value, name):
                    raise NotPaged(f"layers of several {name}")
        return found

    # ---- what becomes of it

    def _add_inputs(self, plan: Plan) -> list[Any]:
        """Rows, seen and fresh (paged_attention), as the last inputs."""
        if not self.computes:
            return []
        table = self.fakes[plan.metadata["block_table"]]
        queries = self.fakes[plan.slot_mapping].shape[1]
        batch, blocks = table.shape
        shapes = {"rows": (batch, blocks, plan.block_size),
                  "seen": (batch, queries, blocks * plan.block_size),
                  "fresh": (batch, queries, queries)}  # fmt: skip
        inputs, last = [], self.placeholders[-1]
        for name, shape in shapes.items():
            with self.graph.inserting_after(last):
                last = self.graph.placeholder(f"paged_{name}")
            inputs.append(last)
            dtype = torch.int64 if name == "rows" else torch.bool
            with table.fake_mode:
                self.fakes.append(torch.empty(shape, dtype=dtype))
        with self.graph.inserting_after(last):
            return [self.graph.call_method("flatten", (inputs[0], 1)), *inputs[1:]]

    def _replace_compute(self, node: Any, inputs: list[Any]) -> None:
        store = node.args[1].args[0]
        key, value, key_cache, value_cache = store.args[:4]
        query, scale = node.args[0], node.args[3]
        sinks = node.args[7] if _COMPUTE[_name(node)] else None
        with self.graph.inserting_before(node):
            attention = self.graph.call_function(
                torch.ops.spyre.paged_attention.default,
                (query, key, value, key_cache, value_cache, *inputs, scale, sinks),
            )
        attention.meta = dict(node.meta)
        node.replace_all_uses_with(attention)
        self.graph.erase_node(node)

    def _return_rows(self, plan: Plan) -> None:
        """The graph returns keys and values of this call, as rows, in the place of the caches."""
        results = self._results()
        for store, node in zip(plan.stores, self.stores, strict=True):
            for place in store.results:
                if place is not None:
                    results[place] = None
            with self.graph.inserting_before(self.output):
                rows = [self._rows_of(node.args[i]) for i in (0, 1)]
            store.rows = (len(results), len(results) + 1)
            results += rows
        self.output.args = (tuple(results),)

    def _drop_inputs(self, plan: Plan) -> None:
        """Without the inputs that nothing reads any more, whose sizes would tell programs apart."""
        for index, node in enumerate(self.graph.find_nodes(op="placeholder")):
            if node.users:
                plan.kept.append(index)
            else:
                self.graph.erase_node(node)
        self.fakes[:] = [self.fakes[index] for index in plan.kept]

    def _rows_of(self, node: Any) -> Any:
        width = self.graph.call_method("flatten", (node, 2, 3))
        return self.graph.call_method("flatten", (width, 0, 1))


def _as_rows(fake: torch.Tensor) -> torch.Tensor:
    """[blocks, block size, heads, width] as [slots, heads * width]."""
    blocks, block_size, heads, width = fake.shape
    return fake.new_empty(blocks * block_size, heads * width)


# ---- which rows a call reads and writes


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
    slot_mapping: torch.Tensor, metadata: dict[str, torch.Tensor], plan: Plan, slots: int
) -> Reads:
    """What the sequences of a call read of a cache of so many slots. ValueError for a slot that the
    cache does not have, and for one that one sequence writes and another reads in the same call."""
    written, block_size = slot_mapping.numpy(), plan.block_size
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
        visible = _visible(position, end, queries, plan.window)
        token = writer[slot]
        if ((token >= 0) & (token // queries != b)).any():
            raise ValueError(f"paged attention: sequence {b} reads a slot that another one writes")
        is_fresh = token >= 0
        fresh[b][:, token[is_fresh] % queries] = visible[:, is_fresh]
        used = ~is_fresh & visible.any(0)
        cached.append((slot[used], visible[:, used]))
    return _padded(cached, fresh, plan)


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


def _padded(cached: list[Any], fresh: Array, plan: Plan) -> Reads:
    """All sequences with as many rows: a whole number of blocks, a power of two where the graph
    does not say how many."""
    most = max(len(slot) for slot, _ in cached)
    blocks = plan.blocks or next_power(-(-most // plan.block_size))
    rows = numpy.zeros((len(cached), blocks * plan.block_size), numpy.int64)
    seen = numpy.zeros((len(cached), fresh.shape[1], blocks * plan.block_size), bool)
    for b, (slot, visible) in enumerate(cached):
        rows[b, : slot.size] = slot
        seen[b, :, : slot.size] = visible
    in_blocks = rows.reshape(len(cached), blocks, plan.block_size)
    return Reads(*(torch.from_numpy(x) for x in (in_blocks, seen, fresh)))
