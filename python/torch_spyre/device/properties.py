# SPDX-License-Identifier: Apache-2.0
"""What a card is, as programs ask `torch.cuda` and its kin. Numbers come from the table of the
card's geometry (src/isa/geometry.def, which names their sources)."""

from __future__ import annotations

import dataclasses
from typing import Any

from .. import _C
from . import streams
from .streams import Device

NAME = "IBM Spyre (emulated)"


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """A card. `multi_processor_count` is its cores, a multi-processor's counterpart; sizes are
    bytes; `total_memory` is what tensors may have, SPYRE_MEMORY_LIMIT_GB included. It has no
    compute capability of CUDA's kind, hence neither `major` nor `minor`."""

    name: str
    vendor: str
    total_memory: int
    multi_processor_count: int
    corelets_per_core: int
    scratchpad_bytes_per_core: int
    stick_bytes: int
    memory_bandwidth_gb_s: float
    power_w: float
    is_emulated: bool

    @property
    def core_count(self) -> int:
        """`multi_processor_count` by the card's own word."""
        return self.multi_processor_count


def _check_card(device: Device) -> int:
    card = streams.device_index(device)
    if not 0 <= card < _C.device_count():
        raise RuntimeError(
            f"invalid device ordinal {card}: this process uses {_C.device_count()} spyre device(s)"
        )
    return card


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Of a card (None, int, str or torch.device; None is the current one). Starts nothing.

    Raises: RuntimeError for a card that the process does not use, ValueError for another device.
    """
    _check_card(device)
    constants = _C._card_constants()
    return DeviceProperties(
        name=NAME,
        vendor="IBM",
        total_memory=_C._memory_limit(),
        multi_processor_count=int(constants["CORES"]),
        corelets_per_core=int(constants["CORELETS"]),
        scratchpad_bytes_per_core=int(constants["LX_BYTES"]),
        stick_bytes=int(constants["STICK_BYTES"]),
        memory_bandwidth_gb_s=constants["MEMORY_NOMINAL"],
        power_w=constants["POWER"],
        is_emulated=True,
    )


def get_device_name(device: Device = None) -> str:
    """ "IBM Spyre (emulated)". Raises as get_device_properties()."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict[str, Any]:
    """The properties by name: as for `torch.xpu` a dict, since the card has no (major, minor). What
    dtypes a card holds says `torch.accelerator.get_device_capability()`."""
    return dataclasses.asdict(get_device_properties(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 computes on the card, as SEN169_FP16 (9 bits of fraction): True. Without such
    emulation it does not: False."""
    return including_emulation


def get_arch_list() -> list[str]:
    """Architectures that programs are compiled for."""
    return ["spyre"]


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Cards do not read each other's memory; copies between them go through the host."""
    _check_card(device)
    _check_card(peer_device)
    return False
