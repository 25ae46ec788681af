# SPDX-License-Identifier: Apache-2.0
"""Gradients of activations in the operands' dtype, where PyTorch's decompositions widen to float32:
the card rounds each step, and has its sigmoid in 16 bits."""

from __future__ import annotations

import torch

from ..registered import NOT_TAKEN, NotTaken, part
from .lines import computed

_aten = torch.ops.aten


@part(_aten.silu_backward.default)
def silu_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor | NotTaken:
    """grad * s * (1 + x (1 - s)), s = sigmoid(x): the derivative of x * sigmoid(x)."""
    if grad.dtype != x.dtype or x.dtype not in computed():
        return NOT_TAKEN
    sigmoid = x.sigmoid()
    return grad * sigmoid * (1 + x * (1 - sigmoid))
