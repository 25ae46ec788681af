# SPDX-License-Identifier: Apache-2.0
"""The backend `spyreccl` of torch.distributed: collectives between the cards of a host."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from ..constants import DEVICE_NAME, DISTRIBUTED_BACKEND_NAME

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend, Store


def create_backend(store: Store, rank: int, size: int, timeout: timedelta) -> Backend:
    """Joins the group whose ranks share `store`; returns when all of them have.

    Raises: ValueError for ranks and sizes that break a rule or that ranks disagree about;
    torch.distributed.DistBackendError when a rank, which it names, does not come in time.
    """
    group = dist.ProcessGroup(store, rank, size)
    milliseconds = max(int(timeout.total_seconds() * 1000), 1)
    torch.ops.spyreccl.attach(group.boxed(), milliseconds)
    return group._get_backend(torch.device(DEVICE_NAME))


def moves_cards_tensors(group_name: str) -> bool:
    """Whether the process group of this name has a backend for the device. One of `gloo` alone does
    not."""
    from torch.distributed import distributed_c10d

    group = distributed_c10d._resolve_process_group(group_name)  # type: ignore[attr-defined, arg-type]
    return DEVICE_NAME in (device.type for device in group._device_types)


def register() -> None:
    """Makes the backend known to torch.distributed, as the one of the device."""
    if dist.is_available():
        dist.Backend.register_backend(
            DISTRIBUTED_BACKEND_NAME, create_backend, devices=[DEVICE_NAME]
        )
