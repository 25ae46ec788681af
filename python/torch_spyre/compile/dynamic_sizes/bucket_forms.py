# SPDX-License-Identifier: Apache-2.0
"""Forms of a graph for the ends of buckets (ragged), and calls of them: one program for all lengths
of a bucket of graphs whose arguments grow (grown_arguments.py), and of graphs at sizes that end no
bucket (masked_sizes.py).

The arguments are read up to the end of the bucket, with zeros behind what there is: those that
grow have them in their memory, others are copied. The form of the graph for a bucket (ragged)
takes the lengths as tensors.

Lengths of arguments that grow are the sizes that have been as long as one of them, before or after
it has, in every call (their buckets: bucket_ends.py).
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from ..._pytorch.fx import SYMBOLIC
from .. import ragged
from ..traced_sizes import UnknownSize
from .bounded_sizes import filled, shortened
from .bucket_ends import STEP, end_of_length
from .grown_arguments import Growing, keep

_log = logging.getLogger("spyre.inductor")

MOST_CALLS = 1024  # of which sizes are known

Sources = dict[sympy.Symbol, tuple[int, int | None]]  # of sizes: an argument, and its dim
EndOf = Callable[[sympy.Symbol, int], int]  # of a size, or a few rows more


@functools.lru_cache(maxsize=1024)
def _places(length: float, rows: int, device: torch.device) -> torch.Tensor:
    """The places of the last rows, int64 on the card; or a number."""
    if not rows:
        return torch.tensor([length], dtype=torch.float32).to(device)
    return torch.arange(int(length) - rows, int(length)).to(device)


@functools.lru_cache(maxsize=1024)
def _places_in_joined(sizes: tuple[tuple[int, int], ...], device: torch.device) -> torch.Tensor:
    """Of joined dims (end, size), outermost first, the places of the rows before all sizes, and
    zeros up to the end of all: int64 on the card."""
    places = torch.zeros(1, dtype=torch.int64)
    for end, size in sizes:
        places = (places.unsqueeze(1) * end + torch.arange(size)).reshape(-1)
    rows = math.prod(end for end, _ in sizes)
    return torch.nn.functional.pad(places, (0, rows - len(places))).to(device)


class Lengths:
    """The sizes of a graph that are lengths, and its forms."""

    def __init__(
        self, gm: torch.fx.GraphModule, growing: Sequence[Growing], places: Sources,
        lengths: set[sympy.Symbol] | None = None, end: EndOf | None = None,
    ) -> None:  # fmt: skip
        self.gm = gm
        self.growing = growing
        self.places = places
        self.lengths = set(places) if lengths is None else lengths
        self.end = end
        self.measures = ragged.measures(gm, self.lengths)
        self.forms: dict[Any, ragged.Form | None] = {}
        self.calls: dict[tuple[int, ...], Call | None] = {}

    def of_call(self, args: Sequence[Any]) -> Call | None:
        """The form for arguments that have not grown yet; None where the graph keeps a program a
        length."""
        sizes = self.sizes(args)
        self._leave_out(sizes, args)
        known = tuple(sizes.values())
        if known not in self.calls:
            keep(self.calls, known, self._call(sizes, args), MOST_CALLS)
        return self.calls[known]

    def sizes(self, args: Sequence[Any]) -> dict[sympy.Symbol, int]:
        return {symbol: args[i] if dim is None else args[i].shape[dim]
                for symbol, (i, dim) in self.places.items()}  # fmt: skip

    def _call(self, sizes: Mapping[sympy.Symbol, int], args: Sequence[Any]) -> Call | None:
        lengths = [sizes[measure.symbol] + (measure.more or 0) for measure in self.measures]
        if not lengths or min(lengths) < 1:
            return None
        ends = self._ends(sizes, lengths)
        alike = [lengths.index(length) for length in lengths]
        key, form = self.form(sizes, args, alike, ends)
        call = Call(key, form, sizes, alike) if form else None
        return call if call and call.is_defined() else None

    def form(
        self, sizes: Mapping[sympy.Symbol, int], args: Sequence[Any],
        alike: list[int], ends: list[int],
    ) -> tuple[Any, ragged.Form | None]:  # fmt: skip
        """That of arguments, and what it is known by."""
        rest = [number for symbol, number in sizes.items() if symbol not in self.lengths]
        key = (len(alike), *ends, *alike, *rest)
        if key not in self.forms:
            keep(self.forms, key, self._make(args, alike, ends))
        return key, self.forms[key]

    def _ends(self, sizes: Mapping[sympy.Symbol, int], lengths: list[int]) -> list[int]:
        """A size, and what is a few rows more or less, end in one bucket; so does what grows,
        before and after it has."""
        if self.end is None:
            longest = max(lengths)
            return [
                end_of_length(longest if longest - length < STEP else length) for length in lengths
            ]
        reach = dict(sizes)
        for measure, length in zip(self.measures, lengths, strict=True):
            reach[measure.symbol] = max(reach[measure.symbol], length)
        return [self.end(measure.symbol, reach[measure.symbol]) for measure in self.measures]

    def _leave_out(self, sizes: Mapping[sympy.Symbol, int], args: Sequence[Any]) -> None:
        """Sizes that have another length than the arguments that grow in their memory."""
        if not self.growing:
            return
        known = {args[g.argument].shape[g.dim] + more for g in self.growing for more in (0, g.rows)}
        others = {symbol for symbol in self.lengths if sizes[symbol] not in known}
        if others:
            self.lengths -= others
            self.measures = ragged.measures(self.gm, self.lengths)
            self.forms.clear()
            self.calls.clear()

    def _make(self, args: Sequence[Any], alike: list[int], ends: list[int]) -> ragged.Form | None:
        longer = list(args)
        for grown in self.growing:
            sizes = list(args[grown.argument].shape)
            sizes[grown.dim] += grown.rows
            longer[grown.argument] = torch.empty(sizes, device="meta")
        try:
            return ragged.make(self.gm, self.growing, longer, self.measures, alike, ends)
        except (ragged.Seen, UnknownSize) as seen:
            what = "arguments that grow" if self.growing else "a size"
            _log.info("a program for each length of %s: %s", what, seen)
            return None


class Call:
    """A form with the lengths of a call."""

    def __init__(
        self,
        key: Any,
        form: ragged.Form,
        sizes: Mapping[sympy.Symbol, int],
        alike: list[int],
    ) -> None:
        self.key = key
        self.alike = alike
        self.form = form
        self.sizes = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}
        self.lengths = [int(size.xreplace(self.sizes)) for size in form.sizes]
        self.ends = form.ends
        self.known: dict[torch.device, list[torch.Tensor]] = {}

    def is_defined(self) -> bool:
        """Whether lengths have the rows that the form asks for, and no number divides by 0."""
        values = [(p.length.xreplace(self.sizes), p.rows) for p in self.form.places if not p.joined]
        are_there = all(value.is_finite and (rows < 2 or value >= rows) for value, rows in values)
        return are_there and min(self.lengths) > 0

    def reach(self, grown: Growing) -> int:
        """How many rows a growing argument is read for."""
        dims = next(dims for place, dims in self.form.arguments if place == grown.argument)
        return self.ends[dims[grown.dim]]

    def arguments(self, args: Sequence[Any], whole: Mapping[int, torch.Tensor]) -> list[Any]:
        """Of the form, from those of the graph and the grown ones up to the end."""
        given = [
            whole[place] if place in whole
            else filled(args[place], {d: self.ends[n] for d, n in dims.items()})
            for place, dims in self.form.arguments
        ]  # fmt: skip
        return given + self.places(ragged.device_of(given))

    def places(self, device: torch.device) -> list[torch.Tensor]:
        """The arguments of the form behind those of the graph."""
        if device not in self.known:
            self.known[device] = [self._place(p, device) for p in self.form.places]
        return self.known[device]

    def _place(self, places: ragged.Places, device: torch.device) -> torch.Tensor:
        if places.joined:
            sizes = ((end, int(size.xreplace(self.sizes))) for end, size in places.joined)
            return _places_in_joined(tuple(sizes), device)
        return _places(float(places.length.xreplace(self.sizes)), places.rows, device)

    def cut(self, results: list[Any]) -> list[Any]:
        return [
            self.lengths[dims[None]]
            if None in dims
            else shortened(result, {d: self.lengths[n] for d, n in dims.items()})
            for result, dims in zip(results, self.form.cuts, strict=True)
        ]


def plan(gm: torch.fx.GraphModule, growing: Sequence[Growing]) -> Lengths | None:
    """Of the second form of a graph; None where nothing tells its lengths."""
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    grow = [inputs[g.argument].meta["val"].shape[g.dim] for g in growing]
    places = places_of(gm)
    if places is None or not all(isinstance(size, torch.SymInt) for size in grow):
        return None  # the only length that the graph is for, or sizes that no argument tells
    return Lengths(gm, growing, places)


def places_of(gm: torch.fx.GraphModule) -> Sources | None:
    """Which arguments tell the sizes of a graph's arguments; None where some are not told."""
    places: Sources = {}
    used = set[sympy.Symbol]()
    for index, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
        for dim, size in sizes:
            if not isinstance(size, SYMBOLIC):
                continue
            if size.node.expr.is_symbol and isinstance(size, torch.SymInt):
                places.setdefault(size.node.expr, (index, dim))
            if dim is not None:
                used |= size.node.expr.free_symbols
    return places if used <= set(places) else None
