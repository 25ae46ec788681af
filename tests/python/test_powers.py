# SPDX-License-Identifier: Apache-2.0
"""Powers of float32 on the card, without the profile `extended`."""

import math

import pytest
import torch
import torch_spyre

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 2.5, math.inf, -math.inf,
           math.nan, 1e30, -1e-30, 100.0, 2.0**24, 2.0**25 + 4]  # fmt: skip


def test_close_to_float64():
    generator = torch.Generator().manual_seed(0)
    x = torch.empty(3000).uniform_(-20, 20, generator=generator).exp()
    y = torch.empty(3000).uniform_(-4, 4, generator=generator)
    x[:1000] = 1 + torch.empty(1000).uniform_(-0.3, 0.3, generator=generator)
    y[:1000] *= 50
    with torch_spyre.fallback("error"):
        actual = torch.pow(x.to("spyre"), y.to("spyre")).cpu()
    expected = x.double() ** y.double()
    known = (expected > 1e-37) & (expected < 3e38)
    unit = (torch.nextafter(expected.float(), torch.tensor(math.inf)) - expected.float()).double()
    assert ((actual.double() - expected).abs() <= 2.5 * unit)[known].all()


def test_special_values():
    x, y = (part.flatten() for part in torch.meshgrid(*[torch.tensor(SPECIAL)] * 2, indexing="ij"))
    actual, expected = torch.pow(x.to("spyre"), y.to("spyre")).cpu(), torch.pow(x, y)
    torch.testing.assert_close(actual, expected, rtol=4e-7, atol=0, equal_nan=True)
    known = ~expected.isnan()
    assert torch.equal(actual.signbit()[known], expected.signbit()[known])


@pytest.mark.parametrize("compiled", [False, True])
def test_forms(compiled):
    base, powers = torch.tensor(0.7), torch.arange(1, 9, dtype=torch.int32)  # slopes of ALiBi
    x = torch.rand(3, 40) + 0.5
    forms = [(torch.pow, base, powers), (lambda x: x**1.7, x), (lambda x: 10000**x, x),
             (torch.pow, x, x[0]), (lambda x: x**-0.25, x), (lambda x: x**3, x)]  # fmt: skip
    for function, *operands in forms:
        torch._dynamo.reset()
        run = torch.compile(function) if compiled else function
        with torch_spyre.fallback("error"):
            actual = run(*[operand.to("spyre") for operand in operands]).cpu()
        torch.testing.assert_close(actual, function(*operands), rtol=1e-6, atol=0)
