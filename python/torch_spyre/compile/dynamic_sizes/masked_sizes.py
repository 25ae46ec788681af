# SPDX-License-Identifier: Apache-2.0
"""Sizes of compiled graphs that have no program of their own: the form of the graph for the end of
the bucket that a size is in (ragged), with the size as a tensor, serves all of the bucket.

torch._dynamo.mark_dynamic() bounds sizes, and says where buckets end (bounded_sizes.py). Where
nothing does, the first sizes of a graph have programs, further ones those of buckets
(bucket_ends.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from ... import _C
from ..._pytorch.fx import SYMBOLIC
from .. import ragged
from . import bucket_ends, bucket_forms
from .bounded_sizes import Buckets, Symbols
from .grown_arguments import keep
from .symbolic_sizes import Families

MOST_OWN = 4  # sizes of a graph that have programs of their own, where nothing bounds them

# Of a form, known by a key, with arguments and the plan of another end.
Compile = Callable[[Any, ragged.Form, list[Any], str | None], _C.Executable | None]


class MaskedSizes:
    """Of one graph."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        places: bucket_forms.Sources,
        buckets: Buckets | None,
        compile: Compile,
        is_served: Callable[[list[Any]], bool],
    ) -> None:
        symbols = set(buckets.step) if buckets else set(places)
        self._gm = gm
        self._buckets = buckets
        self._compile = compile
        self._is_served = is_served  # arguments that end a bucket have a program for all buckets
        self._lengths = bucket_forms.Lengths(gm, [], places, symbols, self._end)
        self._own: dict[tuple[int, ...], bool] = {}  # of sizes: whether they have programs
        self._in_sticks = set[sympy.Symbol]()  # what masks lie along
        self._families: dict[Any, Families] = {}

    def of_call(self, args: Sequence[Any]) -> bucket_forms.Call | None:
        """The form for a call; None where its sizes have a program."""
        if self._has_own(args):
            return None
        call = self._lengths.of_call(args)
        met = self._met(call.form) if call and self._buckets else set()
        if met <= self._in_sticks:
            return call
        self._round(met)
        return self._lengths.of_call(args)

    def round_to_sticks(self) -> bool:
        """Lets all buckets end at whole sticks, where no program serves finer ones; False where
        they do."""
        symbols = set(self._buckets.step) if self._buckets else set()
        if symbols <= self._in_sticks:
            return False
        self._round(symbols)
        return True

    def _round(self, symbols: set[sympy.Symbol]) -> None:
        self._in_sticks |= symbols
        self._lengths.calls.clear()
        self._families.clear()

    def _met(self, form: ragged.Form) -> set[sympy.Symbol]:
        """Sizes along which elements meet, so that a mask tells them from what is behind."""
        numbers = {p.end_of for p in form.places} - {None}
        return {m.symbol for i, m in enumerate(self._lengths.measures) if i in numbers}

    def families(self, call: bucket_forms.Call, args: Sequence[Any]) -> Families | None:
        """Those of the form for a call, and for other ends."""
        if not self._buckets or call.alike != list(range(len(call.alike))):
            return None
        if self._has_joined(call.form):
            return None
        rest = tuple(n for s, n in self._lengths.sizes(args).items() if s not in self._buckets.step)
        if rest not in self._families:
            ends = self._buckets_of(call.form)
            like = [_without_data(value) for value in args]
            sizes = self._lengths.sizes(args)

            def compile(given: list[Any], plan: str | None) -> _C.Executable | None:
                there = {**sizes, **ends.sizes(given)}
                key, form = self._at(there, like)
                return self._compile(key, form, given, plan) if form else None

            keep(self._families, rest, Families(ends, compile))
        return self._families[rest]

    def _has_joined(self, form: ragged.Form) -> bool:
        """Whether arguments have other lengths than sizes and some rows more."""
        numbers = [number for _, dims in form.arguments for number in dims.values()]
        count = len(self._lengths.measures)
        numbers += [p.end_of for p in form.places if p.end_of is not None]
        return any(n >= count for n in numbers) or any(p.joined for p in form.places)

    def _at(
        self, sizes: Mapping[sympy.Symbol, int], like: Sequence[Any]
    ) -> tuple[Any, ragged.Form | None]:
        """The form at these ends."""
        measures = self._lengths.measures
        placeholders = self._gm.graph.find_nodes(op="placeholder")
        args = [_at_sizes(n.meta["val"], value, sizes)
                for n, value in zip(placeholders, like, strict=True)]  # fmt: skip
        ends = [sizes[measure.symbol] for measure in measures]
        return self._lengths.form(self._lengths.sizes(args), args, [*range(len(ends))], ends)

    def _buckets_of(self, form: ragged.Form) -> Buckets:
        """The ends by argument of a form."""
        assert self._buckets is not None
        of = [measure.symbol for measure in self._lengths.measures]
        inputs: list[Symbols] = [
            {dim: of[number] for dim, number in dims.items()} for _, dims in form.arguments
        ]
        inputs += [{} if p.end_of is None else {0: of[p.end_of]} for p in form.places]
        used = {symbol for symbols in inputs for symbol in symbols.values()}
        step = {symbol: self._end(symbol, 1) for symbol in self._buckets.step if symbol in used}
        most = {symbol: self._end(symbol, self._most(symbol)) for symbol in step}
        return Buckets(inputs, None, step, most, form.offset)

    def _most(self, symbol: sympy.Symbol) -> int:
        more = [m.more or 0 for m in self._lengths.measures if m.symbol == symbol]
        assert self._buckets is not None
        return self._buckets.most[symbol] + max(0, *more)

    def _has_own(self, args: Sequence[Any]) -> bool:
        sizes = tuple(self._lengths.sizes(args).values())
        if sizes not in self._own:
            own = len(self._own) < MOST_OWN if self._buckets is None else self._ends_bucket(args)
            keep(self._own, sizes, own, bucket_forms.MOST_CALLS)
        return self._own[sizes]

    def _ends_bucket(self, args: Sequence[Any]) -> bool:
        assert self._buckets is not None
        sizes = self._buckets.sizes(args)
        if any(size % self._buckets.step[symbol] for symbol, size in sizes.items()):
            return False
        return self._is_served(list(args))

    def _end(self, symbol: sympy.Symbol, size: int) -> int:
        if self._buckets is None:
            return bucket_ends.end_of_unbounded(size)
        step, most = self._buckets.step[symbol], self._buckets.most[symbol]
        if symbol in self._in_sticks:
            step = min(math.lcm(step, bucket_ends.STEP), most)
        return bucket_ends.end_of_bounded(size, step)


def _without_data(value: Any) -> Any:
    """A tensor that lies as another one does, without memory."""
    if not isinstance(value, torch.Tensor):
        return value
    steps = zip(value.shape, value.stride(), strict=True)
    extent = value.storage_offset() + sum(max(n - 1, 0) * step for n, step in steps) + 1
    whole = torch.empty(extent, dtype=value.dtype, device="meta")
    return whole.as_strided(value.shape, value.stride(), value.storage_offset())


def _at_sizes(fake: Any, value: Any, sizes: Mapping[sympy.Symbol, int]) -> Any:
    """An argument at other sizes."""

    def number(size: Any) -> int:
        return int(size.node.expr.xreplace(sizes)) if isinstance(size, SYMBOLIC) else size

    if isinstance(fake, SYMBOLIC):
        return number(fake)
    if not isinstance(fake, torch.Tensor) or not any(isinstance(n, SYMBOLIC) for n in fake.shape):
        return value
    return torch.empty([number(n) for n in fake.shape], dtype=fake.dtype, device="meta")


def _are_sizes(gm: torch.fx.GraphModule) -> bool:
    """Whether all numbers among the arguments that are used are sizes of others."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in placeholders]
    sizes: list[Any] = [n for v in values if isinstance(v, torch.Tensor) for n in v.shape]
    known = {size.node.expr for size in sizes if isinstance(size, SYMBOLIC)}
    known |= {symbol for size in known for symbol in size.free_symbols}
    numbers: list[Any] = [n.meta.get("val") for n in placeholders if n.users]
    return all(n.node.expr in known for n in numbers if isinstance(n, SYMBOLIC))


def plan(
    gm: torch.fx.GraphModule,
    buckets: Buckets | None,
    compile: Compile,
    is_served: Callable[[list[Any]], bool],
) -> MaskedSizes | None:
    """None for a graph whose sizes arguments do not tell, which is filled up itself, or which takes
    numbers that are no sizes, of which it has a program for any."""
    places = None if buckets and buckets.fills else bucket_forms.places_of(gm)
    if not _are_sizes(gm):
        return None
    return MaskedSizes(gm, places, buckets, compile, is_served) if places else None
