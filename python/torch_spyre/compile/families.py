# SPDX-License-Identifier: Apache-2.0
"""One program for all buckets of a dim (buckets.py), which each launch's size corrects.

The graph is compiled at the largest size and at a smaller one; the library finds how every
number of the program follows from the size (`include/spyre/sizes.h`), or says why one program
cannot serve all. Then each bucket has its own, as every other size.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sympy
import torch

from .. import _C, config
from .buckets import Buckets

_log = logging.getLogger("spyre.inductor")

Compile = Callable[[list[Any]], _C.Executable | None]  # of arguments; None: it is interpreted


class Family:
    """An executable that serves multiples of a granule."""

    def __init__(self, executable: _C.Executable) -> None:
        self.executable = executable


class _Span(NamedTuple):
    symbol: sympy.Symbol
    granule: int
    most: int


class Families:
    """Those of one graph, by its arguments with that dim at the largest size. A family goes with
    the last of its programs."""

    def __init__(self, buckets: Buckets, compile: Compile) -> None:
        self._buckets = buckets
        self._compile = compile
        self._found: weakref.WeakValueDictionary[Any, Family] = weakref.WeakValueDictionary()
        self._refused: dict[Any, str] = {}
        self._span = _span_of(buckets)

    def why_not(self, args: Sequence[Any], key_of: Callable[[list[Any]], Any]) -> str:
        """Why buckets have programs of their own at the other sizes of these arguments; "" where
        they have not, or nothing was tried."""
        if self._span is None or not self._refused:
            return ""
        largest = self._buckets.at(args, {self._span.symbol: self._span.most})
        return self._refused.get(key_of(largest), "")

    def find(
        self, args: Sequence[Any], key_of: Callable[[list[Any]], Any]
    ) -> tuple[Family, int, bool] | None:
        """The family of arguments that end a bucket, their size, and whether it was made for
        them. None where there is none."""
        span = self._span
        if span is None or not config.symbolic_programs:
            return None
        size = self._buckets.sizes(args)[span.symbol]
        if size % span.granule or size > span.most or not self._lie_as_new(args):
            return None
        largest = self._buckets.at(args, {span.symbol: span.most})
        key = key_of(largest)
        if key in self._refused:
            return None
        known = self._found.get(key)
        family = known or self._make(span, key, largest)
        return (family, size, known is None) if family else None

    def _lie_as_new(self, args: Sequence[Any]) -> bool:
        """Whether tensors that have the dim lie on the card as new ones of their sizes do."""
        return all(
            _C.tensor_key(value) == _C.tensor_key(torch.empty_like(value))
            for symbols, value in zip(self._buckets.inputs, args, strict=True)
            if symbols and isinstance(value, torch.Tensor)
        )

    def _make(self, span: _Span, key: Any, largest: list[Any]) -> Family | None:
        executable = self._compile_at(span, largest, span.most)
        why = "the graph is interpreted"
        for size in _smaller_sizes(span) if executable else ():
            smaller = self._compile_at(span, largest, size)
            if executable is None or smaller is None:
                break
            refusal = executable.serve_sizes(smaller, span.granule, size, span.most)
            if refusal is None:
                family = self._found[key] = Family(executable)
                return family
            why, another_may = refusal
            if not another_may:
                break
        self._refused[key] = why
        _log.info("a program for each bucket of %s sizes up to %d: %s", span.most
                  // span.granule, span.most, why)  # fmt: skip
        return None

    def _compile_at(self, span: _Span, largest: list[Any], size: int) -> _C.Executable | None:
        with config.patch(symbolic_size=size, symbolic_granule=span.granule):
            return self._compile(self._buckets.at(largest, {span.symbol: size}))


def _smaller_sizes(span: _Span) -> list[int]:
    """To compare the largest with: near ones are planned as it is, if not by chance."""
    count = span.most // span.granule
    return [n * span.granule for n in dict.fromkeys((count - 1, count - 2, count // 2)) if n > 0]


def _span_of(buckets: Buckets) -> _Span | None:
    """Of the size with most buckets, if they are several; each bucket of others has a family."""
    spans = [
        _Span(symbol, granule, buckets.most[symbol] // granule * granule)
        for symbol, granule in buckets.step.items()
    ]
    widest = max(spans, key=lambda span: span.most // span.granule)
    return widest if widest.most > widest.granule else None
