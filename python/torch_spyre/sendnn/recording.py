# SPDX-License-Identifier: Apache-2.0
"""What every step of a served model took, on the host and on the card's virtual clock.

SPYRE_SENDNN_STEPS names a file that gets a line of JSON for each (steps.py). SPYRE_SERVER_STEPS is
memory that a server shares (shared_steps.py); server_metrics.py sets it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from .. import _C, report
from ..device import memory
from . import resident
from .shared_steps import SharedSteps

FILE, SHARED = "SPYRE_SENDNN_STEPS", "SPYRE_SERVER_STEPS"
_MEMORY_SECONDS = 1.0  # between two looks at the card's memory


@dataclass(frozen=True)
class Step:
    """`kind` is one of shared_steps.KINDS, `tokens` those of a sequence, `blocks` those of the KV
    cache that a sequence reads at most."""

    kind: str
    batch: int
    tokens: int = 0
    blocks: int = 0


class _Recorder:
    """Where the steps of this process go. RuntimeError names a variable with no use."""

    def __init__(self) -> None:
        self.file = _open(os.environ.get(FILE))
        shared = os.environ.get(SHARED)
        self.shared = SharedSteps.open(shared, to_write=True) if shared else None
        self.looked = 0.0  # at the card's memory

    def add(self, step: Step, host_s: float, card_s: float) -> None:
        if self.file:
            line = {"end": time.time(), **vars(step), "host_s": host_s, "card_us": 1e6 * card_s}
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
        if self.shared:
            now = time.monotonic()
            if now - self.looked > _MEMORY_SECONDS:
                self.looked = now
                self.shared.tell({f"bytes:{use}": size for use, size in _memory().items()})
            self.shared.tell({"programs": report.reports.count})
            self.shared.add(step.kind, now, host_s, card_s)


_recorder: _Recorder | None = None


def _open(path: str | None) -> TextIO | None:
    if not path:
        return None
    try:
        return open(path, "a", encoding="utf-8")
    except OSError as refused:
        raise RuntimeError(f"{FILE}={path}: {refused.strerror}") from refused


def _memory() -> dict[str, int]:
    """Bytes of the card by shared_steps.MEMORY."""
    free, total = memory.mem_get_info()
    parameters, caches = resident.bytes_on_card()
    other = total - free - parameters - caches
    return {"parameters": parameters, "kv_cache": caches, "other": other, "free": free}


@contextlib.contextmanager
def recorded(step: Step, card_begin: float | None = None) -> Iterator[None]:
    """Records a step, whose work has ended when the block ends; `card_begin` is card_seconds() of
    one whose work has begun before."""
    global _recorder
    if not _wanted():
        yield
        return
    _recorder = _recorder or _Recorder()
    begin = time.perf_counter()
    card_begin = card_seconds() if card_begin is None else card_begin
    yield
    card_s = card_seconds() - card_begin
    _recorder.add(step, time.perf_counter() - begin, card_s)


def _wanted() -> bool:
    return FILE in os.environ or SHARED in os.environ


def card_seconds() -> float:
    """Where the current stream, all of whose work ends, is on the card's virtual clock; 0 if no
    steps are recorded."""
    if not _wanted():
        return 0.0
    card = _C.current_device()
    stream = _C._current_stream(card)
    _C._stream_synchronize(card, stream)
    return 1e-6 * _C._stream_clock_us(card, stream)
