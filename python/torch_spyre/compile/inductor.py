# SPDX-License-Identifier: Apache-2.0
"""What Inductor knows of the device, under torch-spyre's names. torch.compile never gets there: its
graphs of the card go to `spyre_backend`. Who calls Inductor by itself is told so. PyTorch finds the
classes as torch.spyre.Scheduling and torch.spyre.PythonWrapperCodegen."""

from __future__ import annotations

from torch._inductor.codegen.common import DeviceOpOverrides, register_device_op_overrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.scheduler import BaseScheduling

from .. import _C
from ..constants import DEVICE_NAME


class SuperDSCScheduling(BaseScheduling):
    """Refuses: kernels of the card are not made from Inductor's loops."""

    def __init__(self, scheduler):
        super().__init__(scheduler)
        raise _C.Unsupported(
            "Inductor was called with a graph of spyre: use torch.compile(f) or backend='spyre'"
        )


class SpyrePythonWrapperCodegen(PythonWrapperCodegen):
    """Of SuperDSCScheduling."""


class SpyreDeviceOpOverrides(DeviceOpOverrides):
    """How Python code speaks of cards."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"{name} = torch.spyre.current_stream"

    def set_device(self, device_idx: int) -> str:
        return f"torch.spyre.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.spyre.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.spyre.device({device_idx})"


register_device_op_overrides(DEVICE_NAME, SpyreDeviceOpOverrides())
