# SPDX-License-Identifier: Apache-2.0
"""Steps in float32 between casts from 16 bits and back, at random, against float64."""

import random

import pytest
import torch


def _number(rng: random.Random, shape, dtype=torch.float32):
    """For each row, at times for each place."""
    kept = [n if rng.random() < (0.2 if d == len(shape) - 1 else 0.6) else 1
            for d, n in enumerate(shape)]  # fmt: skip
    return (torch.randint(-16, 17, kept) / 8).to(dtype)


def _chain(rng: random.Random):
    """The kinds of its steps, in any order but mostly that of a norm."""
    steps = [step for step in ("sub", "mul", "mul", "add") if rng.random() < 0.7]
    if rng.random() < 0.2:
        rng.shuffle(steps)
    return steps


def _run(x, steps, operands, reduced, wide):
    """Results of the chain, and sums over some dims in float32."""
    y = x.to(wide)
    total = x.sum(reduced, dtype=wide) if reduced else x.to(wide)
    spread = y.amax(reduced, keepdim=True) - y.mean(reduced, keepdim=True) if reduced else y
    for step, operand in zip(steps, operands, strict=True):
        y = getattr(torch, step)(y, operand.to(wide))
    return y if wide == torch.float64 else y.to(x.dtype), total, spread


@pytest.mark.parametrize("form", ["plain", "transposed", "slice"])
@pytest.mark.parametrize("seed", range(12))
def test_chains(seed, form):
    torch._dynamo.reset()
    rng = random.Random(f"{seed} {form}")
    dtype = rng.choice([torch.float16, torch.bfloat16])
    shape = [rng.choice([1, 2, 3, 5, 8]) for _ in range(rng.randrange(0, 3))]
    shape.append(rng.choice([1, 7, 56, 63, 64, 65, 130, 200]))
    x = torch.randint(-64, 65, shape).to(dtype) / 16
    if form == "transposed" and len(shape) > 1:
        x = x.transpose(-1, -2)
    if form == "slice":
        x = torch.cat([x, x, x, x], -1)[..., 3 : 3 + shape[-1]]
    steps = _chain(rng)
    operands = [_number(rng, x.shape, rng.choice([dtype, torch.float32])) for _ in steps]
    reduced = [d for d in range(x.dim()) if rng.random() < 0.5]
    expected = _run(x.double(), steps, operands, reduced, torch.float64)
    compiled = torch.compile(_run, dynamic=False)
    moved = [operand.to("spyre") for operand in operands]
    for function in (_run, compiled):
        results = function(x.to("spyre"), steps, moved, reduced, torch.float32)
        for got, wanted in zip(results, expected, strict=True):
            unit = 2.0**-9 if got.dtype == dtype else 2.0**-16
            torch.testing.assert_close(
                got.cpu().double(), wanted, rtol=unit, atol=unit * 8 * x.numel() ** 0.5
            )
