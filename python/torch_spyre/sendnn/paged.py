# SPDX-License-Identifier: Apache-2.0
"""Paged attention of a graph for `sendnn`: the KV cache stays on the card.

A graph of foundation-model-stack stores keys and values by `spyre::paged_attn_store`, which returns
a whole new cache, and attends by `spyre::paged_attn_compute`. On the card one operator does both
(compile/customops/paged_attention.py): it attends to rows of the cache as it was and to this
call's keys, and those are written into their slots when the graph has run. So a store writes its
rows only, and what a program gets as the new cache is the tensor that it passed in: its values on
the CPU are those of its beginning, the card has the others. A program that writes into it starts a
cache anew.

Which rows a sequence reads, and which keys each query sees, is worked out once for all layers
(block_tables.py).

fms-model-optimizer keeps caches of eight bits (`spyre::scaled_paged_attn_store` and `_compute`) in
wrappers with a scale for each sequence, by which keys and values are divided to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from . import late_rows
from .block_tables import Form
from .tensor_subclasses import Wrapped, take_parts

_METADATA = ("current_tkv_mask", "left_padded_prompt_mask", "block_table")
_SCALES = ("key_scale", "value_scale")
_STORED = ("key", "value", "key_cache", "value_cache")
_READ = ("query", "key_cache", "value_cache")
_STORES = {
    "spyre.paged_attn_store": (*_STORED, "slot_mapping"),
    "spyre.scaled_paged_attn_store": (*_STORED, *_SCALES, "slot_mapping"),
}
_COMPUTES = {
    "spyre.paged_attn_compute": (*_READ, "scale", *_METADATA),
    "spyre.paged_attn_compute_with_sinks": (*_READ, "scale", *_METADATA, "sinks", "window"),
    "spyre.scaled_paged_attn_compute": (*_READ, *_SCALES, "scale", *_METADATA),
}


class NotPaged(Exception):
    """Paged attention in a form that has no operator on the card; the message says which."""


@dataclass
class Result:
    """A result of the graph that is a cache, or wraps one."""

    place: int
    wrapped: Wrapped | None


@dataclass
class Store:
    """One layer's: inputs that are its cache, results of the graph that are the cache behind it."""

    caches: tuple[int, int]  # of keys and of values
    results: tuple[Result | None, Result | None]
    rows: tuple[int, int]  # results of the rewritten graph: keys and values of this call


@dataclass
class Plan:
    """A graph whose stores and computes have been rewritten. Indices are of placeholders."""

    stores: list[Store]
    slot_mapping: int
    metadata: dict[str, int]  # by name of _METADATA; empty of a graph that only stores
    form: Form
    result_count: int  # of the graph before
    kept: list[int]  # inputs of the rewritten graph; beyond the others those of block_tables.Reads
    tails: list[late_rows.Tail]  # of results whose rows are computed when they are read


def _name(node: Any) -> str:
    return str(node.target).removesuffix(".default") if node.op == "call_function" else ""


def _operands(node: Any) -> dict[str, Any]:
    """Of a store or a compute, by name."""
    names = (_STORES | _COMPUTES)[_name(node)]
    return dict(zip(names, node.args, strict=False))


def rewrite(gm: torch.fx.GraphModule, fakes: list[Any]) -> Plan | None:
    """Rewrites a graph of Dynamo in place and gives new inputs their fakes; None, and nothing done,
    of a graph without paged attention. Raises NotPaged before anything is changed."""
    stores: list[Any] = [node for node in gm.graph.nodes if _name(node) in _STORES]
    if not stores:
        return None
    take_parts(gm.graph)
    return _Rewriter(gm, fakes, stores).rewrite()


class _Rewriter:
    def __init__(self, gm: torch.fx.GraphModule, fakes: list[Any], stores: list[Any]):
        self.gm, self.graph, self.fakes, self.stores = gm, gm.graph, fakes, stores
        self.placeholders: list[Any] = gm.graph.find_nodes(op="placeholder")
        self.computes: list[Any] = [node for node in gm.graph.nodes if _name(node) in _COMPUTES]
        (self.output,) = gm.graph.find_nodes(op="output")
        self.kept: dict[Any, list[Any]] = {}  # by store: keys and values as attention reads them
        self.scaled: dict[Any, list[Any]] = {}  # by store, before they get the cache's dtype

    def rewrite(self) -> Plan:
        plan = self._check()
        inputs = self._add_inputs(plan)
        for node in self.stores:
            with self.graph.inserting_before(node):
                self.kept[node] = self._to_stored(node)
        for node in self.computes:
            self._replace_compute(node, inputs[_window(node)])
        self._return_rows(plan)
        batch = self.fakes[plan.slot_mapping].shape[0]
        plan.tails = late_rows.cut(self.graph, self.placeholders, batch)
        for store in self.stores:
            for part in list(store.users):
                for wrapper in list(part.users):
                    self.graph.erase_node(wrapper)
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
        mapping = _operands(self.stores[0])["slot_mapping"]
        slot_mapping = self._input(mapping, "slot_mapping")
        results = self._results()
        stores = []
        for node in self.stores:
            if _operands(node)["slot_mapping"] is not mapping:
                raise NotPaged("layers of several slot mappings")
            stores.append(self._check_store(node, results))
        windows = sorted({_window(node) for node in self.computes} or {0})
        block_size = self.fakes[stores[0].caches[1]].shape[1]
        metadata, blocks = self._metadata(), None
        if metadata:
            width = self.fakes[metadata["block_table"]].shape[1]
            blocks = width if isinstance(width, int) else None
        form = Form(tuple(windows), block_size, blocks)
        return Plan(stores, slot_mapping, metadata, form, len(results), [], [])

    def _results(self) -> list[Any]:
        (results,) = self.output.args
        return list(results)

    def _input(self, node: Any, what: str) -> int:
        if node not in self.placeholders:
            raise NotPaged(f"{what} that is no input of the graph")
        return self.placeholders.index(node)

    def _check_store(self, node: Any, results: list[Any]) -> Store:
        operands = _operands(node)
        caches = tuple(self._input(operands[name], "a cache") for name in _STORED[2:])
        for index in caches:
            if len(self.placeholders[index].users) > 1:
                raise NotPaged("a cache that more than a store reads")
            if not all(isinstance(size, int) for size in self.fakes[index].shape):
                raise NotPaged("a cache of symbolic sizes")
        found: list[Result | None] = [None, None]
        for part in node.users:
            for user in part.users:
                if user in self.computes and user.args[1 + part.args[1]] is part:
                    continue
                found[part.args[1]] = self._result(part, user, results)
        return Store(caches, (found[0], found[1]), (-1, -1))  # type: ignore[arg-type]

    def _result(self, part: Any, user: Any, results: list[Any]) -> Result:
        """`part`, a cache behind a store, is a result of the graph itself or in a wrapper."""
        returned = part if user is self.output else user
        if results.count(returned) != 1 or set(user.users) - {self.output}:
            raise NotPaged(f"{user.target} reads a cache")
        wrapped = None if returned is part else Wrapped.of(returned, part, self.placeholders)
        return Result(results.index(returned), wrapped)

    def _metadata(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in self.computes:
            operands = _operands(node)
            parts = [operands[name] for name in _READ[1:]]
            caches = [part.args[0] if part.args else None for part in parts]
            if caches[0] not in self.stores or caches[1] is not caches[0]:
                raise NotPaged("attention to a cache that is not stored to in the graph")
            for name in _METADATA:
                index = self._input(operands[name], name)
                if found.setdefault(name, index) != index:
                    raise NotPaged(f"layers of several {name}")
        return found

    # ---- what becomes of it

    def _add_inputs(self, plan: Plan) -> dict[int, list[Any]]:
        """By window: rows, seen and fresh (paged_attention), which become the last inputs."""
        if not self.computes:
            return {}
        table = self.fakes[plan.metadata["block_table"]]
        queries, block_size = self.fakes[plan.slot_mapping].shape[1], plan.form.block_size
        batch, blocks = table.shape
        windows = plan.form.windows
        rows = self._add_input("rows", (batch, blocks, block_size), table, torch.int64)
        seen, fresh = (
            [self._add_input(name, (batch, queries, keys), table, torch.bool) for _ in windows]
            for name, keys in (("seen", blocks * block_size), ("fresh", queries))
        )
        with self.graph.inserting_after(fresh[-1]):
            rows = self._call("flatten", rows, 1)
        pairs = zip(seen, fresh, strict=True)
        return {w: [rows, *pair] for w, pair in zip(windows, pairs, strict=True)}

    def _add_input(self, name: str, shape: Any, like: Any, dtype: torch.dtype) -> Any:
        last = self.graph.find_nodes(op="placeholder")[-1]
        with self.graph.inserting_after(last):
            added = self.graph.placeholder(f"paged_{name}")
        with like.fake_mode:
            self.fakes.append(torch.empty(shape, dtype=dtype))
        return added

    def _to_stored(self, node: Any) -> list[Any]:
        """Keys and values of this call as attention reads them: of the cache's dtype."""
        return [self._in_cache_dtype(node, x) for x in self._scaled(node)]

    def _scaled(self, node: Any) -> list[Any]:
        """Keys and values that a store is given, divided by their scales if it has any."""
        operands = _operands(node)
        fresh = [operands[name] for name in _STORED[:2]]
        if _SCALES[0] not in operands:
            return fresh
        if node not in self.scaled:
            with self.graph.inserting_before(node):
                self.scaled[node] = [
                    self._call("div", x, self._factor(operands[scale], x))
                    for x, scale in zip(fresh, _SCALES, strict=True)
                ]
        return self.scaled[node]

    def _in_cache_dtype(self, node: Any, value: Any) -> Any:
        operands = _operands(node)
        if _SCALES[0] not in operands:
            return value
        dtype = self.fakes[self.placeholders.index(operands["key_cache"])].dtype
        return self._call("to", value, dtype)

    def _call(self, method: str, *args: Any) -> Any:
        return self.graph.call_method(method, args)

    def _factor(self, scale: Any, like: Any) -> Any:
        """A scale for each sequence, to meet [batch, keys, heads, width] in their dtype."""
        return self._call("view", self._call("type_as", scale, like), -1, 1, 1, 1)

    def _replace_compute(self, node: Any, inputs: list[Any]) -> None:
        operands = _operands(node)
        store = operands["key_cache"].args[0]
        caches = [_operands(store)[name] for name in _STORED[2:]]
        optional = {name: operands[name] for name in ("sinks", *_SCALES) if name in operands}
        with self.graph.inserting_before(node):
            attention = self.graph.call_function(
                torch.ops.spyre.paged_attention.default,
                (operands["query"], *self.kept[store], *caches, *inputs, operands["scale"]),
                optional,
            )
        attention.meta = dict(node.meta)
        node.replace_all_uses_with(attention)
        self.graph.erase_node(node)

    def _return_rows(self, plan: Plan) -> None:
        """The graph returns keys and values of this call, as rows, in the place of the caches, and
        what their wrappers are made with."""
        results = self._results()
        for store, node in zip(plan.stores, self.stores, strict=True):
            for result in store.results:
                if result:
                    results[result.place] = None
                    if result.wrapped:
                        results += result.wrapped.take_results(len(results))
            with self.graph.inserting_before(self.output):
                rows = [self._in_cache_dtype(node, self._rows_of(x)) for x in self._scaled(node)]
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
        """Whole rows before they get the cache's dtype: a head may be less than a stick of it."""
        return self._call("flatten", self._call("flatten", node, 2, 3), 0, 1)


def _window(compute: Any) -> int:
    """Of a sliding attention; 0 for none."""
    return max(0, int(_operands(compute).get("window", 0)))


def _as_rows(fake: torch.Tensor) -> torch.Tensor:
    """[blocks, block size, heads, width] as [slots, heads * width]."""
    blocks, block_size, heads, width = fake.shape
    return fake.new_empty(blocks * block_size, heads * width)
