# SPDX-License-Identifier: Apache-2.0
"""The key of an operator's call, under which its program is kept."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import _C
from .._pytorch.dispatch import Arguments
from ..compile import node_arguments


def numbers_of_call(values: Arguments) -> list[Any]:
    """Tensors of the host without dimensions are numbers to the card where a number gives a result
    of the same dtype. Others (conditions; beside tensors without dimensions) go there."""
    cards = [v for v in values if isinstance(v, Tensor) and v.device.type == "spyre"]
    return [_number(value, cards) for value in values]


def _number(value: Any, cards: list[Tensor]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_number(item, cards) for item in value]
    if not isinstance(value, Tensor) or value.dim() > 0 or value.device.type != "cpu":
        return value
    number = value.item()
    if value.dtype == torch.float64 or not cards:  # the card has no such tensors
        return number
    wide = [tensor for tensor in cards if tensor.dim() > 0]
    alike = [torch.result_type(t, value) == torch.result_type(t, number) for t in wide]
    is_number = wide and all(alike) and value.dtype != torch.bool
    return number if is_number else value.to(cards[0].device)


def key_of(value: object, tensors: list[Tensor]) -> object:
    if isinstance(value, torch.Tensor):
        for index, known in enumerate(tensors):
            if known is value:
                return index
        tensors.append(value)
        return _C.tensor_key(value)
    if isinstance(value, node_arguments.Scalar):
        return (value.like.__class__, value.like, "parameter")
    if isinstance(value, list):
        return tuple([key_of(item, tensors) for item in value])
    if isinstance(value, float):  # 0.0 equals -0.0, and no NaN equals another
        return (float, value.hex())
    return (value.__class__, value)


def kind_of(value: object) -> object:
    """Of a number. Those that operators tell apart stay: 0, 1, exponents such as -0.5."""
    if isinstance(value, (Tensor, list)):
        return None
    if not isinstance(value, float) or not math.isfinite(value) or (2 * value).is_integer():
        return value
    return (float, value > 0, abs(value) > 1)
