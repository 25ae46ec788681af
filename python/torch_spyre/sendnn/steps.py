# SPDX-License-Identifier: Apache-2.0
"""Tables of the steps of a served model, each a line of JSON in the file that SPYRE_SENDNN_STEPS
names (recording.py).

    {"end": .., "kind": .., "batch": .., "tokens": .., "blocks": .., "host_s": .., "card_us": ..}

`kind` is "prompt", "decode", "rows" for `batch` rows of a prompt's result (late_rows.py), "graph"
for a graph without paged attention; `end` is in seconds since 1970,
`tokens` those of a sequence, `blocks` those of the KV cache that a sequence reads at most,
`host_s` what the call took, emulation included, `card_us` what it took on the card's virtual clock.

    python -m torch_spyre.sendnn.steps STEPS [REQUESTS]

prints them by kind and size. REQUESTS is `request_metrics.jsonl` of the plugin sendnn-inference
(SENDNN_INFERENCE_PERF_METRIC_LOGGING_ENABLED=1, .._DIR): with it, time to the first token and
between tokens of each request, on the host and on the card. A request's time on the card is that of
all steps between its arrival and its end, so it has the steps of others in it as the host's has.
"""

from __future__ import annotations

import bisect
import datetime
import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_Line = dict[str, Any]


def read(path: str, needed: Sequence[str]) -> list[_Line]:
    """The lines of a file. ValueError names the line that is none, or lacks a field."""
    lines = []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except ValueError as wrong:
                raise ValueError(f"{path}:{number}: no line of JSON: {wrong}") from wrong
            missing = [f for f in needed if not isinstance(line, dict) or f not in line]
            if missing:
                raise ValueError(f"{path}:{number}: without {', '.join(missing)}")
            lines.append(line)
    return lines


def of_requests(steps: Sequence[_Line], requests: Sequence[_Line]) -> list[_Line]:
    """Seconds to the first token and between tokens of each request, on host and card."""
    steps = sorted(steps, key=lambda step: step["end"])
    ends = [step["end"] for step in steps]
    sums: list[float] = [0.0, *itertools.accumulate(step["card_us"] / 1e6 for step in steps)]

    def card(begin: float, until: float) -> float:
        slack = 0.001  # the plugin writes milliseconds
        first, last = (bisect.bisect_right(ends, at + slack) for at in (begin, until))
        return sums[last] - sums[first]

    found = []
    for request in requests:
        end = datetime.datetime.fromisoformat(request["timestamp"]).timestamp()
        first = end - request["decode_time_seconds"]
        arrival = end - request["e2e_latency_seconds"]
        more = max(1, request["num_generation_tokens"] - 1)
        found.append({
            "first_host": first - arrival,
            "first_card": card(arrival, first),
            "next_host": (end - first) / more,
            "next_card": card(first, end) / more,
        })  # fmt: skip
    return found


def _middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def _steps_table(steps: Sequence[_Line]) -> Iterator[str]:
    yield f"{'kind':8s}{'batch':>7s}{'blocks':>8s}{'calls':>8s}{'host ms':>10s}{'card ms':>10s}"
    sizes = sorted({(s["kind"], s["batch"], s["blocks"]) for s in steps}, reverse=True)
    for kind, batch, blocks in sizes:
        same = [s for s in steps if (s["kind"], s["batch"], s["blocks"]) == (kind, batch, blocks)]
        host, card = (_middle([s[f] for s in same]) for f in ("host_s", "card_us"))
        yield (f"{kind:8s}{batch:7d}{blocks:8d}{len(same):8d}"
               f"{1e3 * host:10.2f}{card / 1e3:10.3f}")  # fmt: skip


def _requests_table(requests: Sequence[_Line]) -> Iterator[str]:
    yield f"{len(requests)} requests, seconds{'host':>15s}{'card':>12s}"
    for name, what in (("first", "to the first token"), ("next", "between tokens")):
        host, card = ([r[f"{name}_{side}"] for r in requests] for side in ("host", "card"))
        yield f"{what:24s}{_middle(host):15.6f}{_middle(card):12.6f}"
        yield f"{'  at most':24s}{max(host):15.6f}{max(card):12.6f}"


_STEP = ("end", "kind", "batch", "blocks", "host_s", "card_us")
_REQUEST = ("timestamp", "decode_time_seconds", "e2e_latency_seconds", "num_generation_tokens")


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: python -m torch_spyre.sendnn.steps STEPS [REQUESTS]", file=sys.stderr)
        return 2
    try:
        steps = read(arguments[0], _STEP)
        requests = read(arguments[1], _REQUEST) if len(arguments) > 1 else []
    except (OSError, ValueError) as wrong:
        print(f"steps: {wrong}", file=sys.stderr)
        return 2
    for line in _steps_table(steps):
        print(line)
    if requests:
        for line in _requests_table(of_requests(steps, requests)):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
