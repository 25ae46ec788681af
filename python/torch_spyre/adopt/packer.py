# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's packer of scratchpad buffers. It has one in C++ and an equal one in Python: this is
the latter, and it refuses what the one in C++ does."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

_INDEXED = {"swap": 1, "rotate": 2, "resize": 1, "set_eligible": 1}  # leading indices of a buffer


def _checked(name: str, indices: int, method: Any) -> Any:
    def call(self: Any, *arguments: Any) -> Any:
        if not all(0 <= index < len(self.buffers) for index in arguments[:indices]):
            raise ValueError(f"{name} index out of range")
        return method(self, *arguments)

    return functools.wraps(method)(call)


@functools.cache
def _packer() -> type:
    """The class. Their module imports its name before it defines the one below it."""
    module = importlib.import_module("torch_spyre._inductor.scratchpad.permutation_layout")
    base = module.PermutationBasedLayoutSolver

    def begin(self: Any, buffers: Sequence[Any], *arguments: Any) -> None:
        if len(arguments) > 2 and arguments[2] <= 0:
            raise ValueError("alignment must be positive")
        if not all(buffer.uses for buffer in buffers):
            raise ValueError("buffer uses must be non-empty")
        base.__init__(self, buffers, *arguments)

    methods = {name: _checked(name, n, getattr(base, name)) for name, n in _INDEXED.items()}
    return type("NativePermutationLayoutSolver", (base,), {"__init__": begin, **methods})


class _Named(type):
    def __call__(cls, *arguments: Any) -> Any:
        return _packer()(*arguments)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _packer())


class NativePermutationLayoutSolver(metaclass=_Named):
    """Buffers, a permutation of them, bytes, alignment and flags."""
