# SPDX-License-Identifier: Apache-2.0
"""Powers of float32 out of the functions that a card has in float32; the profile `extended` has
them as a function of its own.

|x|^y is exp(y log|x|). The product may be 88, and what it is off by is what the power is off by,
relatively: so log|x| and the product are sums of two numbers each, with the errors of their
roundings (T. J. Dekker, "A floating-point technique for extending the available precision", 1971).
Signs, zeros, infinities and NaN are those of pow() in C.
"""

from __future__ import annotations

import math

import torch

from ...register_decomposition import NOT_TAKEN, NotTaken, part
from ..lines import is_composed
from .logarithms import LN2_HIGH, LN2_LOW, split

_aten = torch.ops.aten

_Pair = tuple[torch.Tensor, torch.Tensor]  # a number and what it is too small by

_TERMS = 6
_HALVES = 4097.0  # 2^12 + 1 cuts a float32 in two of 12 bits
_MOST = 2.0**40  # a larger exponent gives 0, 1 or infinity as this one does


def _halves(x: torch.Tensor) -> _Pair:
    above = x * _HALVES
    high = above - (above - x)
    return high, x - high


def exact_product(x: torch.Tensor, y: torch.Tensor) -> _Pair:
    product = x * y
    (a, b), (c, d) = _halves(x), _halves(y)
    return product, ((a * c - product) + a * d + b * c) + b * d


def _sum(x: torch.Tensor, y: torch.Tensor) -> _Pair:
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _logarithm(x: torch.Tensor) -> _Pair:
    """Of positive numbers: 2 s + 2/3 s^3 + .. + e ln 2, with s = f / (2 + f) of m = 1 + f."""
    m, e = split(x)
    f = m - 1
    below = f + 2
    product, error = exact_product(s := f / below, below)
    s_low = (((f - product) - error) - s * (f - (below - 2))) / below
    square = s * s
    rest = torch.full_like(s, 2 / (2 * _TERMS + 1))
    for n in range(_TERMS - 1, 0, -1):
        rest = rest * square + 2 / (2 * n + 1)
    high, low = _sum(e * LN2_HIGH, s + s)
    return _sum(high, low + (s_low + s_low + rest * square * s + e * LN2_LOW))


def _power(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    size = x.abs()
    known = (size > 0) & (size < math.inf)
    high, low = _logarithm(torch.where(known, size, 1.0))
    exponent = y.clamp(-_MOST, _MOST)
    product, error = exact_product(exponent, high)
    beyond = torch.where(size == 0, -y, torch.where(size == math.inf, y, size)) * math.inf
    power = torch.where(known, product, beyond).exp()
    error = torch.where(known & (power < math.inf), error + exponent * low, 0.0)
    power = power + torch.where(error == 0, 0.0, power * error)
    is_whole = y.floor() == y
    is_negative = (x < 0) | (1 / x < 0)
    turns = is_negative & is_whole & ((y * 0.5).floor() * 2 != y)
    power = torch.where(turns, -power, power)
    power = torch.where((x < 0) & (x > -math.inf) & ~is_whole & (y == y), math.nan, power)
    return torch.where((y == 0) | (x == 1), 1.0, power)


@part(_aten.pow.Tensor_Tensor)
def pow_tensor(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | NotTaken:
    if not is_composed(torch.result_type(x, y)):
        return NOT_TAKEN
    return _power(x.float(), y.float())


@part(_aten.pow.Scalar)
def pow_of_number(x: float, y: torch.Tensor) -> torch.Tensor | NotTaken:
    if not is_composed(torch.result_type(x, y)) or not isinstance(x, (int, float)):
        return NOT_TAKEN
    return _power(torch.full_like(y, x, dtype=torch.float32), y.float())


# Exponents that the compiler makes of products, quotients and roots.
_PLAIN = {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0}


@part(_aten.pow.Tensor_Scalar)
def pow_number(x: torch.Tensor, y: float) -> torch.Tensor | NotTaken:
    if not is_composed(torch.result_type(x, y)) or not isinstance(y, (int, float)) or y in _PLAIN:
        return NOT_TAKEN
    return _power(x.float(), torch.full_like(x, y, dtype=torch.float32))
