# SPDX-License-Identifier: Apache-2.0
"""Logarithms of float32 on the card, without the profile `extended`, and positions made of them."""

import math

import pytest
import torch
import torch_spyre


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_within_two_units_of_the_last_place(name):
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([
        torch.empty(2000).uniform_(-87, 88, generator=generator).exp(),
        1 + torch.empty(2000).uniform_(-0.4, 0.5, generator=generator),
        1 + torch.empty(500).uniform_(-1e-3, 1e-3, generator=generator),
    ])  # fmt: skip
    with torch_spyre.fallback("error"):
        actual = getattr(x.to("spyre"), name)().cpu()
    expected = getattr(x.double(), name)()
    unit = torch.nextafter(expected.float().abs(), torch.tensor(math.inf)) - expected.float().abs()
    assert ((actual.double() - expected).abs() <= 2 * unit).all()
    special = torch.tensor([0.0, -0.0, -1.0, math.inf, -math.inf, math.nan, 1.0])
    actual = getattr(special.to("spyre"), name)().cpu()
    torch.testing.assert_close(actual, getattr(special, name)(), rtol=0, atol=0, equal_nan=True)


def bucket(distance):
    """Relative positions as T5 has them: log(0) is minus infinity, which becomes some integer."""
    distance = -torch.min(distance, torch.zeros_like(distance))
    large = 16 + (torch.log(distance.float() / 16) / math.log(8) * 16).to(torch.long)
    large = torch.min(large, torch.full_like(large, 31))
    return torch.where(distance < 16, distance, large) + 1


@pytest.mark.parametrize("compiled", [False, True])
def test_positions_of_logarithms_stay_on_the_card(compiled):
    torch._dynamo.reset()
    distance = torch.arange(-150, 20)
    with torch_spyre.fallback("error"):
        found = (torch.compile(bucket) if compiled else bucket)(distance.to("spyre"))
    assert torch.equal(found.cpu(), bucket(distance))
