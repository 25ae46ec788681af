# SPDX-License-Identifier: Apache-2.0
"""Random graphs over symbolic sizes: whether one program serves them or some have their own, all
results are, bit by bit, those of programs that are compiled for the sizes."""

import random

import pytest
import torch
from torch.nn import functional

WIDTH = 64
WEIGHT = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(5)).half() / 8


def attend(x, causal=False):
    heads = x.unflatten(-1, (2, 32)).transpose(1, 2)
    mixed = functional.scaled_dot_product_attention(heads, heads, heads, is_causal=causal)
    return mixed.transpose(1, 2).reshape(x.shape)


# Of [batch, length, WIDTH], which both may have grown by joining.
STEPS = [
    lambda x, w: x.relu() + 1,
    lambda x, w: x.softmax(-1),
    lambda x, w: x.softmax(1) * 8,
    lambda x, w: x @ w,
    lambda x, w: functional.gelu(x @ w) @ w + x,
    lambda x, w: x - x.amax(1, keepdim=True),
    lambda x, w: functional.layer_norm(x, (WIDTH,)),
    lambda x, w: attend(x),
    lambda x, w: attend(x, causal=True) + x,
    lambda x, w: (x @ x.transpose(1, 2) / 64).softmax(-1) @ x,
    lambda x, w: torch.cat((x, -x), 1),
    lambda x, w: torch.cat((x * 2, x), 0),
    lambda x, w: torch.stack((x, x * 0.5)).sum(0),
    lambda x, w: x.transpose(0, 1).contiguous().transpose(0, 1) * 0.5,
    lambda x, w: torch.cat((x[..., 32:], x[..., :32]), -1),
    lambda x, w: x * x.sum(1, keepdim=True).sigmoid(),
    lambda x, w: x - x.mean(1, keepdim=True),
    lambda x, w: x * x.mean((0, 1)).tanh(),
    lambda x, w: x * (x * x).mean(0, keepdim=True).sqrt(),
]

# Of which some sizes are one or two more or less than the length.
SHIFTS = [
    lambda x, w: x[:, 1:] - x[:, :-1],
    lambda x, w: torch.cat((x[:, 1:], x[:, :1]), 1),
    lambda x, w: torch.cat((x, x[:, :2] * 0.5), 1),
    lambda x, w: torch.cat((x[:, :1], x[:, 1:] - x[:, :-1] * 0.5), 1),
    lambda x, w: functional.pad(x, (0, 0, 1, 0)) * 0.5,
    lambda x, w: x[:, 2:] * 0.5 + x[:, 1:-1] + x[:, :-2],
    lambda x, w: x[:, :-1].softmax(-1),
    lambda x, w: x[1:] + x[:-1],
    lambda x, w: x - x.var(1, keepdim=True),
    lambda x, w: x * x.std((0, 1), keepdim=True),
    lambda x, w: x * (x.sum(1, keepdim=True) / x.shape[1]),
    lambda x, w: x + x.shape[0] / 8 - x.std(0, correction=2, keepdim=True),
    lambda x, w: x / x.shape[1] + x[:, -1:],
    lambda x, w: x * x.flatten(0, 1).softmax(0).view_as(x),
]


def random_function(seed):
    draw = random.Random(seed)
    chosen = draw.choices(STEPS, k=4)
    if seed % 2:
        chosen = draw.sample([*chosen[:2], *draw.choices(SHIFTS, k=2)], k=4)

    def function(x, w):
        for step in chosen:
            x = step(x, w)
        return x

    return function


def check(seed):
    """Sizes of batch and length, in most seeds both symbolic."""
    draw = random.Random(seed)
    function = random_function(seed)
    bounds = draw.choice([{0: (4, 16), 1: (64, 256)}, {1: (64, 320)}, {0: (4, 16), 1: (16, 128)}])
    most = [bounds.get(dim, (0, 3))[1] for dim in (0, 1)]
    sizes = [most] + [[draw.randint(1, 4) * n // 4 for n in most] for _ in range(2)]
    sizes += [[draw.randint(*bounds.get(dim, (3, 3))) for dim in (0, 1)] for _ in range(2)]
    for size in sizes[1:]:
        if 0 not in bounds:
            size[0] = most[0]
    weight, cases, is_bounded = WEIGHT.to("spyre"), [], draw.random() < 0.7
    if not is_bounded:  # the first ones have programs of their own
        sizes += [[draw.randint(*bounds.get(dim, (3, 3))) for dim in (0, 1)] for _ in range(3)]
    torch._dynamo.reset()
    compiled = torch.compile(function, dynamic=None if is_bounded else True)
    for size in sizes:
        x = torch.randn(*size, WIDTH, generator=torch.Generator().manual_seed(seed)).half()
        on_card = x.to("spyre")
        for dim, (low, high) in bounds.items() if is_bounded else ():
            torch._dynamo.mark_dynamic(on_card, dim, min=low, max=high)
        cases.append((x, compiled(on_card, weight).cpu()))
    torch._dynamo.reset()
    static = torch.compile(function, dynamic=False)
    for x, result in cases:
        expected = static(x.to("spyre"), weight).cpu()
        assert expected.shape == result.shape
        assert expected.view(torch.int16).equal(result.view(torch.int16)), (seed, x.shape)


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed):
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6, 120))
def test_more_random_graphs(seed):
    check(seed)
