# SPDX-License-Identifier: Apache-2.0
"""Tensors of the device stay in their process: what puts one into another is told so.

torch.multiprocessing pickles them by way of a storage that other processes map, which is the CPU's.
Its error comes up where nobody sees it: a queue pickles in a thread of its own, prints the error
there and drops the item, and whoever waits for it, as a DataLoader for its worker, waits for ever.
What a queue pickles raises where the item is taken out; all else where it is sent.
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
