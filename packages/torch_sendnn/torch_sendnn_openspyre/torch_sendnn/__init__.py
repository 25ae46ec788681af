# SPDX-License-Identifier: Apache-2.0
"""`torch_sendnn` for the emulated card: torch_spyre.sendnn under the names that programs import.

The folder around this package stands behind all others on the path, so that a real `torch_sendnn`
that is installed, too, is the one that is imported.
"""

import torch_spyre  # noqa: F401  (registers the device, also where PyTorch loads no backends)
from torch_spyre.sendnn import api
from torch_spyre.sendnn.warmup import warmup_mode

api.attach_state()

from . import backends, torch_sendnn  # noqa: E402
from ._version import __version__  # noqa: E402

__all__ = ["__version__", "backends", "torch_sendnn", "warmup_mode"]
