# SPDX-License-Identifier: Apache-2.0
"""Programs that are kept for the next equal call, at most so many bytes of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")

# Of an entry beside its program: its key and objects of Python. An estimate.
ENTRY_BYTES = 8 << 10


class ProgramTable(Generic[Value]):
    """Values by key. Those used longest ago go when all together exceed `limit()` bytes; the last
    one stays. Safe from any thread.

    `size(value)` gives the bytes of a value, which may grow until the next one is added: a program
    takes memory of its card with its first launch. `release(value, always)` is asked before a value
    goes; when it returns False, the value has been used meanwhile and stays. With `always` it does
    not matter.
    """

    def __init__(
        self,
        limit: Callable[[], int],
        size: Callable[[Value], int],
        release: Callable[[Value, bool], bool],
    ) -> None:
        self._limit = limit
        self._size = size
        self._release = release
        self._lock = threading.RLock()
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._newest: Hashable = None
        self.bytes = 0

    def get(self, key: Hashable) -> Value | None:
        """The value, or None; it counts as used."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
        return entry[0]

    def add(self, key: Hashable, value: Value) -> None:
        """Keeps a value; others may go."""
        with self._lock:
            self._remove(key)
            self._weigh_newest()
            self._put(key, value)
            self._newest = key
            self._make_room()

    def discard(self, key: Hashable) -> None:
        """Lets a value go that its owner needs no more, if it is here. A finalizer may call this at
        any point of this thread's work on the table."""
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        """Lets all values go."""
        with self._lock:
            for key in list(self._entries):
                entry = self._entries.get(key)
                if entry is not None:
                    self._release(entry[0], True)
                    self._remove(key)

    def __len__(self) -> int:
        return len(self._entries)

    def _put(self, key: Hashable, value: Value) -> None:
        size = self._size(value) + ENTRY_BYTES
        self._entries[key] = (value, size)
        self.bytes += size

    def _remove(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]

    def _weigh_newest(self) -> None:
        entry = self._entries.get(self._newest)
        if entry is not None:
            self._remove(self._newest)
            self._put(self._newest, entry[0])

    def _make_room(self) -> None:
        """From the one used longest ago; what stays goes to the end. A list of the keys instead
        would cost a hash of each of them for every program behind a full table."""
        for always in (False, True):  # once round, then whatever was used
            for _ in range(len(self._entries)):
                if self.bytes <= self._limit():
                    return
                key = next(iter(self._entries))
                entry = self._entries[key]
                if key != self._newest and self._release(entry[0], always):
                    self._remove(key)
                elif key in self._entries:
                    self._entries.move_to_end(key)
