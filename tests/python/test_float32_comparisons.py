# SPDX-License-Identifier: Apache-2.0
"""Comparisons of float32, which the card makes of signs of distances: every pair of special values,
and numbers whose distance is subnormal or has no float32."""

import math

import pytest
import torch
import torch_spyre

LEAST, NORMAL, MOST = 2.0**-149, 2.0**-126, torch.finfo(torch.float32).max
SIZES = [
    0.0, LEAST, 2 * LEAST, NORMAL - LEAST, NORMAL, 1e-30, 0.1, 1 - 2**-24, 1.0, 1 + 2**-23, 3.0,
    65504.0, 65536.0, 1e10, 2.0**127, MOST * (1 - 2**-24), MOST, math.inf,
]  # fmt: skip
VALUES = [*SIZES, *[-size for size in SIZES], math.nan, -math.nan]
COMPARISONS = [torch.gt, torch.lt, torch.ge, torch.le, torch.eq, torch.ne]


@pytest.fixture
def values():
    return torch.tensor(VALUES)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("compare", COMPARISONS)
def test_pairs(compare, compiled, values):
    torch._dynamo.reset()
    x, y = values.repeat_interleave(len(values)), values.repeat(len(values))
    function = torch.compile(compare) if compiled else compare
    assert torch.equal(function(x.to("spyre"), y.to("spyre")).cpu(), compare(x, y))
    rows = function(values.to("spyre")[:, None], values.to("spyre")).cpu()
    assert torch.equal(rows.reshape(-1), compare(x, y))


@pytest.mark.parametrize("compare", COMPARISONS)
def test_numbers(compare, values):
    for number in VALUES:
        got = compare(values.to("spyre"), number).cpu()
        assert torch.equal(got, compare(values, number)), number


@pytest.mark.parametrize("number", [0.0, 0.1, -3.0, math.inf, -math.inf, math.nan])
def test_compiled_numbers_select(number, values):
    torch._dynamo.reset()

    def function(x, y):
        chosen = torch.where(x > number, x, y), torch.where(x == number, y, 2.0)
        return *chosen, x.masked_fill(x <= number, 1.0), torch.where(x != x, 0.5, y)

    x, y = values.repeat_interleave(len(values)), values.repeat(len(values))
    results = torch.compile(function)(x.to("spyre"), y.to("spyre"))
    for got, wanted in zip(results, function(x, y), strict=True):
        torch.testing.assert_close(got.cpu(), wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "function", [torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf]
)
def test_kinds(function, values):
    assert torch.equal(function(values.to("spyre")).cpu(), function(values))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_conditions_of_16_bits_select_32(dtype):
    """Rows that end inside of a stick, of either format; more cores than rows."""
    torch._dynamo.reset()
    r = torch.Generator().manual_seed(1)
    for shape in [(1,), (33,), (5, 70), (64, 31), (3, 5, 65)]:
        c, x = (torch.randint(-3, 4, shape, generator=r).to(dtype) for _ in range(2))
        y = torch.randn(shape, generator=r)

        def function(c, x, y):
            row = (c > 0)[..., :1]
            wide = torch.where(c > 1, y, x.float()).maximum(c.float() * 0.5)
            return wide, torch.where(row, y / x.float().abs().add(1), c.float())

        results = torch.compile(function)(*[t.to("spyre") for t in (c, x, y)])
        for got, wanted in zip(results, function(c, x, y), strict=True):
            torch.testing.assert_close(got.cpu(), wanted, rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("compare", COMPARISONS)
def test_widened_16_bits(compare, dtype, values):
    """They compare as 16 bits with one another, and with a number that 16 bits have."""
    card = values.to(dtype).to("spyre")
    x = card.cpu().float()
    few, more = dict.fromkeys([0.0, 1.5, -math.inf], 1), dict.fromkeys([0.1, 1 + 2**-23], 4)
    for number, kernels in (few | more).items():
        torch._dynamo.reset()
        got = torch.compile(lambda x, n=number: compare(x.float(), n))(card).cpu()
        assert torch.equal(got, compare(x, number)), number
        assert torch_spyre.last_report().kernels <= kernels
    torch._dynamo.reset()
    pairs = torch.compile(lambda x: compare(x.float()[:, None], x.float()))(card).cpu()
    assert torch.equal(pairs, compare(x[:, None], x))
