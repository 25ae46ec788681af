# SPDX-License-Identifier: Apache-2.0
"""Logarithms of float32 out of the functions that a card has in float32; the profile `extended`
has them as functions of their own.

x = m 2^e with m in [0.65, 1.55]: e is the nearest whole number to a logarithm in 16 bits, m comes
by powers of two, which round nothing. With
f = m - 1 and s = f / (2 + f), log(m) is 2 s + 2/3 s^3 + 2/5 s^5 + .. = f - s (f - R), R being the
terms from the second on over s (W. Cody, W. Waite, "Software Manual for the Elementary Functions",
1980). ln 2 is taken in two parts, so that e times the first is exact.
"""

from __future__ import annotations

import math

import torch

from ...register_decomposition import NOT_TAKEN, NotTaken, part
from ..lines import is_composed

_aten = torch.ops.aten

LN2_HIGH = float.fromhex("0x1.62e4p-1")
LN2_LOW = math.log(2) - LN2_HIGH
LEAST = 2.0**-149
_TERMS = 6  # s^2 is below 0.05: what is left out is below 1e-10


def _power_of_two(n: torch.Tensor) -> torch.Tensor:
    """2^n for whole n up to 75: e^(n ln 2) rounded to 11 bits (T. Dekker, 1971)."""
    near = (n * math.log(2)).exp()
    above = near * 8193.0  # 2^13 + 1
    return above - (above - near)


def split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """m and e of positive numbers; anything of others."""
    eighth = (x + LEAST).sqrt().sqrt().sqrt()  # within the range of 16 bits
    half = eighth.to(torch.float16).log().to(torch.float32) * (4 / math.log(2))
    first = (half + 0.5).floor()
    second = ((half + half - first) + 0.5).floor()
    power, more = _power_of_two(-first), second - first  # -1, 0 or 1, of which the last is 2^-more
    return x * power * (power * ((more * 0.25 - 0.75) * more + 1.0)), first + second


def _log(x: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
    """log(x), and a small number `more`, rounded once."""
    m, e = split(x)
    f = m - 1
    s = f / (f + 2)
    square = s * s
    rest = torch.full_like(s, 2 / (2 * _TERMS + 1))
    for n in range(_TERMS - 1, 0, -1):
        rest = rest * square + 2 / (2 * n + 1)
    low = e * LN2_LOW if more is None else e * LN2_LOW + more
    near = f - (s * (f - rest * square) - low) + e * LN2_HIGH
    known = torch.where(x < math.inf, near, x)
    return torch.where(x > 0, known, torch.where(x == 0, -math.inf, math.nan))


@part(_aten.log.default)
def log(x: torch.Tensor) -> torch.Tensor | NotTaken:
    return _log(x) if is_composed(x.dtype) else NOT_TAKEN


@part(_aten.log2.default)
def log2(x: torch.Tensor) -> torch.Tensor | NotTaken:
    return _log(x) * (1 / math.log(2)) if is_composed(x.dtype) else NOT_TAKEN


@part(_aten.log10.default)
def log10(x: torch.Tensor) -> torch.Tensor | NotTaken:
    return _log(x) * (1 / math.log(10)) if is_composed(x.dtype) else NOT_TAKEN


def _log1p(x: torch.Tensor) -> torch.Tensor:
    """log(u) with u the rounded 1 + x, and what rounding took over u."""
    u = x + 1
    near = torch.where(u == 1, x, _log(u, (x - (u - 1)) / u))
    return torch.where(x < math.inf, near, x)


@part(_aten.log1p.default)
def log1p(x: torch.Tensor) -> torch.Tensor | NotTaken:
    return _log1p(x) if is_composed(x.dtype) else NOT_TAKEN


@part(_aten.softplus.default)
def softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> torch.Tensor | NotTaken:
    if not is_composed(x.dtype):
        return NOT_TAKEN
    scaled = x * beta
    return torch.where(scaled > threshold, x, _log1p(scaled.exp()) / beta)


@part(_aten.xlogy.Tensor)
def xlogy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | NotTaken:
    if not is_composed(torch.result_type(x, y)):
        return NOT_TAKEN
    return torch.where(y.isnan(), math.nan, torch.where(x == 0, 0.0, x * _log(y.float())))
