# SPDX-License-Identifier: Apache-2.0
"""The backend `spyreccl` of torch.distributed: collectives between the cards of a host."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

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


def group_of(name: str) -> Any:
    """The process group of this name."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._resolve_process_group(name)  # type: ignore[attr-defined, arg-type]


def moves_cards_tensors(group_name: str) -> bool:
    """Whether the process group of this name has a backend for the device. One of `gloo` alone does
    not."""
    group = group_of(group_name)
    return DEVICE_NAME in (device.type for device in group._device_types)


def _refuse_data_parallel() -> None:
    """torch.nn.DataParallel moves data by functions that only CUDA's builds of PyTorch have; of the
    device it says so, and what to use, where it would otherwise miss one of them."""
    original = torch.nn.DataParallel.__init__

    @functools.wraps(original)
    def __init__(self: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        original(self, module, *args, **kwargs)
        cards = getattr(self, "device_ids", None) or []
        first = next(iter(module.parameters()), None)
        if first is not None and first.device.type == DEVICE_NAME and len(cards) > 1:
            raise NotImplementedError(
                f"torch.nn.DataParallel on the cards {list(cards)} of one process: a rank of "
                f"{DEVICE_NAME} has one card. Use torch.nn.parallel.DistributedDataParallel under "
                "torchrun"
            )

    torch.nn.DataParallel.__init__ = __init__  # type: ignore[method-assign]


def _scatter_and_gather_on_the_device() -> None:
    """What torch.nn.parallel.comm does by functions that only CUDA's builds of PyTorch have."""
    if hasattr(torch._C, "_scatter"):
        return

    def scatter(
        tensor: torch.Tensor,
        devices: Any = None,
        chunk_sizes: Any = None,
        dim: int = 0,
        streams: Any = None,
        *,
        out: Any = None,
    ) -> tuple[torch.Tensor, ...]:
        targets = devices if out is None else out
        sizes = [part.size(dim) for part in out or ()] or chunk_sizes
        parts = tensor.split(list(sizes), dim) if sizes else tensor.chunk(len(targets), dim)
        if out is not None:
            return tuple(to.copy_(part) for part, to in zip(parts, out, strict=True))
        cards = [torch.device(DEVICE_NAME, d) if isinstance(d, int) else d for d in targets]
        return tuple(part.to(card) for part, card in zip(parts, cards, strict=False))

    def gather(
        tensors: Any, dim: int = 0, destination: Any = None, *, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        place = out.device if out is not None else destination
        if isinstance(place, int):
            place = torch.device("cpu") if place < 0 else torch.device(DEVICE_NAME, place)
        joined = torch.cat([part.to(place or DEVICE_NAME) for part in tensors], dim)
        return joined if out is None else out.copy_(joined)

    torch.nn.parallel.comm.scatter = scatter
    torch.nn.parallel.comm.gather = gather


def _be_the_default_of_mixed_groups() -> None:
    """PyTorch finds the default backend of a group like "cpu:gloo,spyre:spyreccl" by the name of
    the first plugin, kept in capitals: it matches none, and the group has no name and warns
    when it is destroyed. An entry in small letters matches."""
    plugins = dist.Backend._plugins
    known = dict(plugins)
    plugins.clear()
    plugins[DISTRIBUTED_BACKEND_NAME] = known[DISTRIBUTED_BACKEND_NAME.upper()]
    plugins.update(known)


def register() -> None:
    """Makes the backend known to torch.distributed, as the one of the device."""
    _refuse_data_parallel()
    _scatter_and_gather_on_the_device()
    if dist.is_available():
        dist.Backend.register_backend(
            DISTRIBUTED_BACKEND_NAME, create_backend, devices=[DEVICE_NAME]
        )
        _be_the_default_of_mixed_groups()
