# SPDX-License-Identifier: Apache-2.0
"""Gradients of activations whose functions are taken in the operands' dtype, where PyTorch's
decompositions widen to float32: the card has its sigmoid and exp in 16 bits."""

from __future__ import annotations

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import HALVES, computed

_aten = torch.ops.aten


@part(_aten.silu_backward.default)
def silu_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor | NotTaken:
    """grad * s * (1 + x (1 - s)), s = sigmoid(x): the derivative of x * sigmoid(x)."""
    if grad.dtype != x.dtype or x.dtype not in computed():
        return NOT_TAKEN
    sigmoid = x.sigmoid()
    return grad * sigmoid * (1 + x * (1 - sigmoid))


@part(_aten._log_softmax_backward_data.default)
def log_softmax_backward(
    grad: torch.Tensor, result: torch.Tensor, dim: int, input_dtype: torch.dtype
) -> torch.Tensor | NotTaken:
    """grad - exp(result) * sum(grad): exp of what has been rounded to 16 bits is no more exact in
    32 of them. Where the result is made here, too, its exp is the softmax (pattern.def)."""
    if {grad.dtype, result.dtype, input_dtype} - {grad.dtype} or grad.dtype not in HALVES:
        return NOT_TAKEN
    total = grad.sum(dim, True, dtype=torch.float32)
    return (grad - result.exp() * total).to(grad.dtype)
