# SPDX-License-Identifier: Apache-2.0
"""PyTorch's decompositions whose integers are places and counts: nothing of them is watched."""

from __future__ import annotations

import torch

from ..._pytorch.dispatch import every_decomposition
from ..register_decomposition import part

_aten = torch.ops.aten

for op in (
    _aten.max_unpool2d.default,
    _aten.max_unpool3d.default,
):
    part(op, narrow=True)(every_decomposition()[op])
