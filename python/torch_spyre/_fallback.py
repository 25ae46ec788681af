# SPDX-License-Identifier: Apache-2.0
"""What the host computes on values of the card: what a program says of it, and the account of it.

An operator falls back when it reads a tensor of the card and the host computes it. What reads
nothing of the card (random numbers, `arange`) is made on the host and moved, as a copy would be; it
is in the account, but no fallback. `torch_spyre.fallback` says what a fallback does:

    torch_spyre.fallback.set("error")  # or SPYRE_FALLBACK=error
    with torch_spyre.fallback("silent"): ...
    @torch_spyre.fallback("error", allow=["aten.sort"])
    def step(...): ...

Nothing here is on the way of an operator that the card computes.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType

import torch

from . import _remedies, config
from ._pytorch import autograd, pytree

_COMPLETE = ("aten", "prims", "spyre")  # namespaces whose operators are all there
WHOLE_GRAPH = "graph"  # what a graph that is interpreted is called
_MODES = ("warn", "error", "silent")
_MOST_WARNINGS = 4096  # pairs of operator and rule that are remembered as said


class FallbackWarning(UserWarning):
    """An operator ran on the CPU because the card has no program for it."""


class FallbackError(RuntimeError):
    """An operator would have run on the CPU while torch_spyre.fallback is "error"."""


@dataclass
class FallbackRecord:
    """What the host computed of one operator.

    `calls` counts computations; bytes are those of tensors that moved between host and card for
    them; `seconds` is wall-clock time, copies included. `is_fallback` is False where no call read a
    tensor of the card. `reason` is the rule of the last call.
    """

    op: str
    calls: int = 0
    bytes_to_host: int = 0
    bytes_to_card: int = 0
    seconds: float = 0.0
    is_fallback: bool = False
    reason: str = ""


class FallbackReport(tuple[FallbackRecord, ...]):
    """Records by time, longest first; as text a table."""

    __slots__ = ()

    def __str__(self) -> str:
        head = (
            f"{'operator':40} {'calls':>8} {'MB to host':>11} {'MB to card':>11} {'ms':>9}  reason"
        )
        rows = [
            f"{r.op:40} {r.calls:8} {r.bytes_to_host / 1e6:11.3f} {r.bytes_to_card / 1e6:11.3f}"
            f" {r.seconds * 1e3:9.2f}  {r.reason}"
            for r in self
        ]
        return "\n".join([head, *rows])


class _Scope(contextlib.ContextDecorator):
    """A mode for the time of a block; scopes may end in any order, the newest open one rules."""

    def __init__(self, owner: Fallback, mode: str, allow: Iterable[str]):
        self._owner = owner
        self._mode = _checked(mode)
        if isinstance(allow, str):
            raise TypeError(f"fallback: allow={allow!r}, expected a list of operators: [{allow!r}]")
        self._allow = tuple(_known(name) for name in allow)
        self._now = mode  # until set() says otherwise

    def _recreate_cm(self) -> _Scope:
        return _Scope(self._owner, self._mode, self._allow)

    def __enter__(self) -> None:
        self._now = self._mode
        self._owner._scopes.append(self)

    def __exit__(self, *error: object) -> None:
        self._owner._scopes.remove(self)


class Fallback:
    """`torch_spyre.fallback`: what a fallback does, in the whole process.

    Modes: "warn" (default) gives one FallbackWarning for each operator and rule, "error" raises
    FallbackError, "silent" does neither. The innermost open block counts, then
    torch_spyre.config.fallback, which starts as the variable SPYRE_FALLBACK says. Backward passes
    run in threads of their own and obey the same block.
    """

    def __init__(self) -> None:
        self._scopes: list[_Scope] = []

    def __call__(self, mode: str, allow: Iterable[str] = ()) -> _Scope:
        """A block or decorated function with another mode. Operators of `allow` ("aten.sort", or
        with overload) fall back without a word. Raises ValueError for an unknown mode and for a
        name that no operator has, TypeError for a string instead of a list."""
        return _Scope(self, mode, allow)

    def set(self, mode: str) -> None:
        """The mode from here on: until the innermost open block ends, as with
        torch.set_grad_enabled(); outside of blocks that of torch_spyre.config. Raises ValueError
        for an unknown one."""
        if self._scopes:
            self._scopes[-1]._now = _checked(mode)
        else:
            config.fallback = _checked(mode)

    @property
    def mode(self) -> str:
        """ "warn", "error" or "silent", as it holds here."""
        return self._scopes[-1]._now if self._scopes else _checked(config.fallback)

    def allows(self, op: object) -> bool:
        """Whether the innermost block lets this operator fall back without a word."""
        allowed = self._scopes[-1]._allow if self._scopes else ()
        name = str(op)
        return any(name == a or name.startswith(a + ".") for a in allowed)


def _checked(mode: str) -> str:
    if mode not in _MODES:
        raise ValueError(f"fallback: {mode!r}, expected one of {', '.join(_MODES)}")
    return mode


def _known(name: str) -> str:
    """The name, which an operator has, or all of a namespace; one of a library of the program may
    get it later."""
    namespace, _, rest = name.partition(".")
    operator, _, overload = rest.partition(".")
    if not rest and name in _COMPLETE or operator and namespace not in _COMPLETE:
        return name
    packet = getattr(getattr(torch.ops, namespace), operator, None) if operator else None
    whole = not rest and (name == WHOLE_GRAPH or hasattr(torch.ops.higher_order, name))
    if not whole and (packet is None or (overload and overload not in packet.overloads())):
        raise ValueError(f"fallback: allow={name!r}, expected an operator's name, as 'aten.sort'")
    return name


fallback = Fallback()
_lock = threading.Lock()
_records: dict[str, FallbackRecord] = {}
_said: OrderedDict[tuple[str, str], None] = OrderedDict()


def fallback_report() -> FallbackReport:
    """What the host has computed so far, or since reset_fallback_report(), by operator."""
    with _lock:
        return FallbackReport(sorted(_records.values(), key=lambda r: -r.seconds))


def reset_fallback_report() -> None:
    """Empties the account; warnings are given anew."""
    with _lock:
        _records.clear()
        _said.clear()


def account(
    op: object,
    reason: str,
    is_fallback: bool,
    to_host: int,
    to_card: int,
    seconds: float,
    calls: int = 1,
) -> None:
    """Adds computations of the host; sizes in bytes."""
    name = str(op)
    with _lock:
        record = _records.setdefault(name, FallbackRecord(name))
        record.calls += calls
        record.bytes_to_host += to_host
        record.bytes_to_card += to_card
        record.seconds += seconds
        record.is_fallback |= is_fallback
        record.reason = reason or record.reason


def meet(
    op: object, operands: Iterable[object], reason: str, location: str = "", case: str = ""
) -> None:
    """Does what the mode says of a fallback: nothing, a warning for each operator and rule (and
    `case`), or an error. `operands` are the operator's arguments, `location` the user's line unless
    it is on the stack.

    Raises: FallbackError while the mode is "error" and the operator is not allowed.
    """
    mode, rule = fallback.mode, reason + case
    if mode == "silent" or (mode == "warn" and (str(op), rule) in _said):
        return
    if fallback.allows(op) or _is_internal() or (mode == "warn" and not _is_new(str(op), rule)):
        return
    text = describe(op, list(operands), reason, location or user_line())
    if mode == "error":
        raise FallbackError(text)
    line = None if _user_place() else _backward_line()
    if line is None:
        warnings.warn(text, FallbackWarning, stacklevel=user_level())
    else:
        warnings.warn_explicit(text, FallbackWarning, *line)


def _is_new(op: str, reason: str) -> bool:
    with _lock:
        if (op, reason) in _said:
            return False
        _said[op, reason] = None
        if len(_said) > _MOST_WARNINGS:
            _said.popitem(last=False)
        return True


def describe(op: object, operands: Iterable[object], reason: str, location: str) -> str:
    """ "spyre: aten.mm.default of float32[64, 64], float32[64, 64] runs on the CPU (step.py:12):
    the rule. The remedy." in one line."""
    tensors = [leaf for leaf in pytree.leaves(operands) if isinstance(leaf, torch.Tensor)]
    of = ", ".join(f"{_dtype(t)}{list(t.shape)}" for t in tensors[:6])
    of = f" of {of}{', ..' if len(tensors) > 6 else ''}" if of else ""
    place = f" ({location})" if location else ""
    text = f"spyre: {op}{of} runs on the CPU{place}: {_remedies.meaning(reason)}"
    return " ".join(f"{text}. {_remedies.remedy(op, reason, tensors)}".split())


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


_OURS = os.path.dirname(__file__)
_PYTORCH = os.path.dirname(torch.__file__)


# What PyTorch computes of a few numbers for itself, where the program can change nothing.
_INTERNAL = tuple(
    os.path.join(_PYTORCH, *path)
    for path in (("amp", "grad_scaler.py"), ("_tensor_str.py",), ("testing", "_comparison.py"))
)
_BACKWARD = (os.path.join(_PYTORCH, "autograd", "graph.py"), "_engine_run_backward")


def _user_frame() -> tuple[int, str]:
    """(the stack level, seen from the caller's caller, of the innermost frame outside PyTorch and
    here; its place, or "" where only PyTorch called)."""
    frame, level = sys._getframe(2), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_OURS, _PYTORCH)):
        frame, level = frame.f_back, level + 1
    return level, _place(frame)


def _place(frame: FrameType) -> str:
    name = frame.f_code.co_filename
    if name.startswith((_OURS, _PYTORCH)):
        return ""
    return f"{os.path.basename(name)}:{frame.f_lineno}"


def _is_internal() -> bool:
    """Whether PyTorch's own code asked for the operator, and no frame of the program in between."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((_OURS, _PYTORCH)):
        if frame.f_code.co_filename in _INTERNAL:
            return True
        frame = frame.f_back
    return False


def _backward_line() -> tuple[str, int] | None:
    """File and line of the program that a backward pass in this thread is about: of the forward
    operator in anomaly mode, else of the call of backward(), in whichever thread it waits."""
    recorded = reversed(autograd.forward_stack())
    places = (_FRAME.search(text) for text in recorded)
    for found in places:
        if found is not None and not found[1].startswith((_OURS, _PYTORCH)):
            return found[1], int(found[2])
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            if (frame.f_code.co_filename, frame.f_code.co_name) == _BACKWARD:
                break
            frame = frame.f_back
        while frame is not None:
            if _place(frame):
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
    return None


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def user_level() -> int:
    """The stack level, for warnings.warn(), of the innermost frame outside PyTorch and here."""
    return _user_frame()[0]


def _user_place() -> str:
    return _user_frame()[1]


def user_line() -> str:
    """ "train.py:12", the innermost line outside PyTorch and here; in a thread that autograd made,
    which has no such line, "backward pass of train.py:14" (_backward_line())."""
    place = _user_frame()[1]
    if place:
        return place
    line = _backward_line()
    return f"backward pass of {os.path.basename(line[0])}:{line[1]}" if line else "backward pass"
