# SPDX-License-Identifier: Apache-2.0
"""Warm-up: the calls in which a program shows the shapes that it will serve.

When the mode ends, each graph that was called inside compiles what later calls may need (the
buckets of its dynamic sizes), so that those compile nothing.
"""

from __future__ import annotations

from collections.abc import Callable

_active = False
_unfinished: list[Callable[[], None]] = []


def get_warmup_mode() -> bool:
    return _active


def set_warmup_mode(enabled: bool) -> None:
    """Off ends the warm-up: see the module."""
    global _active
    ended = _active and not enabled
    _active = bool(enabled)
    if ended:
        finish()


def at_end(compile_rest: Callable[[], None]) -> None:
    """Called once by a graph that is called in warm-up for the first time."""
    _unfinished.append(compile_rest)


def finish() -> None:
    """Compiles what the graphs that were called in warm-up may need later."""
    while _unfinished:
        _unfinished.pop(0)()


class warmup_mode:  # noqa: N801  (the name that programs know)
    """`with warmup_mode(): model(..)`. An error inside ends the mode and compiles nothing."""

    def __init__(self, enabled: bool = True):
        self.enabled = enabled
        self.before = False

    def __enter__(self) -> warmup_mode:
        self.before = get_warmup_mode()
        set_warmup_mode(self.enabled)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, traceback: object) -> None:
        if kind is not None:
            _unfinished.clear()
        set_warmup_mode(self.before)
