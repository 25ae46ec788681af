# SPDX-License-Identifier: Apache-2.0
"""Eager operators that Dynamo hands back.

The package's kernel of an operator is the operator, compiled. Where Dynamo does not compile it (an
`out=` that is not contiguous, a limit of recompilations), it calls it, which is the kernel once
more, without end. The second call with the same operands runs on the host.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

from .. import _C
from .._pytorch import dynamo
from .._pytorch.dispatch import OpOverload, OpOverloadPacket, overload_for

_running = threading.local()


def _by_host(op: Any, args: Any, kwargs: Any) -> Any:
    if str(op).startswith("spyre.copy_from_d2d"):  # (source, target, where each begins)
        _C.copy_tensor(*args[:2])
        return None
    from ..eager import run_on_cpu

    return run_on_cpu.run_on_cpu(
        overload_for(op, args, kwargs), args, kwargs, "Dynamo does not compile it"
    )


def _once(op: Any, compiled: Any) -> Any:
    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        calls: set[Any] = vars(_running).setdefault("calls", set())
        operands = [*args, *kwargs.values()]
        this = (op, *(id(given) for given in operands if isinstance(given, torch.Tensor)))
        if this in calls:
            return _by_host(op, args, kwargs)
        calls.add(this)
        try:
            return compiled(*args, **kwargs)
        finally:
            calls.discard(this)

    return call


def install() -> None:
    """Compiled operators call themselves once at most. The package raises the limit of
    recompilations, but not the one of all together."""
    original = torch.compile

    @functools.wraps(original)
    def compile(model: Any = None, **options: Any) -> Any:
        compiled = original(model, **options)
        is_operator = isinstance(model, OpOverload | OpOverloadPacket)
        return _once(model, compiled) if is_operator else compiled

    torch.compile = compile
    dynamo.limit_all_recompilations(1 << 20)
