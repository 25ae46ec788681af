# SPDX-License-Identifier: Apache-2.0
"""Random graphs over symbolic sizes: whether one program serves them or some have their own, all
results are, bit by bit, those of programs that are compiled for the sizes."""

import random

import pytest
import torch
import torch_spyre
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

# What is last: results of joined sizes.
RESULTS = [
    lambda x: x.reshape(-1, WIDTH),
    lambda x: x.movedim(2, 0).reshape(WIDTH, -1).contiguous(),
    lambda x: torch.cat((x, x * 0.5), 1),
    lambda x: torch.cat((x, -x, x), 0) + 1,
    lambda x: (x.flatten(), x.shape[0] * x.shape[1]),
    lambda x: x.reshape(-1, WIDTH).relu().sum(0),
    lambda x: x.median(1),
    lambda x: (x.flatten(0, 1).sum(), x.flatten().amax(), x.flatten().min()),
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


def same(result, expected):
    if isinstance(expected, (tuple, list)):
        return all(same(*pair) for pair in zip(result, expected, strict=True))
    if not isinstance(expected, torch.Tensor):
        return result == expected
    bits = torch.int16 if expected.dtype is torch.half else expected.dtype
    return result.cpu().view(bits).equal(expected.cpu().view(bits))


@pytest.mark.parametrize("last", range(len(RESULTS)))
@pytest.mark.parametrize("both", [False, True])
def test_results_of_joined_sizes(last, both):
    """Programs are fewer than sizes."""
    draw = random.Random(100 * last + both)
    step = draw.choice(STEPS[:8])

    def function(x, w):
        return RESULTS[last](step(x, w))

    weight, before = WEIGHT.to("spyre"), len(torch_spyre.compile_reports())
    torch._dynamo.reset()
    compiled = torch.compile(function)
    cases = []
    for length in (128, 65, 66, 90, 101, 127, 70, 81):
        batch = draw.randint(2, 8) if both else 3
        x = torch.randn(batch, length, WIDTH, generator=torch.Generator().manual_seed(length))
        on_card = x.half().to("spyre")
        torch._dynamo.mark_dynamic(on_card, 1, min=64, max=128)
        if both:
            torch._dynamo.mark_dynamic(on_card, 0, min=2, max=8)
        cases.append((on_card, compiled(on_card, weight)))
    programs = len(torch_spyre.compile_reports()) - before
    assert programs < len(cases), torch_spyre.last_report().one_bucket
    torch._dynamo.reset()
    static = torch.compile(function, dynamic=False)
    for x, result in cases:
        assert same(result, static(x, weight)), (last, both, x.shape)


HALVES = [
    lambda x: x[:, : x.shape[1] // 2] * 0.5,
    lambda x: x.chunk(2, 1)[0].sum(1),
    lambda x: x - x[:, : (x.shape[1] + 3) // 4].mean(1, keepdim=True),
    lambda x: x[:, : x.shape[1] // 2].softmax(1).flip(1),
    lambda x: torch.full((x.shape[1] // 3, WIDTH), 0.5, device=x.device, dtype=x.dtype) * x[:, :1],
]


@pytest.mark.parametrize("number", range(len(HALVES)))
def test_parts_of_a_size(number):
    half, cases = HALVES[number], []
    torch._dynamo.reset()
    compiled = torch.compile(half, dynamic=True)
    for length in (9, 40, 65, 128, 70, 3, 71, 72, 129, 130, 200, 90):
        x = torch.randn(2, length, WIDTH, generator=torch.Generator().manual_seed(length)).half()
        on_card = x.to("spyre")
        cases.append((on_card, compiled(on_card)))
    torch._dynamo.reset()
    static = torch.compile(half, dynamic=False)
    for x, result in cases:
        assert same(result, static(x)), (number, x.shape)


def gradients(compiled, x, weight):
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    torch._dynamo.mark_dynamic(x, 0, min=2, max=8)
    compiled(x, weight).backward()
    return x.grad, weight.grad


def test_gradients_of_joined_sizes():
    def function(x, w):
        rows = x.reshape(-1, WIDTH) @ w
        return (rows.relu() * rows.sigmoid()).sum()

    weight, cases, before = WEIGHT.to("spyre"), [], len(torch_spyre.compile_reports())
    torch._dynamo.reset()
    compiled = torch.compile(function)
    for batch in (8, 3, 4, 2, 5, 6, 7):
        x = torch.randn(batch, 70, WIDTH, generator=torch.Generator().manual_seed(batch)).half()
        on_card = x.to("spyre")
        cases.append((on_card, gradients(compiled, on_card, weight)))
    assert len(torch_spyre.compile_reports()) - before < 2 * len(cases)
    torch._dynamo.reset()
    static = torch.compile(function, dynamic=False)
    for x, result in cases:
        assert same(result, gradients(static, x, weight)), x.shape


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed):
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6, 120))
def test_more_random_graphs(seed):
    check(seed)
