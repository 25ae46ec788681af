# SPDX-License-Identifier: Apache-2.0
"""One program for all lengths of a bucket of graphs whose arguments grow (grown_arguments.py).

The arguments are read up to the end of the bucket, with zeros behind what there is: those that
grow have them in their memory, others are copied. The form of the graph for a bucket (ragged.py)
takes the lengths as tensors.

Lengths are the sizes that have been as long as an argument that grows, before or after it has, in
every call. A bucket ends at a multiple of STEP, and of an eighth of the power of two below the
length.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from .._pytorch.fx import SYMBOLIC
from . import buckets, ragged
from .grown_arguments import Growing, keep
from .sizes import UnknownSize

_log = logging.getLogger("spyre.inductor")

STEP = 64  # rows; a stick of 16 bits


def end_of(length: int) -> int:
    """Where the bucket of a length ends."""
    step = max(STEP, 1 << max(length.bit_length() - 4, 0))
    return -(-length // step) * step


@functools.lru_cache(maxsize=1024)
def _places(length: int, rows: int, device: torch.device) -> torch.Tensor:
    """The places of the last rows, int64 on the card."""
    return torch.arange(length - rows, length).to(device)


class Lengths:
    """The sizes of a graph that are lengths, and its forms."""

    def __init__(
        self, gm: torch.fx.GraphModule, growing: Sequence[Growing],
        places: dict[sympy.Symbol, tuple[int, int | None]],
    ) -> None:  # fmt: skip
        self.gm = gm
        self.growing = growing
        self.places = places  # of sizes: an argument, and its dim
        self.lengths = set(places)
        self.measures = ragged.measures(gm, self.lengths)
        self.forms: dict[Any, ragged.Form | None] = {}

    def of_call(self, args: Sequence[Any]) -> Call | None:
        """The form for arguments that have not grown yet; None where the graph keeps a program a
        length."""
        sizes = {symbol: args[i] if dim is None else args[i].shape[dim]
                 for symbol, (i, dim) in self.places.items()}  # fmt: skip
        self._leave_out(sizes, args)
        lengths = [sizes[measure.symbol] + measure.more for measure in self.measures]
        longest = max(lengths)  # before and after growing, one bucket
        ends = [end_of(longest if longest - length < STEP else length) for length in lengths]
        rest = [number for symbol, number in sizes.items() if symbol not in self.lengths]
        key = (len(lengths), *ends, *map(lengths.index, lengths), *rest)
        if key not in self.forms:
            keep(self.forms, key, self._make(args, lengths, ends))
        form = self.forms[key]
        return Call(key, form, sizes, lengths, ends) if form else None

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

    def _make(self, args: Sequence[Any], lengths: list[int], ends: list[int]) -> ragged.Form | None:
        longer = list(args)
        for grown in self.growing:
            sizes = list(args[grown.argument].shape)
            sizes[grown.dim] += grown.rows
            longer[grown.argument] = torch.empty(sizes, device="meta")
        try:
            return ragged.make(self.gm, self.growing, longer, self.measures, lengths, ends)
        except (ragged.Seen, UnknownSize) as seen:
            _log.info("a program for each length of arguments that grow: %s", seen)
            return None


class Call:
    """A form with the lengths of a call."""

    def __init__(
        self,
        key: Any,
        form: ragged.Form,
        sizes: Mapping[sympy.Symbol, int],
        lengths: list[int],
        ends: list[int],
    ) -> None:
        self.key = key
        self.form = form
        self.sizes = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}
        self.lengths = lengths
        self.ends = ends
        self.known: dict[torch.device, list[torch.Tensor]] = {}

    def reach(self, grown: Growing) -> int:
        """How many rows a growing argument is read for."""
        dims = next(dims for place, dims in self.form.arguments if place == grown.argument)
        return self.ends[dims[grown.dim]]

    def arguments(self, args: Sequence[Any], whole: Mapping[int, torch.Tensor]) -> list[Any]:
        """Of the form, from those of the graph and the grown ones up to the end."""
        given = [
            whole[place] if place in whole
            else buckets.filled(args[place], {d: self.ends[n] for d, n in dims.items()})
            for place, dims in self.form.arguments
        ]  # fmt: skip
        device = next(value.device for value in given if isinstance(value, torch.Tensor))
        return given + self.places(device)

    def places(self, device: torch.device) -> list[torch.Tensor]:
        """The arguments of the form behind those of the graph."""
        if device not in self.known:
            self.known[device] = [
                _places(int(length.xreplace(self.sizes)), rows, device)
                for length, rows in self.form.places
            ]
        return self.known[device]

    def cut(self, results: list[Any]) -> list[Any]:
        return [
            self.lengths[dims[None]]
            if None in dims
            else buckets.shortened(result, {d: self.lengths[n] for d, n in dims.items()})
            for result, dims in zip(results, self.form.cuts, strict=True)
        ]


def plan(gm: torch.fx.GraphModule, growing: Sequence[Growing]) -> Lengths | None:
    """Of the second form of a graph; None where nothing tells its lengths."""
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    places: dict[sympy.Symbol, tuple[int, int | None]] = {}
    used = set[sympy.Symbol]()
    for index, node in enumerate(inputs):
        value = node.meta.get("val")
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
        for dim, size in sizes:
            if not isinstance(size, SYMBOLIC):
                continue
            if size.node.expr.is_symbol and isinstance(size, torch.SymInt):
                places.setdefault(size.node.expr, (index, dim))
            if dim is not None:
                used |= size.node.expr.free_symbols
    grow = [inputs[g.argument].meta["val"].shape[g.dim] for g in growing]
    if not all(isinstance(size, torch.SymInt) for size in grow) or not used <= set(places):
        return None  # the only length that the graph is for, or sizes that no argument tells
    return Lengths(gm, growing, places)
