# SPDX-License-Identifier: Apache-2.0
"""One program for all buckets of some dims (buckets.py), which each launch's sizes correct.

The graph is compiled at the largest sizes and at smaller ones; the library finds how every number
of the program follows from the sizes (`include/spyre/sizes.h`), or says why one program cannot
serve all. Then each bucket of the dim with fewer has a program for all of the other, and without
one each has its own, as every other size.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sympy
import torch

from .. import _C, config
from ..debug import kernel_files
from .buckets import Buckets

_log = logging.getLogger("spyre.inductor")

Compile = Callable[[list[Any]], _C.Executable | None]  # of arguments; None: it is interpreted


class Family:
    """An executable that serves multiples of a granule."""

    def __init__(self, executable: _C.Executable) -> None:
        self.executable = executable

    def at(self, sizes: list[int]) -> _C.Executable:
        executable = self.executable.at_sizes(sizes)
        if kernel_files.wanted():
            kernel_files.write_cycles(executable)
        return executable


class _Span(NamedTuple):
    symbol: sympy.Symbol
    granule: int
    most: int


_Spans = tuple[_Span, ...]  # of the dims whose sizes one program takes


class Families:
    """Those of one graph, by dims and by its arguments with these at their largest sizes. A family
    goes with the last of its programs."""

    def __init__(self, buckets: Buckets, compile: Compile) -> None:
        self._buckets = buckets
        self._compile = compile
        self._found: weakref.WeakValueDictionary[Any, Family] = weakref.WeakValueDictionary()
        self._refused: dict[Any, str] = {}
        self._choices = _choices_of(buckets)

    def why_not(self, args: Sequence[Any], key_of: Callable[[list[Any]], Any]) -> str:
        """Why buckets have programs of their own at the other sizes of these arguments; "" where
        they have not, or nothing was tried."""
        if not self._choices or not self._refused:
            return ""
        spans = self._choices[-1]
        return self._refused.get((spans, key_of(self._at_most(args, spans))), "")

    def find(
        self, args: Sequence[Any], key_of: Callable[[list[Any]], Any]
    ) -> tuple[Family, list[int], bool] | None:
        """The family of arguments that end a bucket, their sizes, and whether it was made for
        them. None where there is none."""
        if not self._choices or not config.symbolic_programs or not self._lie_as_new(args):
            return None
        values = self._buckets.sizes(args)
        for spans in self._choices:
            sizes = [values[span.symbol] for span in spans]
            if any(n % span.granule or n > span.most for n, span in zip(sizes, spans, strict=True)):
                continue
            largest = self._at_most(args, spans)
            key = spans, key_of(largest)
            if key in self._refused:
                continue
            known = self._found.get(key)
            family = known or self._make(spans, key, largest)
            if family:
                return family, sizes, known is None
        return None

    def _at_most(self, args: Sequence[Any], spans: _Spans) -> list[Any]:
        return self._buckets.at(args, {span.symbol: span.most for span in spans})

    def _lie_as_new(self, args: Sequence[Any]) -> bool:
        """Whether tensors that have the dim lie on the card as new ones of their sizes do."""
        return all(
            _C.tensor_key(value) == _C.tensor_key(torch.empty_like(value))
            for symbols, value in zip(self._buckets.inputs, args, strict=True)
            if symbols and isinstance(value, torch.Tensor)
        )

    def _make(self, spans: _Spans, key: Any, largest: list[Any]) -> Family | None:
        most = [span.most for span in spans]
        executable = self._compile_at(spans, largest, most)
        why = "the graph is interpreted"
        for less in _smaller_sizes(spans) if executable else ():
            smaller = [self._compile_at(spans, largest, sizes) for sizes in _corners(most, less)]
            served = [(s.granule, n, s.most) for s, n in zip(spans, less, strict=True)]
            others = [other for other in smaller if other]
            if executable is None or len(others) < len(smaller):
                break
            refusal = executable.serve_sizes(others, served)
            if refusal is None:
                family = self._found[key] = Family(executable)
                return family
            why, another_may = refusal
            if not another_may:
                break
        self._refused[key] = why
        _log.info("no program for all %d sizes up to %s: %s", _combinations(spans), most, why)
        return None

    def _compile_at(
        self, spans: _Spans, largest: list[Any], sizes: list[int]
    ) -> _C.Executable | None:
        settings = {}
        for prefix, span, size in zip(("", "second_"), spans, sizes, strict=False):
            settings[f"{prefix}symbolic_size"] = size
            settings[f"{prefix}symbolic_granule"] = span.granule
        ends = {span.symbol: size for span, size in zip(spans, sizes, strict=True)}
        with config.patch(settings):
            return self._compile(self._buckets.at(largest, ends))


def _corners(most: list[int], less: list[int]) -> list[list[int]]:
    """The sizes with one dim smaller, and of several dims all."""
    ones = [[*most[:k], less[k], *most[k + 1 :]] for k in range(len(most))]
    return ones if len(most) == 1 else [*ones, less]


def _smaller_sizes(spans: _Spans) -> list[list[int]]:
    """To compare the largest with: near ones are planned as it is, if not by chance."""
    choices = []
    for span in spans:
        count = span.most // span.granule
        near = [n for n in dict.fromkeys((count - 1, count - 2, count // 2)) if n > 0]
        choices.append([n * span.granule for n in near])
    return [[c[min(k, len(c) - 1)] for c in choices] for k in range(max(map(len, choices)))]


def _combinations(spans: Sequence[_Span]) -> int:
    return math.prod(span.most // span.granule for span in spans)


def _choices_of(buckets: Buckets) -> list[_Spans]:
    """The two sizes with most buckets; then that with most, each bucket of others having a
    family."""
    spans = [
        _Span(symbol, granule, buckets.most[symbol] // granule * granule)
        for symbol, granule in buckets.step.items()
    ]
    several = [span for span in spans if span.most > span.granule]
    widest = sorted(several, key=lambda span: -(span.most // span.granule))[:2]
    both = [tuple(widest)] if _combinations(widest) <= config.max_combined_buckets else []
    return [*both, *([(widest[0],)] if len(widest) == 2 else [])] if widest else []
