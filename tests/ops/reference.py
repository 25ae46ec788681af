# SPDX-License-Identifier: Apache-2.0
"""What a result should be; how far off it may be is in bounds.py.

The reference is the operator in float64 on the inputs as the card holds them: a 16-bit tensor makes
the round trip through the device first, since the card's DL16 has nine bits of mantissa where
float16 has ten.
"""

from __future__ import annotations

import math

import mpmath
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .bounds import LARGEST

WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64,
        torch.float32: torch.float64, torch.complex32: torch.complex128,
        torch.complex64: torch.complex128}  # fmt: skip
DRAWS = 6
TILTED = 2  # the last of them


# PyTorch's kernels of these are off by 4e-7 in double precision, too, where their asymptotic series
# begins (|x| = 5): mpmath has them to the last place.
def _bessel(name: str, order: int):
    def function(x: torch.Tensor) -> torch.Tensor:
        of_one = getattr(mpmath, name)
        values = [complex(of_one(order, value)) for value in x.flatten().tolist()]
        values = [math.nan if value.imag else value.real for value in values]  # y of x < 0
        return torch.tensor(values, dtype=torch.float64).reshape(x.shape)

    return function


MORE_EXACT = {
    "special.bessel_j0": _bessel("besselj", 0), "special.bessel_j1": _bessel("besselj", 1),
    "special.bessel_y0": _bessel("bessely", 0), "special.bessel_y1": _bessel("bessely", 1),
}  # fmt: skip


def held(value):
    """A tensor of the CPU with the values that the card makes of it; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value
    if value.dtype not in (torch.float16, torch.bfloat16) or value.numel() == 0:
        return value
    card = value.detach().to("spyre").cpu()
    if value.requires_grad or not value.is_contiguous():  # the leaf and its strides stay
        with torch.no_grad():
            value.copy_(card)
        return value
    return card


def widen(value):
    """Arguments in double precision."""
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in WIDE:
        return value.detach().to(WIDE[value.dtype]).requires_grad_(value.requires_grad)
    return value


def moved(values, unit: float, draw: int):
    """`values` (double precision) with every number moved by a relative `unit`; numbers of Python,
    too, when they have more bits than the card keeps. The last draws move the elements of a row by
    up to that, more and more or less and less, so that none of them stay equal."""
    generator = torch.Generator().manual_seed(draw)
    tilted = draw >= DRAWS - TILTED

    def pattern(value):
        if not tilted or value.dim() == 0:
            return torch.randint(0, 2, value.shape, generator=generator).double() * 2 - 1
        slope = torch.linspace(-1, 1, value.numel(), dtype=torch.float64).view(value.shape)
        return slope * value.sign() * (1 if draw % 2 else -1)

    def one(value):
        if type(value) is float and math.isfinite(value) and math.frexp(value)[0] * 512 % 1:
            return value * (1 + unit * (1 if draw % 2 else -1))
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        if value.layout != torch.strided:
            return value
        new = value.detach() * (1 + unit * pattern(value.detach()))
        return new.requires_grad_(value.requires_grad)

    return pytree.tree_map(one, values)


class _Results(TorchDispatchMode):
    """Changes what operators give in double precision."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        if any(a.alias_info is not None for a in function._schema.returns):
            return results  # views, in-place and out= forms
        return pytree.tree_map(self._one, results)

    def _one(self, value):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        if value.layout != torch.strided or value._is_zerotensor():
            return value
        return self.changed(value)


class Rounding(_Results):
    """Moves results by a relative `unit`, as rounding would; `leaves_range` tells that one of them
    was outside of `limit`."""

    def __init__(self, unit: float, draw: int, limit: float = math.inf):
        super().__init__()
        self.unit = unit
        self.limit = limit
        self.leaves_range = False
        self.generator = torch.Generator().manual_seed(1000 + draw)

    def changed(self, value):
        if self.limit < math.inf:
            self.leaves_range |= not bool((value.abs() <= self.limit).all())
        signs = torch.randint(0, 2, value.shape, generator=self.generator).double() * 2 - 1
        return value * (1 + self.unit * signs)


class Special(_Results):
    """Makes results what a 16-bit format of the card holds: a NaN is positive infinity, bfloat16
    ends at 2^33, and float16 that the host reads at 65,504."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def changed(self, value):
        value = value.nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)
        most = LARGEST[self.dtype]
        beyond = value.abs() > most
        end = most if self.dtype == torch.bfloat16 else math.inf
        return torch.where(beyond & value.isfinite(), value.sign() * end, value)
