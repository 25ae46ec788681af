# SPDX-License-Identifier: Apache-2.0
"""Resampling to the nearest element moves bits, those of infinities, too."""

import random

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SIZES = (1, 2, 3, 7, 28, 64, 65, 130)


def case(seed):
    """A tensor of one to three dims behind two, and what is asked of it."""
    draw = random.Random(seed)
    rank = draw.choice((1, 1, 2, 2, 3))
    sizes = [draw.choice(SIZES[: 9 - 2 * rank]) for _ in range(rank)]
    x = torch.randn(2, 3, *sizes).to(draw.choice(DTYPES))
    x.view(-1)[:: draw.choice((3, 5))] = draw.choice((1, -1)) * float("inf")
    to = {"size": [draw.choice(SIZES[: 9 - 2 * rank]) for _ in range(rank)]}
    by = {"scale_factor": draw.choice((2, 4, 3, 0.5, 1.7))}
    wanted = draw.choice((to, by))
    if by is wanted and min(int(n * by["scale_factor"]) for n in sizes) < 1:
        wanted = to
    return x, {**wanted, "mode": draw.choice(("nearest", "nearest-exact"))}


def check(seed, compiled):
    torch.manual_seed(seed)
    x, wanted = case(seed)
    function = torch.compile(F.interpolate, dynamic=False) if compiled else F.interpolate
    with torch_spyre.fallback("error"):
        actual = function(x.to("spyre"), **wanted)
    expected = F.interpolate(x.to("spyre").cpu(), **wanted)
    assert torch.equal(actual.cpu(), expected), f"seed {seed}: {x.dtype} {x.shape} {wanted}"


@pytest.mark.parametrize("trials", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_bits_are_pytorchs(trials):
    for seed in range(trials):
        check(seed, compiled=False)


def test_compiled():
    for seed in range(6):
        torch._dynamo.reset()
        check(seed, compiled=True)
