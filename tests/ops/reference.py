# SPDX-License-Identifier: Apache-2.0
"""What a result should be, and how far off it may be.

The reference is the operator in float64 on the inputs as the card holds them: a 16-bit tensor makes
the round trip through the device first, since the card's DL16 has nine bits of mantissa where
float16 has ten. The bound of an element y follows the condition of the operator:

    |actual - y| <= 4 u |y| + 4 P + 3 C + t

u is half a unit of the last place of the format (DL16 2^-10, bfloat16 2^-8, float32 2^-24). P is
how far y moves when every input and every result of an ATen operator on the way, what autograd
saves included, moves by a relative u (Monte Carlo arithmetic: the largest of six draws, four of
random signs and two that order equal inputs one way and the other; at least a twentieth of its root
mean square over the tensor, since an element that no draw moved may still depend on the inputs). C
is the error of PyTorch's own CPU kernel of the dtype (the rounding that its formula entails; in
float32, which both sum up in their own order, at least the same share of the first two terms as the
root mean square of its errors over the tensor), t the smallest number of the format. For
eigenvalues and singular values |y| is the norm of all of them
times the root of their number, as the error of their algorithms grows (judge.NORMWISE). Where the
inputs are integers 16 u |y| stands for the first two. A comparison, a floor, an index may be what
any of the draws gives. Beyond the largest number of the format a result may be infinite; where the
reference is no finite number a 16-bit result must be none (the card has one word for infinities and
NaN), a float32 result must be the same one. What docs/special-values.md says of 16 bits holds of
results on the way, too: where a NaN or a number beyond the range is among them, the bound has
another 4 |y' - y|, y' being what y becomes when they are as the card holds them (Special).
"""

from __future__ import annotations

import math

import mpmath
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# Half a unit of the last place, smallest and largest number, of results of the card.
UNIT = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
TINY = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-30, torch.float32: 2.0**-126}
LARGEST = {torch.float16: 65504.0, torch.bfloat16: 2.0**33, torch.float32: 3.4e38}
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


def error(actual, expected, reference, draws: list, normwise=False, others=()):
    """The largest error of a result in units of its bound, and what is wrong with it or "".

    `expected` is what PyTorch's CPU kernel gives in the dtype (its shape and dtype are the rule),
    `reference` the same in double precision, `draws` with moved inputs. If `normwise`, the first
    term of the bound is that of their norm times the root of their number for each element. A
    result between the reference and one of the `others` is right as well."""
    if not isinstance(expected, torch.Tensor):
        return _scalar_error(actual, expected, reference)
    kind = kind_error(actual, expected)
    if kind[1]:
        return kind
    if expected.numel() == 0 or expected.layout != torch.strided:
        return 0.0, ""
    actual, expected = _real(actual.detach().cpu()), _real(expected.detach())
    reference, draws = _real(reference.detach()), [_real(d.detach()) for d in draws]
    others = [_real(other.detach()) for other in others]
    others = [other for other in others if other.shape == expected.shape]
    draws = [draw for draw in draws if draw.shape == expected.shape]  # nonzero, unique of a draw
    if reference.shape != expected.shape:
        reference, draws = expected.to(reference.dtype), []
    if not actual.is_floating_point():
        return _exact_error(actual, [expected, reference, *draws, *others])
    draws, others = [d.double() for d in draws], [other.double() for other in others]
    return _rounding_error(actual, expected, reference.double(), draws, normwise, others)


def kind_error(actual, expected: torch.Tensor) -> tuple[float, str]:
    """What is wrong with a result whose values are random: class, dtype, shape."""
    if not isinstance(actual, torch.Tensor):
        return math.inf, f"{type(actual).__name__} instead of a tensor"
    if (actual.dtype, actual.shape) == (expected.dtype, expected.shape):
        return 0.0, ""
    seen, wanted = f"{actual.dtype} {[*actual.shape]}", f"{expected.dtype} {[*expected.shape]}"
    return math.inf, f"{seen} instead of {wanted}"


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _scalar_error(actual, expected, reference) -> tuple[float, str]:
    if isinstance(expected, float) and isinstance(actual, float):
        near = math.isclose(actual, reference, rel_tol=0.02, abs_tol=1e-3)
        same = near or not (math.isfinite(actual) or math.isfinite(reference))
        return (0.0, "") if same else (math.inf, f"{actual} instead of {reference}")
    return (0.0, "") if actual == expected else (math.inf, f"{actual} instead of {expected}")


def _exact_error(actual, candidates) -> tuple[float, str]:
    wrong = torch.ones(actual.shape, dtype=torch.bool)
    for candidate in candidates:
        wrong &= actual != candidate.to(actual.dtype)
    return (math.inf, _place(wrong, actual, candidates[1])) if wrong.any() else (0.0, "")


def _rounding_error(actual, expected, reference, draws, normwise, others) -> tuple[float, str]:
    dtype = actual.dtype
    unit = UNIT.get(dtype, 2.0**-24)
    actual, expected = actual.double(), expected.double()
    movement = _movement(reference, draws)
    kernel = (expected - reference).abs()
    own = 4 if draws else 16  # units; integers cannot be moved
    size = reference.norm() * reference.numel() ** 0.5 if normwise else reference.abs()
    for other in others:
        movement = movement.maximum((other - reference).abs())
    condition = own * unit * size + 4 * movement
    if dtype == torch.float32:
        kernel = kernel.maximum(condition * _share(kernel, condition))
    bound = condition + 3 * kernel + TINY.get(dtype, 2.0**-126)
    ratio = ((actual - reference).abs() / bound).nan_to_num(math.inf, math.inf)
    same = (actual == reference) | (actual == expected) | (actual.isnan() & reference.isnan())
    if dtype in (torch.float16, torch.bfloat16):
        same |= ~actual.isfinite() & ~reference.isfinite()
    free = ~actual.isfinite() & (reference.abs() >= 0.98 * LARGEST.get(dtype, math.inf))
    beyond = LARGEST.get(dtype, math.inf) * 0.98  # saturated
    free |= (reference.abs() >= beyond) & (actual.abs() >= beyond) & (actual * reference > 0)
    free |= ~expected.isfinite() & reference.isfinite() | ~torch.isfinite(movement)
    ratio[same | free] = 0.0
    wrong = ratio > 1
    return float(ratio.max()), _place(wrong, actual, reference) if wrong.any() else ""


def _share(kernel: torch.Tensor, condition: torch.Tensor) -> float:
    """The root mean square of the kernel's errors, in units of what the condition allows."""
    ratio = (kernel / condition)[condition > 0]
    ratio = ratio[ratio.isfinite()]
    return float(ratio.square().mean().sqrt()) if ratio.numel() else 0.0


def _movement(reference: torch.Tensor, draws: list) -> torch.Tensor:
    if not draws:
        return torch.zeros_like(reference)
    most = torch.stack([(draw - reference).abs() for draw in draws]).amax(0)
    most[~reference.isfinite()] = 0.0
    finite = most[most.isfinite()]
    if finite.numel() == 0:
        return most
    return most.clamp_min(0.05 * float(finite.square().mean().sqrt()))


def _place(wrong: torch.Tensor, actual, reference) -> str:
    first = tuple(int(i) for i in wrong.nonzero()[0])
    seen, wanted = actual[first].item(), reference[first].item()
    count = int(wrong.sum())
    return f"{seen} instead of {wanted} at {list(first)}, {count} of {wrong.numel()} elements"
