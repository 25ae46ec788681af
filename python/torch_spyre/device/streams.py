# SPDX-License-Identifier: Apache-2.0
"""Streams and events of `torch.spyre`."""

from __future__ import annotations

from typing import Any

import torch

from .. import _C
from .._pytorch.dispatch import stream_type

Device = torch.device | str | int | None  # a card; None is the current one


def device_index(device: Device = None) -> int:
    """The card that `device` (None, int, str or torch.device) names; None is the current one."""
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    place = torch.device(device)
    if place.type != "spyre":
        raise ValueError(f"expected a spyre device, got {place}")
    return _C.current_device() if place.index is None else place.index


class Stream(torch.Stream):
    """Work in order. Priority 0 takes one of the low streams, any other one of the high ones."""

    def __new__(
        cls, device: Device = None, priority: int = 0, *, stream_id: int | None = None
    ) -> Stream:
        card = device_index(device)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(f"priority: expected an int, got {type(priority).__name__}")
        if stream_id is None:
            stream_id = _C._stream_from_pool(card, priority != 0)
        return super().__new__(
            cls,
            stream_id=stream_id,
            device_index=card,
            device_type=stream_type(),
        )

    def __init__(
        self, device: Device = None, priority: int = 0, *, stream_id: int | None = None
    ) -> None:
        self._card = self.device_index
        self._id = self.stream_id
        self._before: list[tuple[int, int]] = []

    @property
    def id(self) -> int:
        """The stream's number on its card; 0 is the default stream."""
        return self._id

    @property
    def priority(self) -> int:
        """-1 of a high stream, 0 of the others, as PyTorch counts."""
        return -1 if self._id > _C.LOW_STREAMS else 0

    def query(self) -> bool:
        """Whether all work of the stream is done. Does not wait."""
        return _C._stream_query(self._card, self._id)

    def failed(self) -> bool:
        """Whether the stream refuses work because of an error."""
        return _C._stream_failed(self._card, self._id)

    def synchronize(self) -> None:
        """Waits for the work of the stream.

        Raises: RuntimeError with the first error of a launch.
        """
        _C._stream_synchronize(self._card, self._id)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records the event, or a new one, behind the work so far, and returns it."""
        event = torch.Event(device="spyre") if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: torch.Event) -> None:
        """Later work of this stream waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Later work of this stream waits for the present work of another one."""
        self.wait_event(as_stream(stream).record_event())

    def __enter__(self) -> Stream:
        self._before.append((_C.current_device(), _C._current_stream(self._card)))
        _C.set_device(self._card)
        _C._exchange_stream(self._card, self._id)
        return self

    def __exit__(self, *_exception: object) -> None:
        device, stream = self._before.pop()
        _C._exchange_stream(self._card, stream)
        _C.set_device(device)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, torch.Stream):
            return NotImplemented
        mine = (self.device_type, self._card, self._id)
        return mine == (other.device_type, other.device_index, other.stream_id)

    def __hash__(self) -> int:
        return hash((self._card, self._id))

    def __repr__(self) -> str:
        return f"torch.spyre.Stream(device='spyre:{self._card}', id={self._id})"


class StreamHandle(Stream):
    """A stream as `torch_spyre._C` gives it: card, number and priority are methods, as
    torch-spyre's `_SpyreStreamBase` has them."""

    def device(self) -> torch.device:  # type: ignore[override]
        """The stream's card."""
        return torch.device("spyre", self._card)

    def id(self) -> int:  # type: ignore[override]
        """The stream's number on its card; 0 is the default stream."""
        return self._id

    def priority(self) -> int:  # type: ignore[override]
        """-1 of a high stream, 0 of the others."""
        return -1 if self._id > _C.LOW_STREAMS else 0


class _EventType(type):
    """torch.Event has no subclasses: those of the device are the events of this one."""

    def __instancecheck__(cls, event: object) -> bool:
        return isinstance(event, torch.Event) and event.device.type == "spyre"


class Event(metaclass=_EventType):
    """A point in a stream's work, a torch.Event. Waiting always blocks.

    Raises: RuntimeError for an event between processes.
    """

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise RuntimeError("interprocess=True: processes share no card, so no events either")
        return torch.Event(device="spyre", enable_timing=enable_timing)


def as_stream(stream: torch.Stream) -> Stream:
    """A stream of the device that PyTorch made, as one of this package."""
    if isinstance(stream, Stream):
        return stream
    return Stream(stream.device_index, stream_id=stream.stream_id)


class StreamContext:
    """`with torch.spyre.stream(s):` makes s the current stream; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        if stream is not None and not isinstance(stream, torch.Stream):
            raise TypeError(f"expected a torch.spyre.Stream, got {type(stream).__name__}")
        self.stream = stream

    def __enter__(self) -> torch.Stream | None:
        return self.stream.__enter__() if self.stream is not None else None

    def __exit__(self, *exception: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*exception)


def stream(stream: torch.Stream | None) -> StreamContext:
    """The context in which a stream is the current one.

    Raises: TypeError for another object.
    """
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """No: there are no graphs of streams' work."""
    return False


def current_stream(device: Device = None) -> Stream:
    """The stream of a card in which this thread's work runs."""
    card = device_index(device)
    return Stream(card, stream_id=_C._current_stream(card))


def default_stream(device: Device = None) -> Stream:
    """Stream 0 of a card."""
    return Stream(device_index(device), stream_id=0)


def set_stream(stream: torch.Stream) -> None:
    """Makes a stream the current one of its card in this thread."""
    exchange_stream(stream)


def exchange_stream(stream: torch.Stream) -> Stream:
    """Makes a stream the current one of its card; the one that was."""
    chosen = as_stream(stream)
    return Stream(chosen._card, stream_id=_C._exchange_stream(chosen._card, chosen._id))


def synchronize(device: Device = None) -> None:
    """Waits for every stream of the card, or of all cards; raises their sticky errors."""
    cards = range(_C.device_count()) if device is None else [device_index(device)]
    for card in cards:
        _C._synchronize(card)
