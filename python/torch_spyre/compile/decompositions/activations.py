# SPDX-License-Identifier: Apache-2.0
"""Activations, by others that the compiler takes; their gradients: activation_gradients.py."""

from __future__ import annotations

import torch

from ..register_decomposition import traced_part

_aten = torch.ops.aten


@traced_part(_aten.celu.default)
def celu(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    result: torch.Tensor = _aten.elu.default(x, alpha, 1, 1 / alpha)
    return result
