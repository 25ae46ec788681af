# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU cells, for which PyTorch asks a device: one program each, or under autograd their
parts, which it differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..._pytorch.dispatch import OpOverload, below_autograd
from ..._pytorch.dynamo import untraced
from ..register_decomposition import part

_aten = torch.ops.aten


@part(_aten._thnn_fused_lstm_cell.default)
def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cell: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gates are [batch, 4 * size], the cell [batch, size]: the output, the new cell, the gates."""
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    parts = gates.chunk(4, 1)
    keep, forget, output = (parts[index].sigmoid() for index in (0, 1, 3))
    cell = forget * cell + keep * parts[2].tanh()
    return output * cell.tanh(), cell, gates.detach()


@part(_aten._thnn_fused_gru_cell.default)
def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hidden: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gates are [batch, 3 * size], hidden is [batch, size]: the new hidden state, a gate of it."""
    of_input = _biased(input_gates, input_bias).chunk(3, 1)
    of_hidden = _biased(hidden_gates, hidden_bias).chunk(3, 1)
    reset = (of_input[0] + of_hidden[0]).sigmoid()
    keep = (of_input[1] + of_hidden[1]).sigmoid()
    fresh = (of_input[2] + reset * of_hidden[2]).tanh()
    return (hidden - fresh) * keep + fresh, keep.detach()


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _differentiated(op: OpOverload, parts: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*args: Tensor | None) -> Any:
        given = [tensor for tensor in args if tensor is not None]
        traced = any(type(tensor) not in (Tensor, torch.nn.Parameter) for tensor in given)
        if traced or torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
            return parts(*args)
        with below_autograd():
            return op(*args)

    return untraced(kernel)


def register() -> torch.library.Library:
    """Has PyTorch differentiate the parts; the registrations live as long as what is returned."""
    library = torch.library.Library("aten", "IMPL", "AutogradPrivateUse1")
    for op, parts in (
        (_aten._thnn_fused_lstm_cell.default, lstm_cell),
        (_aten._thnn_fused_gru_cell.default, gru_cell),
    ):
        library.impl(op.overloadpacket.__name__, _differentiated(op, parts))
    return library
