# SPDX-License-Identifier: Apache-2.0
"""`torch.spyre.memory`: memory of the cards. Functions of `torch.accelerator.memory` take a card by
position alone; those here take `device=`, too, as torch.cuda's do."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

import torch
from torch.accelerator.memory import empty_host_cache as empty_host_cache
from torch.accelerator.memory import get_memory_info as get_memory_info

from .. import _C
from .streams import Device, device_index

__all__ = [
    "device_memory_used",
    "empty_cache",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def memory_allocated(device: Device = None) -> int:
    """Bytes of a card that tensors have."""
    return torch.accelerator.memory_allocated(device_index(device))


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that tensors had since reset_peak_memory_stats()."""
    return torch.accelerator.max_memory_allocated(device_index(device))


def memory_reserved(device: Device = None) -> int:
    """Bytes of a card that the allocator holds."""
    return torch.accelerator.memory_reserved(device_index(device))


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that it held since reset_peak_memory_stats()."""
    return torch.accelerator.max_memory_reserved(device_index(device))


def memory_stats(device: Device = None) -> OrderedDict[str, Any]:
    """Numbers of the allocator by name: "allocated_bytes.all.peak"."""
    return torch.accelerator.memory_stats(device_index(device))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Peaks begin anew at what is in use."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Counts of what was allocated and freed begin anew at 0."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Bytes of a card that are free and that tensors may have. Starts the runtime."""
    return torch.accelerator.get_memory_info(device_index(device))


def device_memory_used(device: Device = None) -> int:
    """Bytes of a card that are not free."""
    free, total = mem_get_info(device)
    return total - free


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Lets tensors have that part, 0 to 1, of a card's `total_memory`; what is in use stays.

    Raises: TypeError for what is no number, ValueError for a number outside of 0 to 1.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise TypeError(f"fraction: expected a number, got {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction: {fraction}, expected a number from 0 to 1")
    card = device_index(device)
    _C._set_memory_limit(card, int(_C._memory_limit() * fraction))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The part of a card's `total_memory` that tensors may have."""
    return mem_get_info(device)[1] / _C._memory_limit()


_SUMMARY = (
    ("Allocated memory", "allocated_bytes.all"),
    ("Reserved memory", "reserved_bytes.all"),
    ("Allocations", "allocation.all"),
)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """memory_stats() as a table; `abbreviated` leaves out the totals."""
    card = device_index(device)
    stats = memory_stats(card)
    columns = ("current", "peak") if abbreviated else ("current", "peak", "allocated", "freed")
    lines = [f"{f'spyre:{card}':<18}" + "".join(f"{column:>16}" for column in columns)]
    for title, key in _SUMMARY:
        values = [stats.get(f"{key}.{column}", 0) for column in columns]
        show = _mebibytes if key.endswith("bytes.all") else str
        lines.append(f"{title:<18}" + "".join(f"{show(value):>16}" for value in values))
    lines.append(f"{'Retries':<18}{stats.get('num_alloc_retries', 0):>16}")
    lines.append(f"{'Out of memory':<18}{stats.get('num_ooms', 0):>16}")
    return "\n".join(lines)


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """memory_stats(), the parts of a name apart: ["allocated_bytes"]["all"]["peak"]."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def reset_max_memory_allocated(device: Device = None) -> None:
    """The same as reset_peak_memory_stats(), by the name that programs for CUDA still use."""
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Gives freed card memory back to the host, and forgets programs: of single operators and of
    compiled graphs. Those are compiled again when they are needed."""
    forget_programs()
    torch.accelerator.memory.empty_cache()


def forget_programs() -> None:
    """What the allocator calls when its cache is emptied."""
    package = __package__.rpartition(".")[0]
    for name in ("eager.operator_program", "compile.backend"):
        module = sys.modules.get(f"{package}.{name}")
        if module is not None:
            module.programs.clear()
