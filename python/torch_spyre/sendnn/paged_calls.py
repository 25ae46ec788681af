# SPDX-License-Identifier: Apache-2.0
"""Calls of a graph with paged attention (paged.py): sizes, buckets, what is read and written.

A graph has a program for each size of its batch and number of blocks that are read. Blocks are
filled up to a power of two, or the most that there may be, by rows that no query sees. So is the
batch, where the compiler can show that sequences do not mix, by ones that nothing is stored of.
The most are VLLM_DT_MAX_BATCH_SIZE and VLLM_DT_MAX_CONTEXT_LEN; at the end of warm-up (warmup.py)
the programs of all such sizes are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _C
from .._pytorch.fake import symbol_of
from ..compile import backend as driver
from ..compile.dynamic_sizes import bounded_sizes
from . import (
    block_tables,
    decode_ahead,
    environment_variables,
    late_rows,
    paged,
    recording,
    resident,
    warmup,
)
from .reference import to_host

End = Callable[[Sequence[Any], torch.Tensor], late_rows.Compute]  # of arguments, and rows


class PagedCalls:
    """`fakes` are those of the inputs of the rewritten graph."""

    def __init__(self, plan: paged.Plan, fakes: list[Any]):
        self.plan = plan
        self.fakes = fakes
        self.batch = self.blocks = None  # symbols of the sizes, or None where they are numbers
        self.shapes: list[dict[int | None, Any]] = []  # by input: symbols by dim
        self.sized: list[int] = []  # inputs that have any
        self.fills_batch = False
        self.in_warm_up = False
        self.ends: list[End] = []
        self.most_batch = environment_variables.limit("VLLM_DT_MAX_BATCH_SIZE")
        if context := environment_variables.limit("VLLM_DT_MAX_CONTEXT_LEN"):
            plan.form.most_blocks = -(-context // plan.form.block_size)
        self.cache_inputs = [index for store in plan.stores for index in store.caches]
        self.ahead = decode_ahead.Ahead(self)

    def end_late(self, ends: list[End]) -> None:
        """`ends` of the graph, one for each of the plan's tails."""
        self.ends = ends

    def look_at(self, gm: torch.fx.GraphModule) -> None:
        """At the ATen graph, before it is compiled; by then equal sizes have equal symbols."""
        self.shapes = [_symbols(fake) for fake in self.fakes]
        self.sized = [index for index, symbols in enumerate(self.shapes) if symbols]
        if self.plan.metadata:
            rows = self.shapes[-1 - 2 * len(self.plan.form.windows)]
            self.batch, self.blocks = rows.get(0), rows.get(1)
        self.fills_batch = self.batch is not None and bounded_sizes.is_parallel(gm, {self.batch})

    def call(self, card: decode_ahead.Card, args: Sequence[Any]) -> tuple[Any, ...]:
        """`card` computes the rewritten graph; args and results are those of the one before."""
        if warmup.get_warmup_mode() and not self.in_warm_up and self.plan.metadata:
            self.in_warm_up = True
            warmup.at_end(lambda: self._compile_rest(card, list(args)))
        mapping = args[self.plan.slot_mapping]
        size, tokens = mapping.shape
        looks_ahead = tokens == 1 and bool(self.plan.metadata) and not warmup.get_warmup_mode()
        begun = self.ahead.take(args) if looks_ahead else None
        step = begun or self.step(args)
        kind = "decode" if tokens == 1 else "prompt"
        with recording.recorded(recording.Step(kind, size, tokens, step.blocks()), step.card_begin):
            results = step.results or _computed(card, self.values(args, step))
            self._store(results, step.caches, mapping)
            if looks_ahead:
                self.ahead.look_at(card, args, step)
            found = self._results(results, args, size)
        if looks_ahead:
            self.ahead.begin(card, found[0])
        return found

    def step(
        self, args: Sequence[Any], caches: list[torch.Tensor] | None = None
    ) -> decode_ahead.Step:
        """Not begun; as decode_ahead.Calls has it."""
        caches = caches or [resident.cache_rows(cache) for cache in self.caches_of(args)]
        batch = self._filled(args[self.plan.slot_mapping].shape[0])
        return decode_ahead.Step(caches, self._reads(args, caches[0].shape[0]), batch)

    # ---- sizes

    def caches_of(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """The KV caches among the arguments, of keys and values in turn."""
        return [args[i] for i in self.cache_inputs]

    def most_bytes(self, args: Sequence[Any]) -> int:
        """Of the rows that one layer reads in the largest step that warm-up prepares."""
        sizes = self._later_sizes(args[self.plan.slot_mapping].shape[0])
        most = max((batch * blocks for batch, blocks in sizes), default=0)
        pair = self.caches_of(args)[:2]
        return most * sum(cache[0].numel() * cache.element_size() for cache in pair)

    def _filled(self, batch: int) -> int:
        return block_tables.bucket(batch, self.most_batch) if self.fills_batch else batch

    def _reads(self, args: Sequence[Any], count: int) -> block_tables.Reads | None:
        if not self.plan.metadata:
            return None
        metadata = {name: args[i] for name, i in self.plan.metadata.items()}
        mapping = args[self.plan.slot_mapping]

        def are_equal(a: int, b: int) -> bool:
            return a == b or self.fills_batch and self._are_equal(args, a, b)

        return block_tables.reads(mapping, metadata, self.plan.form, count, are_equal)

    def _are_equal(self, args: Sequence[Any], a: int, b: int) -> bool:
        """Whether two sequences of a call, which do not mix, have the same inputs."""
        return all(
            torch.equal(args[index].select(dim, a), args[index].select(dim, b))
            for symbols, index in zip(self.shapes, self.plan.kept, strict=True)
            for dim, symbol in symbols.items()
            if index < len(args) and dim is not None and symbol == self.batch
        )

    def values(self, args: Sequence[Any], step: decode_ahead.Step) -> list[Any]:
        """Inputs of the rewritten graph: caches of the card, the others filled up."""
        values = list(args)
        for i, rows in zip(self.cache_inputs, step.caches, strict=True):
            values[i] = rows
        if step.read:
            values += [step.read.rows, *step.read.seen, *step.read.fresh]
            for i in self.sized:
                kept = self.plan.kept[i]
                values[kept] = self._fit(i, values[kept], step)
        return [values[i] for i in self.plan.kept]

    def fit(self, index: int, value: Any, step: decode_ahead.Step) -> Any:
        """Input `index` of the graph as large as the step's program has it."""
        return self._fit(self.plan.kept.index(index), value, step)

    def _fit(self, index: int, value: Any, step: decode_ahead.Step) -> Any:
        """The same, of the rewritten graph."""
        sizes = {self.batch: step.batch, self.blocks: step.blocks()}
        symbols = self.shapes[index]
        if None in symbols:
            return sizes.get(symbols[None], value)
        for dim, symbol in symbols.items():
            if dim is None or symbol != self.batch:
                continue
            if missing := sizes[symbol] - value.shape[dim]:
                shape = [missing if d == dim else n for d, n in enumerate(value.shape)]
                value = torch.cat([value, value.new_zeros(shape)], dim)
        return value

    # ---- results

    def _results(self, results: list[Any], args: Sequence[Any], batch: int) -> tuple[Any, ...]:
        rows = {index for store in self.plan.stores for index in store.rows}
        rows |= {tail.place for tail in self.plan.tails}
        filled = self.fills_batch and self._filled(batch) != batch
        given = [
            None if i in rows else _cut(to_host(result), batch if filled else None)
            for i, result in enumerate(results)
        ]
        for tail, end in zip(self.plan.tails, self.ends, strict=True):
            table = results[tail.place]
            tokens = table.shape[0] // self._filled(batch)
            given[tail.place] = tail.result((batch, tokens), end(args, table))
        for store in self.plan.stores:
            for cache, result in zip(store.caches, store.results, strict=True):
                if result:
                    tensor = args[cache]
                    wrap = result.wrapped
                    given[result.place] = wrap(tensor, args, given) if wrap else tensor
        return tuple(given[: self.plan.result_count])

    def _store(self, results: list[Any], caches: list[Any], slot_mapping: torch.Tensor) -> None:
        resident.count_store()
        runs = block_tables.writes(slot_mapping)
        rows = [results[i] for store in self.plan.stores for i in store.rows]
        for cache, fresh in zip(caches, rows, strict=True):
            if _C.copy_rows(cache, fresh, runs):
                continue
            for slot, token, count in runs:
                cache.narrow(0, slot, count).copy_(fresh.narrow(0, token, count))

    # ---- warm-up

    def _compile_rest(self, card: decode_ahead.Card, args: list[Any]) -> None:
        """Compiles the programs of sizes that later calls may have, with inputs like `args`."""
        if self.blocks is None and self.batch is None:
            return
        batch, queries = args[self.plan.slot_mapping].shape
        for more, blocks in self._later_sizes(batch):
            caches = [resident.cache_rows(cache) for cache in self.caches_of(args)]
            step = decode_ahead.Step(caches, self._nothing(more, queries, blocks), more)
            with driver.without_launch():
                _computed(card, self.values(self._of_batch(args, more), step))

    def _later_sizes(self, batch: int) -> list[tuple[int, int]]:
        most_blocks, block_size = self.plan.form.most_blocks, self.plan.form.block_size
        total = environment_variables.limit("VLLM_DT_MAX_BATCH_TKV_LIMIT")
        if most_blocks is None:
            return []
        most = self.most_batch or batch
        batches = [batch] if self.batch is None else block_tables.buckets(most)
        if self.batch is not None and not self.fills_batch:
            batches = list(range(1, most + 1))
        return [
            (b, n)
            for b in batches
            for n in block_tables.buckets(most_blocks)
            if total is None or b * n * block_size <= 2 * total
        ]

    def _of_batch(self, args: list[Any], batch: int) -> list[Any]:
        """The inputs with as many sequences, whose values do not matter."""
        resized = list(args)
        for symbols, index in zip(self.shapes, self.plan.kept, strict=True):
            dims = [d for d, s in symbols.items() if s == self.batch and d is not None]
            if self.batch is not None and dims and index < len(args):
                shape = [batch if d in dims else n for d, n in enumerate(args[index].shape)]
                resized[index] = args[index].new_zeros(shape)
        return resized

    def _nothing(self, batch: int, queries: int, blocks: int) -> block_tables.Reads:
        form = self.plan.form
        rows = torch.zeros(batch, blocks, form.block_size, dtype=torch.int64)
        seen = torch.zeros(batch, queries, blocks * form.block_size, dtype=torch.bool)
        fresh = torch.zeros(batch, queries, queries, dtype=torch.bool)
        windows = len(form.windows)
        return block_tables.Reads(rows, [seen] * windows, [fresh] * windows)


def _computed(card: decode_ahead.Card, values: list[Any]) -> list[Any]:
    return list(card.compute(card.move(values)))


def _cut(result: Any, batch: int | None) -> Any:
    """Every result of a graph whose batch is filled begins with the batch."""
    return result[:batch] if batch and isinstance(result, torch.Tensor) else result


def _symbols(fake: Any) -> dict[int | None, Any]:
    """Symbols by dim of a tensor, {None: symbol} of a size."""
    if isinstance(fake, torch.Tensor):
        found = {dim: symbol_of(size) for dim, size in enumerate(fake.shape)}
        return {dim: symbol for dim, symbol in found.items() if symbol is not None}
    symbol = symbol_of(fake)
    return {} if symbol is None else {None: symbol}
