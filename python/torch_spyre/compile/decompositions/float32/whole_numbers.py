# SPDX-License-Identifier: Apache-2.0
"""Rounding and quotients of float32 to whole numbers. A quotient that was rounded up to a whole
number is found by its exact product with the divisor; nothing else goes wrong in floor(x / y)."""

from __future__ import annotations

import math

import torch

from ...register_decomposition import NOT_TAKEN, NotTaken, part
from ..lines import is_composed
from .powers import exact_product

_aten = torch.ops.aten
_WHOLE = float(1 << 23)  # from here on every float32 is a whole number


def _with_sign(size: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """That of -0, too."""
    return torch.where((x < 0) | (1 / x < 0), -size, size)


@part(_aten.round.default)
def round_to_even(x: torch.Tensor) -> torch.Tensor | NotTaken:
    """The sum with 2^23 is rounded to whole numbers, of ties to the even one."""
    if not is_composed(x.dtype):
        return NOT_TAKEN
    size = x.abs()
    rounded = (size + _WHOLE) - _WHOLE
    return _with_sign(torch.where(size < _WHOLE, rounded, size), x)


def _floor_quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As PyTorch's; from 2^24 on, where it rounds twice, within a unit of the last place."""
    quotient = x / y
    floor = quotient.floor()
    product, error = exact_product(floor, y)
    rest = (x - product) - error  # NaN beyond the range: nothing is known
    differ = (x < 0) != (y < 0)
    above = torch.where(y < 0, rest > 0, rest < 0)
    vanished = (floor == 0) & (x != 0) & (x == x) & differ
    floor = torch.where(above | vanished, floor - 1, floor)
    return torch.where((x.abs() == math.inf) & (y != 0), math.nan, floor)


def _operand(y: torch.Tensor | float, x: torch.Tensor) -> torch.Tensor:
    return y.float() if isinstance(y, torch.Tensor) else torch.full_like(x, y, dtype=torch.float32)


@part(_aten.floor_divide.default, _aten.floor_divide.Scalar)
def floor_divide(x: torch.Tensor, y: torch.Tensor | float) -> torch.Tensor | NotTaken:
    if not is_composed(torch.result_type(x, y)):
        return NOT_TAKEN
    return _floor_quotient(x.float(), _operand(y, x))


@part(_aten.div.Tensor_mode, _aten.div.Scalar_mode)
def div_to_whole(
    x: torch.Tensor, y: torch.Tensor | float, *, rounding_mode: str | None
) -> torch.Tensor | NotTaken:
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode != "trunc" or not is_composed(torch.result_type(x, y)):
        return NOT_TAKEN
    quotient = x.float() / _operand(y, x)
    return _with_sign(quotient.abs().floor(), quotient)
