# SPDX-License-Identifier: Apache-2.0
"""Logarithms of float32 on the card, without the profile `extended`, and what is made of them:
functions, losses, positions."""

import math

import pytest
import torch
import torch_spyre

NEAR_ONE = (("log", 1.0), ("log2", 1.0), ("log10", 1.0))
NEAR_ZERO = (("log1p", 0.0), ("tanh", 0.0), ("softplus", 0.0))


def units_off(actual, expected):
    """The largest distance from float64 in units of the last place of float32."""
    rounded = expected.float().abs()
    unit = torch.nextafter(rounded, torch.tensor(math.inf)) - rounded
    return ((actual.double() - expected).abs() / unit).max().item()


@pytest.mark.parametrize(("name", "center"), [*NEAR_ONE, *NEAR_ZERO])
def test_within_units_of_the_last_place(name, center):
    generator = torch.Generator().manual_seed(0)
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    x = torch.cat([
        torch.empty(2000).uniform_(-87, 88, generator=generator).exp(),
        center + torch.empty(2000).uniform_(-0.4, 0.5, generator=generator),
        center + torch.empty(500).uniform_(-1e-3, 1e-3, generator=generator),
        *([torch.linspace(-9, 9, 2001)] if name in ("tanh", "softplus") else []),
    ])  # fmt: skip
    with torch_spyre.fallback("error"):
        actual = function(x.to("spyre")).cpu()
    most = {"log1p": 1.2, "tanh": 3.5, "softplus": 2.5}.get(name, 2)
    assert units_off(actual, function(x.double())) <= most
    special = torch.tensor([0.0, -0.0, -1.0, math.inf, -math.inf, math.nan, 1.0])
    actual = function(special.to("spyre")).cpu()
    rtol = 0 if center else 5e-7
    torch.testing.assert_close(actual, function(special), rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_losses_of_float32_logits_and_their_gradients(compiled):
    """As language models and classifiers compute them: `loss(logits.float(), ..)`."""
    torch._dynamo.reset()
    F = torch.nn.functional
    labels, logits = torch.randint(0, 100, (40,)), torch.randn(40, 100) * 3
    target = torch.softmax(logits, 0)
    labels[::7] = -100

    def losses(logits, labels, target):
        return torch.stack([
            F.cross_entropy(logits, labels),
            F.cross_entropy(logits, labels, label_smoothing=0.1),
            F.binary_cross_entropy_with_logits(logits, target),
            F.kl_div(F.log_softmax(logits, -1), target, reduction="batchmean"),
        ])  # fmt: skip

    def run(device, function):
        x = logits.clone().to(device).requires_grad_()
        values = function(x, labels.to(device), target.to(device))
        values.sum().backward()
        return values.detach().cpu(), x.grad.cpu()

    with torch_spyre.fallback("error"):
        found = run("spyre", torch.compile(losses) if compiled else losses)
    for actual, expected in zip(found, run("cpu", losses), strict=True):
        torch.testing.assert_close(actual, expected, rtol=2e-6, atol=1e-8)


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


@pytest.mark.parametrize("name", ["log", "log2", "log1p", "tanh"])
def test_functions_of_constants_of_the_host_are_numbers(name):
    """As DeBERTa's buckets of positions: x / log(tensor(..)) in a graph of the card."""

    def program(x):
        return x.log() / getattr(torch, name)(torch.tensor(3.99))

    x = torch.linspace(1, 9, 64)
    with torch_spyre.fallback("error"):
        actual = torch.compile(program, fullgraph=True)(x.to("spyre")).cpu()
    torch.testing.assert_close(actual, program(x), rtol=1e-6, atol=1e-7)
