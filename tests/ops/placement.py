# SPDX-License-Identifier: Apache-2.0
"""Where something ran: from the account of fallbacks and the reports of graphs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch_spyre
from torch_spyre.report import reports

from .forms import FIRST_LINE, GRAPH_FILE


class Place:
    """Where a block of code ran: `name` is "card", "host", or "made" where the host made results of
    no tensor of the card (constants, random numbers); `why` the first reason for the host.
    `by_line` has the reasons of a graph by the line that a node comes from."""

    def __init__(self, name: str = "card", why: str = ""):
        self.name = name
        self.why = why
        self.by_line: dict[int, str] | None = None

    def of_sample(self, number: int) -> Place:
        """The same for one sample of a compiled batch (forms.compiled)."""
        if self.by_line is None:
            return self
        why = self.by_line.get(number + FIRST_LINE)
        return Place() if why is None else Place(self.name, why)


def plain(text: str) -> str:
    """A reason without the numbers and names of one call."""
    text = text.splitlines()[0] if text else ""
    text = re.sub(r"^spyre: |node \d+ \S+ \(eager \S+\): ", "", text)
    text = re.sub(r"\b\d+\b", "N", text)
    return re.sub(r"\[N(, N)*\]", "[..]", text)[:160]


@contextmanager
def watched() -> Iterator[Place]:
    """Records where the calls of the block ran; every other warning is dropped."""
    torch_spyre.reset_fallback_report()
    place = Place()
    reports.clear()  # they are bounded: the oldest may go while the block runs
    with torch_spyre.fallback("silent"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield place
    computed = sorted(torch_spyre.fallback_report(), key=lambda r: not r.is_fallback)
    if computed:
        place.name = "host" if computed[0].is_fallback else "made"
        place.why = plain(f"{computed[0].op} runs on the CPU: {computed[0].reason}")
        _of_graphs(place, torch_spyre.compile_reports())


def _of_graphs(place: Place, found) -> None:
    """Reasons from the reports of the block's graphs; by line where every one has its line."""
    nodes = [node for report in found
             for node in re.findall(r"^node \d+ (\S+) \(?(.*?)\)?: host, (.*)$", report.text, re.M)
             if "without elements" not in node[2]]  # fmt: skip
    if not nodes:
        place.by_line = {} if found and place.name == "made" else None
        return
    place.why = plain(f"{nodes[0][0]}: {nodes[0][2]}")
    assert all(why for _op, _where, why in nodes), f"a reason is missing: {found}"
    lines = [re.match(rf"{re.escape(GRAPH_FILE)}:(\d+) ", where) for _op, where, _why in nodes]
    if all(lines):
        place.by_line = {}
        for line, (op, _where, why) in zip(lines, nodes, strict=True):
            if line:
                place.by_line.setdefault(int(line[1]), plain(f"{op}: {why}"))
