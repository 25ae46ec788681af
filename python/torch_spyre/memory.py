# SPDX-License-Identifier: Apache-2.0
"""Memory of cards, by torch-spyre's module name: PyTorch's functions for the accelerator, which are
`torch.spyre.memory`, too."""

from torch.accelerator.memory import *  # noqa: F403
from torch.accelerator.memory import __all__ as __all__
