# SPDX-License-Identifier: Apache-2.0
"""Dynamo's interface of the device: `torch._dynamo.device_interface`.

PyTorch imports Dynamo when a program first compiles, and has no hook by which a device could wait
for that. So the interface is registered when the device is, if Dynamo is there already, and else by
the first torch.compile().
"""

from __future__ import annotations

import sys
from typing import Any

_MODULE = "torch._dynamo.device_interface"
_registered = False


def register_if_imported() -> None:
    """Registers the interface if Dynamo is there; does not import it."""
    if _MODULE in sys.modules and hasattr(sys.modules[_MODULE], "register_interface_for_device"):
        register()


def register() -> None:
    """Registers the interface, once. Imports Dynamo."""
    global _registered
    if _registered:
        return
    _registered = True
    from torch._dynamo.device_interface import register_interface_for_device

    from .. import _C
    from ..constants import DEVICE_NAME

    interface = make_interface()
    register_interface_for_device(DEVICE_NAME, interface)
    for card in range(_C.device_count()):
        register_interface_for_device(f"{DEVICE_NAME}:{card}", interface)


def make_interface() -> type[Any]:
    """The class; what it names is `torch.spyre`'s."""
    import torch
    from torch._dynamo.device_interface import DeviceInterface

    from .. import _C
    from ..device import streams

    module: Any = torch.get_device_module("spyre")

    class SpyreInterface(DeviceInterface):
        """Cards, their streams and what they can do. No Triton."""

        device = module.device
        Event = torch.Event
        Stream = torch.Stream

        class Worker:
            """Of processes that compile for Inductor: there is nothing to keep from them."""

            set_device = staticmethod(module.set_device)
            current_device = staticmethod(_C.current_device)

            @staticmethod
            def get_device_properties(device: Any = None) -> Any:
                return module.get_device_properties(device)

        current_device = staticmethod(_C.current_device)
        set_device = staticmethod(module.set_device)
        device_count = staticmethod(_C.device_count)
        is_available = staticmethod(module.is_available)
        exchange_device = staticmethod(module._exchange_device)
        maybe_exchange_device = staticmethod(module._maybe_exchange_device)
        stream = staticmethod(streams.stream)
        current_stream = staticmethod(streams.current_stream)
        set_stream = staticmethod(streams.set_stream)
        synchronize = staticmethod(streams.synchronize)
        memory_allocated = staticmethod(module.memory_allocated)

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            return _C._current_stream(device_idx)

        @staticmethod
        def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
            _C._exchange_stream(device_index, stream_id)

        @staticmethod
        def get_compute_capability(device: Any = None) -> str:
            return ""

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return True

        @classmethod
        def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
            return not dtype.is_complex and dtype != torch.float64

    return SpyreInterface
