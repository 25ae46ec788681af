# SPDX-License-Identifier: Apache-2.0
"""Every function of one element in the compiler's table of operators against float64: in 16 bits
over all numbers of the card's format within one unit of the last place, in float32 within two.

Which functions there are the table says, so that a new row is tested without a word here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch_spyre
from host_ops import HOST
from torch_spyre import _C

aten = torch.ops.aten
LARGEST = 2.0**32 * (1 + 510 / 512)  # of the card's 16 bits; the next code is infinity
LEAST = 2.0**-31 * (1 + 1 / 512)  # the smallest above 0

# Of these an argument has no default, or the default is not the function.
ARGUMENTS = {
    "aten.clamp.default": (-0.7, 2.3), "aten.clamp_max.default": (0.3,),
    "aten.clamp_min.default": (0.3,), "aten.threshold.default": (0.25, -3.0),
    "aten.pow.Tensor_Scalar": (1.75,), "aten.logit.default": (2**-6,),
    "aten.leaky_relu.default": (2.5,),
}  # fmt: skip
# Not functions of one element alone, or the host's, or exact to 1e-7 only in PyTorch's float64:
# tests/unit/tensor/opfunc_test.c has these Bessel functions in every code of 16 bits.
OTHERS = {"aten.clamp.Tensor", "aten.copy", "aten.clone", "aten.fill", "aten.dropout",
          "aten.lift_fresh_copy", HOST, "aten.special_bessel_j0", "aten.special_bessel_j1",
          "aten.special_bessel_y0", "aten.special_bessel_y1"}  # fmt: skip


def _sinc(x: torch.Tensor) -> torch.Tensor:
    part = torch.remainder(x + 1, 2) - 1
    part = torch.where(part.abs() > 0.5, part.sign() - part, part)
    part = torch.where(x.abs() < 0.5, x, part)
    return torch.where(x == 0, 1.0, torch.sin(torch.pi * part) / (torch.pi * x))


# Where PyTorch's own formula is less exact: at the tail of negative numbers, at whole numbers.
EXACT = {
    "aten.gelu.default": lambda x: x * torch.special.erfc(-x / 2**0.5) / 2,
    "aten.sinc.default": _sinc,
}


def functions() -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    """The operators of the table that make a float of one element, with the rest of the arguments
    at their defaults."""
    for name in _C.op_names():
        packet, _dot, overload = name.removeprefix("aten.").partition(".")
        if not name.startswith("aten.") or {name, f"aten.{packet}"} & OTHERS:
            continue
        op = getattr(getattr(aten, packet), overload)
        first, *rest = op._schema.arguments
        given = ARGUMENTS.get(name, ())
        if torch.Tag.pointwise not in op.tags or str(first.type) != "Tensor":
            continue
        if any(not argument.has_default_value() for argument in rest[len(given) :]):
            continue
        try:
            result = op(torch.ones(2), *given)
        except NotImplementedError:  # of integers alone
            continue
        if isinstance(result, torch.Tensor) and result.dtype is torch.float32:
            yield name, lambda x, op=op, given=given: op(x, *given)


FUNCTIONS = dict(functions())


def numbers_of_16_bits() -> torch.Tensor:
    """All finite ones of the card: a sign, six bits of exponent, nine of fraction."""
    codes = torch.arange(1 << 15)
    size = torch.ldexp(1 + (codes & 511) / 512.0, (codes >> 9) - 31)
    size[0] = 0.0
    return torch.cat([size, -size])[(torch.cat([size, size]) <= LARGEST)].float()


def unit_of(x: torch.Tensor, bits: int, least: float) -> torch.Tensor:
    """Of the last of `bits` bits of fraction."""
    return torch.ldexp(torch.ones_like(x), torch.frexp(x)[1] - 1 - bits).clamp(min=least)


def exact(name: str, x: torch.Tensor) -> torch.Tensor:
    return EXACT.get(name, FUNCTIONS[name])(x.double())


def expect_close(
    name: str, x: torch.Tensor, actual: torch.Tensor, exact: torch.Tensor, units: float, half: bool
) -> None:
    bits, largest, least = (9, LARGEST, LEAST) if half else (23, 3.4028234663852886e38, 2.0**-149)
    unit = unit_of(exact.nan_to_num(1.0, 1.0, 1.0), bits, least)
    within = (actual - exact).abs() <= units * unit
    beyond = exact.isnan() & (actual.isnan() | (actual == torch.inf))
    ends = (exact.abs() >= largest - unit) & (actual.abs() >= largest - unit)
    wrong = ~(within | beyond | (ends & (actual.sign() == exact.sign())))
    if name == "aten.sign.default" or name == "aten.sgn.default":
        wrong &= ~x.isnan()
    rows = [(x[i].item(), actual[i].item(), exact[i].item()) for i in wrong.nonzero()[:4, 0]]
    assert not rows, f"{name}: {int(wrong.sum())} of {len(x)} are wrong: {rows}"


def test_the_table_has_many() -> None:
    assert len(FUNCTIONS) > 55, list(FUNCTIONS)


def test_in_16_bits_over_all_numbers() -> None:
    """A cast from float32 in the graph gives numbers that no 16-bit tensor of PyTorch has."""
    x = numbers_of_16_bits()
    assert len(x) > 65_500

    def graph(x: torch.Tensor) -> list[torch.Tensor]:
        half = x.to(torch.float16)
        return [function(half).to(torch.float32) for function in FUNCTIONS.values()]

    torch._dynamo.reset()
    with torch_spyre.fallback("error"):
        results = torch.compile(graph, fullgraph=True)(x.to("spyre"))
    for name, actual in zip(FUNCTIONS, results, strict=True):
        expect_close(name, x, actual.cpu().double(), exact(name, x), 1.0, True)


@pytest.mark.parametrize("profile", ("extended",))
def test_in_float32(profile: str) -> None:
    """A sample of each binade, both signs."""
    torch.manual_seed(3)
    size = torch.ldexp(1 + torch.rand(64, 256), torch.arange(-126, 130, 4)[:64, None]).reshape(-1)
    near = torch.rand(1 << 14) * 40 - 20
    x = torch.cat([size, -size, near, torch.linspace(-3, 3, 4001)])
    x = x[x.isfinite()]
    with torch_spyre.config.patch(profile=profile), torch_spyre.fallback("error"):
        for name, function in FUNCTIONS.items():
            actual = function(x.to("spyre")).cpu().double()
            expect_close(name, x, actual, exact(name, x), 2.0, False)
