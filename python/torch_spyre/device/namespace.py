# SPDX-License-Identifier: Apache-2.0
"""The module `torch.spyre`."""

from __future__ import annotations

import importlib
import types

import torch

from .. import _C
from . import memory, placement, properties, random, streams
from .streams import Device


def is_available() -> bool:
    """Whether this process has a card. Starts nothing."""
    return _C.device_count() > 0


def is_initialized() -> bool:
    """Whether the runtime has been started: by init() or by the first tensor."""
    return _C.is_started()


def init() -> None:
    """Starts the runtime, which opens the cards of this process. A second call does nothing.

    Raises: RuntimeError in a process that was forked after the runtime had started.
    """
    _C._complete()
    _C.start_runtime()


def _lazy_init() -> None:
    """What PyTorch calls before it uses the device. It does so for the current stream and index,
    too, which programs on the CPU ask for: the first tensor starts the runtime."""
    _C._complete()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Dtypes that torch.autocast("spyre") takes."""
    _C._complete()  # torch.autocast("spyre") asks before it changes dtypes
    return [torch.float16, torch.bfloat16]


def _exchange_device(index: int) -> int:
    before = _C.current_device()
    if index >= 0:
        _C.set_device(index)
    return before


class device:
    """`with torch.spyre.device(1):` makes a card the current one."""

    def __init__(self, device: Device):
        self._card = streams.device_index(device)

    def __enter__(self) -> None:
        self._before = _exchange_device(self._card)

    def __exit__(self, *_exception: object) -> None:
        _exchange_device(self._before)


class device_of(device):
    """`with torch.spyre.device_of(x):` makes a tensor's card the current one; a tensor that is on
    none changes nothing."""

    def __init__(self, tensor: torch.Tensor):
        super().__init__(tensor.device if tensor.device.type == "spyre" else None)


def is_tf32_supported() -> bool:
    """No: the card's formats of 16 bits have other fractions."""
    return False


def ipc_collect() -> None:
    """Nothing: processes share no memory of a card."""


def set_device(device: Device) -> None:
    """Makes a card the current one of this thread.

    Raises: RuntimeError for a card that the process does not use, before the runtime has started
    at its first use; ValueError for another device.
    """
    _C.set_device(streams.device_index(device))


_MISSING = object()
_LATE = {"numerics": "..debug.numerics", "get_diagnostic_report": "..debug.failures"}
_OF_INDUCTOR = {
    "Scheduling": "SuperDSCScheduling",
    "PythonWrapperCodegen": "SpyrePythonWrapperCodegen",
}


def make_module() -> types.ModuleType:
    """`torch.spyre`; names it lacks are looked up in `torch_spyre._C`."""
    module = types.ModuleType("torch.spyre", __doc__)
    for function in (
        is_available, is_initialized, init, get_amp_supported_dtype, _exchange_device, device,
        set_device,
        streams.Stream, streams.StreamContext, streams.Event, streams.stream,
        streams.current_stream, streams.default_stream, streams.set_stream, streams.synchronize,
        device_of, streams.is_current_stream_capturing, is_tf32_supported, ipc_collect,
        properties.get_device_properties, properties.get_device_name,
        properties.get_device_capability,
        properties.is_bf16_supported, properties.get_arch_list, properties.can_device_access_peer,
        placement.composite_address, placement.memory_domains,
        _C.device_count, _C.current_device,
    ):  # fmt: skip
        setattr(module, function.__name__, function)
    module.AllocationDirective = placement.AllocationDirective  # type: ignore[attr-defined]
    module._maybe_exchange_device = _exchange_device  # type: ignore[attr-defined]
    module._is_compiled = lambda: True  # type: ignore[attr-defined]
    module._is_in_bad_fork = _C.is_in_bad_fork  # type: ignore[attr-defined]
    module._lazy_init = _lazy_init  # type: ignore[attr-defined]
    module._impl = module  # type: ignore[attr-defined]  # torch-spyre's, whose name scripts use
    module.OutOfMemoryError = torch.OutOfMemoryError  # type: ignore[attr-defined]
    module.streams = streams  # type: ignore[attr-defined]
    for part in (memory, random):
        setattr(module, part.__name__.rpartition(".")[2], part)
        for name in part.__all__:
            setattr(module, name, getattr(part, name))

    def __getattr__(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "_initialized":  # checkpoints keep the states of generators if it is true
            return is_initialized()
        if name == "default_generators":
            return tuple(_C._get_default_generator(card) for card in range(_C.device_count()))
        if name in _LATE:
            return getattr(importlib.import_module(_LATE[name], __package__), name)
        if name in _OF_INDUCTOR:  # PyTorch asks when Inductor is first used
            from .._pytorch.inductor import inductor_device

            return getattr(inductor_device, _OF_INDUCTOR[name])
        found = getattr(_C, name, _MISSING)
        if found is _MISSING:
            from . import other_names

            raise AttributeError(
                f"module 'torch.spyre' has no attribute {name!r}{other_names.hint(name)}"
            )
        return found

    def __dir__() -> list[str]:
        return sorted({*vars(module), *_LATE, "default_generators"})

    module.__getattr__ = __getattr__  # type: ignore[method-assign]
    module.__dir__ = __dir__  # type: ignore[method-assign]
    return module
