# SPDX-License-Identifier: Apache-2.0
"""`from torch_sendnn import torch_sendnn`: the import registers the backends."""

from torch_spyre.sendnn.api import *  # noqa: F403
