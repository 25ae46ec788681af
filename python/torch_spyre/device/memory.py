# SPDX-License-Identifier: Apache-2.0
"""Memory of the cards: what `torch.spyre` has beyond `torch.accelerator.memory`."""

from __future__ import annotations

import sys
from typing import Any

import torch

from .. import _C
from .streams import Device, device_index


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
    stats = torch.accelerator.memory_stats(card)
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
    for name, value in torch.accelerator.memory_stats(device_index(device)).items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def reset_max_memory_allocated(device: Device = None) -> None:
    """The same as reset_peak_memory_stats(), by the name that programs for CUDA still use."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


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
