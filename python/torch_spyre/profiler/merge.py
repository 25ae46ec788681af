# SPDX-License-Identifier: Apache-2.0
"""One trace of the cards of several ranks, by the virtual clock that collectives let them share.

Each trace is what `torch.profiler.profile.export_chrome_trace()` wrote in one rank. Of its events
those of the card carry their place on the card's virtual clock; they are laid out by it, one
process of the trace a rank, one thread a stream. A collective ends at one instant on all its ranks.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..debug.arguments import ArgumentParser, write_lines

_BEGIN, _END = "virtual begin (us)", "virtual end (us)"

Span = tuple[float, float]  # begin and end in microseconds


class Event(NamedTuple):
    """Something the card did; times in microseconds of the virtual clock."""

    name: str
    begin: float
    end: float
    stream: int
    kind: str  # Kineto's: "kernel", "gpu_memcpy", ..
    args: dict[str, Any]


class Account(NamedTuple):
    """Modelled microseconds of one rank."""

    compute: float
    communication: float
    hidden: float  # communication while the card computes


def read(path: str) -> list[Event]:
    """The events of the card in a trace. Raises ValueError, with the path, for anything else."""
    try:
        trace = json.loads(pathlib.Path(path).read_text())
        found = [event for event in trace["traceEvents"] if _END in event.get("args", {})]
        return [
            Event(
                str(event["name"]),
                float(event["args"][_BEGIN]),
                float(event["args"][_END]),
                int(event["args"]["stream"]),
                str(event["cat"]),
                event["args"],
            )
            for event in found
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no trace of torch.profiler: {error}") from error


def is_exchange(event: Event) -> bool:
    """Whether cards communicate in it. Copies and fills of the card have names of their own."""
    return event.kind == "gpu_memcpy" and not event.name.startswith("Memcpy")


def covered(spans: Iterable[Span]) -> list[Span]:
    """The time that the spans cover together, as spans that neither touch nor overlap."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def common(first: Sequence[Span], second: Sequence[Span]) -> float:
    """Microseconds that two results of covered() share."""
    total, at = 0.0, 0
    for begin, end in first:
        while at < len(second) and second[at][1] <= begin:
            at += 1
        ahead = at
        while ahead < len(second) and second[ahead][0] < end:
            total += min(end, second[ahead][1]) - max(begin, second[ahead][0])
            ahead += 1
    return total


def account(events: Sequence[Event]) -> Account:
    """What a rank's card computes and communicates."""
    kernels = covered((e.begin, e.end) for e in events if e.kind == "kernel")
    moves = covered((e.begin, e.end) for e in events if is_exchange(e))
    return Account(
        sum(end - begin for begin, end in kernels),
        sum(end - begin for begin, end in moves),
        common(moves, kernels),
    )


def merge(ranks: Sequence[Sequence[Event]]) -> dict[str, Any]:
    """A trace for Perfetto with a process a rank."""
    traced: list[dict[str, Any]] = []
    for rank, events in enumerate(ranks):
        traced.append(_name("process_name", rank, 0, f"rank {rank}"))
        for stream in sorted({event.stream for event in events}):
            traced.append(_name("thread_name", rank, stream, f"stream {stream}"))
        for event in events:
            traced.append(
                {"ph": "X", "pid": rank, "tid": event.stream, "name": event.name,
                 "cat": "exchange" if is_exchange(event) else event.kind, "ts": event.begin,
                 "dur": event.end - event.begin, "args": event.args}
            )  # fmt: skip
    return {"displayTimeUnit": "ns", "traceEvents": traced}


def _name(what: str, rank: int, stream: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": rank, "tid": stream, "name": what, "args": {"name": name}}


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser("spyre merge", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("traces", nargs="+", help="of rank 0, rank 1, .. in this order")
    parser.add_argument("-o", "--output", required=True, help="the trace to write")
    given = parser.parse_args(arguments)
    try:
        ranks = [read(path) for path in given.traces]
        pathlib.Path(given.output).write_text(json.dumps(merge(ranks)))
    except (OSError, ValueError) as error:
        print(f"spyre merge: {error}", file=sys.stderr)
        return 2
    lines = [f"{'rank':>4s} {'compute us':>12s} {'exchange us':>12s} {'hidden us':>12s}"]
    for rank, events in enumerate(ranks):
        lines.append(f"{rank:4d} " + " ".join(f"{us:12.1f}" for us in account(events)))
    return write_lines(parser.prog, lines)


if __name__ == "__main__":
    sys.exit(main())
