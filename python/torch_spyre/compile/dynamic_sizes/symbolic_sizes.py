# SPDX-License-Identifier: Apache-2.0
"""One program for all buckets of some dims (bounded_sizes.py), which each launch's sizes correct.

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

from ... import _C, config
from ...constants import BYTES_IN_STICK
from ...debug import kernel_files
from .bounded_sizes import Buckets

_log = logging.getLogger("spyre.inductor")

# Of arguments and another size's plan; None: it is interpreted.
Compile = Callable[[list[Any], str | None], _C.Executable | None]


class Family:
    """An executable that serves multiples of a granule."""

    def __init__(self, executable: _C.Executable) -> None:
        self.executable = executable

    def at(self, sizes: list[int]) -> _C.Executable:
        executable = self.executable.at_sizes(sizes)
        if kernel_files.wanted():
            kernel_files.write_cycles(executable)
        return executable


class Found(NamedTuple):
    """The family of arguments."""

    family: Family
    sizes: list[int]
    is_new: bool  # made for them


class _Span(NamedTuple):
    symbol: sympy.Symbol
    granule: int
    most: int


_MOST_PARTS = 4  # of concatenations
_STICK = BYTES_IN_STICK // 2  # elements of 16 bits

_Spans = tuple[_Span, ...]  # of the dims whose sizes one program takes


class Families:
    """Those of one graph, by dims and by its arguments with these at their largest sizes. A family
    goes with the last of its programs."""

    def __init__(self, buckets: Buckets, compile: Compile) -> None:
        self._buckets = buckets
        self._compile = compile
        self._found: weakref.WeakValueDictionary[Any, Family] = weakref.WeakValueDictionary()
        self._refused: dict[Any, str] = {}
        self._final: set[Any] = set()  # of these those that another granule would not serve, too
        self._choices = _choices_of(buckets)

    def why_not(self, args: Sequence[Any], key_of: Callable[[list[Any]], Any]) -> str:
        """Why buckets have programs of their own at the other sizes of these arguments; "" where
        they have not, or nothing was tried."""
        for spans in reversed(self._choices if self._refused else []):
            if why := self._refused.get((spans, key_of(self._at_most(args, spans)))):
                return why
        return ""

    def find(self, args: Sequence[Any], key_of: Callable[[list[Any]], Any]) -> Found | None:
        """The family of arguments that end a bucket. None where there is none."""
        if not self._choices or not config.symbolic_programs or not self._lie_as_new(args):
            return None
        values = self._buckets.sizes(args)
        for spans in self._choices:
            sizes = [values[span.symbol] for span in spans]
            pairs = zip(sizes, spans, strict=True)
            if any(not 0 < n <= span.most or n % span.granule for n, span in pairs):
                continue
            largest = self._at_most(args, spans)
            key = spans, key_of(largest)
            if key in self._refused or self._is_hopeless(spans, key[1]):
                continue
            known = self._found.get(key)
            family = known or self._make(spans, key, largest)
            if family:
                return Found(family, sizes, known is None)
        return None

    def _is_hopeless(self, spans: _Spans, arguments: Any) -> bool:
        """Whether whole sticks as granules would not help these arguments."""
        finer = (other for other in self._choices if other != spans and _in_sticks(other) == spans)
        return any((other, arguments) in self._final for other in finer)

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
        why, another_may = "", True
        for less, parts in _attempts(spans):
            if not another_may:
                break
            with config.patch(symbolic_parts=parts, symbolic_offset=self._buckets.offset):
                made = self._try(spans, largest, less)
            if isinstance(made, _C.Executable):
                family = self._found[key] = Family(made)
                return family
            why, another_may = made
        self._refused[key] = why
        if not another_may:
            self._final.add(key)
        most = [span.most for span in spans]
        _log.info("no program for all %d sizes up to %s: %s", _combinations(spans), most, why)
        return None

    def _try(
        self, spans: _Spans, largest: list[Any], less: list[int]
    ) -> _C.Executable | tuple[str, bool]:
        """An executable that serves all sizes, or why there is none and whether another attempt
        may succeed."""
        most, least = [span.most for span in spans], [span.granule for span in spans]
        executable = self._compile_at(spans, largest, most, None)
        plan = executable.plan() or None if executable else None
        corners = _corners(most, less)
        smaller = [self._compile_at(spans, largest, n, plan) for n in corners if executable]
        others = [other for other in smaller if other]
        if executable is None or len(others) < len(corners):
            return "the graph is interpreted", False
        served = [(s.granule, n, s.most) for s, n in zip(spans, less, strict=True)]
        why = executable.serve_sizes(others, served)
        if why and why[1] == "least" and (other := self._compile_at(spans, largest, least, plan)):
            again = executable.serve_sizes([*others, other], served)
            why = again if again is None or self._buckets.offset else why
        return (why[0], why[1] == "plan") if why else executable

    def _compile_at(
        self, spans: _Spans, largest: list[Any], sizes: list[int], plan: str | None
    ) -> _C.Executable | None:
        settings = {}
        for prefix, span, size in zip(("", "second_"), spans, sizes, strict=False):
            settings[f"{prefix}symbolic_size"] = size
            settings[f"{prefix}symbolic_granule"] = span.granule
        ends = {span.symbol: size for span, size in zip(spans, sizes, strict=True)}
        with config.patch(settings):
            return self._compile(self._buckets.at(largest, ends), plan)


def _corners(most: list[int], less: list[int]) -> list[list[int]]:
    """The sizes with one dim smaller, and of several dims all."""
    ones = [[*most[:k], less[k], *most[k + 1 :]] for k in range(len(most))]
    return ones if len(most) == 1 else [*ones, less]


def _attempts(spans: _Spans) -> list[tuple[list[int], int]]:
    """Smaller sizes to compare the largest with, and of how many parts joined ones are divided as
    one. Near sizes are mostly built as the largest; the size halved is where others are not."""
    choices = []
    for span in spans:
        count = span.most // span.granule
        near = [n for n in dict.fromkeys((count - 1, count - 2, count // 2)) if n > 0]
        choices.append([n * span.granule for n in near])
    sizes = [[c[min(k, len(c) - 1)] for c in choices] for k in range(max(map(len, choices)))]
    return [(sizes[0], 1), (sizes[0], _MOST_PARTS), *((less, 1) for less in sizes[1:])]


def _combinations(spans: Sequence[_Span]) -> int:
    return math.prod(span.most // span.granule for span in spans)


def _in_sticks(spans: _Spans) -> _Spans:
    """The same with granules of whole sticks, where there are several of them."""
    return tuple(
        _Span(span.symbol, granule, span.most // granule * granule)
        if 2 * (granule := math.lcm(span.granule, _STICK)) <= span.most
        else span
        for span in spans
    )


def _choices_of(buckets: Buckets) -> list[_Spans]:
    """The two sizes with most buckets; then that with most, each bucket of others having a
    family. Each also in whole sticks, which a dim may lie along inside of the graph."""
    spans = [
        _Span(symbol, granule, buckets.most[symbol] // granule * granule)
        for symbol, granule in buckets.step.items()
    ]
    several = [span for span in spans if span.most > span.granule]
    widest = sorted(several, key=lambda span: -(span.most // span.granule))[:2]
    few = bool(widest) and _combinations(widest) <= config.max_combined_buckets
    both = [tuple(widest)] if few else []
    one = [(widest[0],)] if len(widest) == 2 else []
    return list(dict.fromkeys(each for s in [*both, *one] for each in (s, _in_sticks(s))))
