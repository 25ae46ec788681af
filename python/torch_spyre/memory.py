# SPDX-License-Identifier: Apache-2.0
"""Memory of cards, by torch-spyre's module name: PyTorch's functions for the accelerator, and those
of `torch.spyre.memory`."""

from torch.accelerator import memory as _of_accelerator
from torch.accelerator.memory import *  # noqa: F403

from .device import memory as _of_cards
from .device.memory import *  # noqa: F403

__all__ = sorted({*_of_accelerator.__all__, *_of_cards.__all__})
