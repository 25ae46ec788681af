# SPDX-License-Identifier: Apache-2.0
"""Tensors of the device cannot leave their process; sending one is a RuntimeError that says so.

torch.multiprocessing pickles a tensor as a storage that processes map, which only the CPU has.
PyTorch's own error is lost in a queue: multiprocessing.Queue pickles in its feeder thread, prints
the error there and drops the item, so that its reader, a DataLoader say, waits for ever. Here an
item of a queue raises where the reader takes it out; anything else raises where it is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import torch

TEXT = (
    "tensors of spyre cannot be sent to another process: send .cpu(), and move it to the device"
    " there (DataLoader workers: move the batches in the process that takes them)"
)
_FEEDER = "QueueFeederThread"  # of multiprocessing.Queue


def refuse(text: str) -> NoReturn:
    """What an item becomes on its way. Raises: RuntimeError."""
    raise RuntimeError(text)


def refuse_tensors_of_the_device() -> None:
    """Installed at the first use of the device. Other tensors go PyTorch's way."""
    original: Callable[[torch.Tensor], tuple[Any, ...]] = (
        torch.multiprocessing.reductions.reduce_tensor
    )

    def reduce(tensor: torch.Tensor) -> tuple[Any, ...]:
        if tensor.device.type != "spyre":
            return original(tensor)
        if threading.current_thread().name != _FEEDER:
            refuse(TEXT)
        return refuse, (TEXT,)

    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, reduce)
