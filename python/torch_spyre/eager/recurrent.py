# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU cells. PyTorch asks a device for fused ones; these are made of its other operators,
also for autograd, which differentiates the parts."""

from __future__ import annotations

import torch
from torch import Tensor

from .._pytorch.dynamo import untraced


def _lstm_cell(
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


def _gru_cell(
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


def register(*libraries: torch.library.Library) -> None:
    for library in libraries:
        library.impl("_thnn_fused_lstm_cell", untraced(_lstm_cell))
        library.impl("_thnn_fused_gru_cell", untraced(_gru_cell))
