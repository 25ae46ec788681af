# SPDX-License-Identifier: Apache-2.0
"""Rounding and whole quotients of float32 on the card, without the profile `extended`."""

import math

import pytest
import torch
import torch_spyre

SPECIAL = [0.0, 1.0, 0.5, 1.5, 2.5, 0.3, 0.49999997, 1e-30, 3e38, 4194304.5, 8388609.0, math.inf]
FUNCTIONS = {
    "round": lambda x, y: x.round(),
    "floor_divide": lambda x, y: x // y,
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "a number": lambda x, y: torch.div(x, 2, rounding_mode="floor"),
    "a negative number": lambda x, y: x // -0.3,
}


def operands():
    """Of many sizes; near multiples of tenths, whose quotients round to whole numbers; special."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, generator=generator)
    x = x * 10 ** torch.empty(2000).uniform_(-5, 5, generator=generator)
    n, y = torch.randint(-50, 50, (2, 2000), generator=generator) * 0.1
    special = torch.tensor([*SPECIAL, *(-s for s in SPECIAL), math.nan])
    a, b = torch.meshgrid(special, special, indexing="ij")
    divisors = torch.randn(2000, generator=generator)
    return torch.cat([x, n * y * 10, a.flatten()]), torch.cat([divisors, y, b.flatten()])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_the_cpu(name, compiled):
    function = FUNCTIONS[name]
    x, y = operands()
    expected = function(x, y)
    called = torch.compile(function) if compiled else function
    with torch_spyre.fallback("error"):
        actual = called(x.to("spyre"), y.to("spyre")).cpu()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    known = ~expected.isnan()
    assert torch.equal(actual[known].signbit(), expected[known].signbit())
