# SPDX-License-Identifier: Apache-2.0
"""How far a result may be from its reference (reference.py).

The bound of an element y follows the condition of the operator:

    |actual - y| <= 4 u |y| + 4 P + 3 C + t

u is half a unit of the last place of the format (DL16 2^-10, bfloat16 2^-8, float32 2^-24). P is
how far y moves when every input and every result of an ATen operator on the way, what autograd
saves included, moves by a relative u (Monte Carlo arithmetic: the largest of six draws, four of
random signs and two that order equal inputs one way and the other; at least a twentieth of its root
mean square over the tensor, since an element that no draw moved may still depend on the inputs). C
is the error of PyTorch's own CPU kernel of the dtype (the rounding that its formula entails; in
float32, which both sum up in their own order, at least the same share of the first two terms as the
root mean square of its errors over the tensor), t the smallest number of the format. For
eigenvalues and singular values |y| is the norm of all of them times the root of their number, as
the error of their algorithms grows (allowances.NORMWISE). Where the inputs are
integers 16 u |y| stands for the first two. A comparison, a floor, an index may be what any of
the draws gives. Beyond the largest number of the format a result may be infinite; where the
reference is no finite number a 16-bit result must be none (the card has one word for infinities and
NaN), a float32 result must be the same one. What docs/special-values.md says of 16 bits holds of
results on the way, too: where a NaN or a number beyond the range is among them, the bound has
another 4 |y' - y|, y' being what y becomes when they are as the card holds them (Special).
"""

from __future__ import annotations

import math

import torch

# Half a unit of the last place, smallest and largest number, of results of the card.
UNIT = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
TINY = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-30, torch.float32: 2.0**-126}
LARGEST = {torch.float16: 65504.0, torch.bfloat16: 2.0**33, torch.float32: 3.4e38}


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
