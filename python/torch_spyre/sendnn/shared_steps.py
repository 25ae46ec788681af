# SPDX-License-Identifier: Apache-2.0
"""Steps of a served model in memory that the processes of a server share.

The process whose card computes adds each step; the process that answers a metrics request reads
how much modelled card time lies between two moments, and what the card's memory is used for.

The memory is an array of float64: totals by name (TOTALS), then a ring with a pair for each of the
last RING steps: its end by CLOCK_MONOTONIC, and the card seconds of all steps up to it. A pair is
written before the count that includes it, and each number is written at once, so readers need no
lock.
"""

from __future__ import annotations

import bisect
import fcntl
import mmap
import os
from collections.abc import Mapping

import numpy

KINDS = ("prompt", "decode", "graph", "rows")
MEMORY = ("parameters", "kv_cache", "other", "free")
RING = 1 << 16
_OF_KIND = ("steps", "host_seconds", "card_seconds")
TOTALS = (
    "steps",
    "programs",  # compiled so far
    *(f"{total}:{kind}" for kind in KINDS for total in _OF_KIND),
    *(f"bytes:{use}" for use in MEMORY),
)
_PLACES = {name: place for place, name in enumerate(TOTALS)}
_BYTES = 8 * (len(TOTALS) + 2 * RING)


def _locked(descriptor: int) -> bool:
    """Whether this process is the one that writes."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class SharedSteps:
    """A mapping of the memory that `descriptor` names; the descriptor is not closed."""

    def __init__(self, descriptor: int):
        self._memory = numpy.frombuffer(mmap.mmap(descriptor, _BYTES), numpy.float64)
        self._ends, self._sums = self._memory[len(TOTALS) :].reshape(2, RING)

    @classmethod
    def create(cls) -> tuple[SharedSteps, str]:
        """New memory, and a path by which other processes of the user open it while this one
        lives. It goes when the last of them has ended."""
        descriptor = os.memfd_create("spyre-steps", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _BYTES)
        return cls(descriptor), f"/proc/{os.getpid()}/fd/{descriptor}"

    @classmethod
    def open(cls, path: str, to_write: bool = False) -> SharedSteps | None:
        """What another process has created; None when one more writes already. RuntimeError for a
        path that is no such memory."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as refused:
            raise RuntimeError(f"steps of the server, {path}: {refused.strerror}") from refused
        size = os.fstat(descriptor).st_size
        is_free = size == _BYTES and (not to_write or _locked(descriptor))
        if is_free:
            return cls(descriptor)  # which keeps the lock
        os.close(descriptor)
        if size != _BYTES:
            raise RuntimeError(f"steps of the server, {path}: {size} bytes, expected {_BYTES}")
        return None

    def __getitem__(self, name: str) -> float:
        """One of TOTALS: of the process, sizes in bytes, times in seconds."""
        return float(self._memory[_PLACES[name]])

    def add(self, kind: str, end: float, host_s: float, card_s: float) -> None:
        """A step of KINDS that ended at `end` by time.monotonic()."""
        count = int(self["steps"])
        last = self._sums[(count - 1) % RING] if count else 0.0
        self._ends[count % RING], self._sums[count % RING] = end, last + card_s
        for total, more in zip(_OF_KIND, (1, host_s, card_s), strict=True):
            self._memory[_PLACES[f"{total}:{kind}"]] += more
        self._memory[_PLACES["steps"]] = count + 1

    def tell(self, totals: Mapping[str, float]) -> None:
        """New values of some of TOTALS."""
        for name, value in totals.items():
            self._memory[_PLACES[name]] = value

    def card_seconds(self, begin: float, end: float) -> float:
        """Card time of the steps that ended in (begin, end], by time.monotonic(). Steps before the
        last RING - 1 are forgotten, and take no time."""
        count = int(self["steps"])
        first = max(0, count - RING)
        until, since = (self._sum_at(moment, first, count) for moment in (end, begin))
        return until - since

    def _sum_at(self, moment: float, first: int, count: int) -> float:
        """Of the steps that have ended by then. Of steps [first, count) the ring has the ends."""
        place = bisect.bisect_right(
            range(first, count), moment, key=lambda step: float(self._ends[step % RING])
        )
        if first == 0 and place == 0:
            return 0.0
        return float(self._sums[(first + max(place - 1, 0)) % RING])
