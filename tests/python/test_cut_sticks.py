# SPDX-License-Identifier: Apache-2.0
"""Random programs of views that cut and join dims, in parts and multiples of sticks, with slices
and permutations, followed by what reads them: element-wise functions, products, reductions. Also
what patches, heads and shuffled pixels take: one kernel."""

import random

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from inputs import half

PARTS = (2, 3, 4, 5, 8, 16, 32, 48, 64, 80, 128)
FACTORS = (1, 2, 3, 4, 5, 7, 8, 14, 16, 32, 48, 64, 80, 128)
DTYPES = (torch.float16, torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.bool)
MOST_ELEMENTS = 60_000
STARTS = (0, 1, 2, 4, 8, 16, 32, 64)


def _sizes(draw):
    """Of a batch of 1 to 5 and one to three dims of one or two factors."""
    sizes = [draw.randint(1, 5)]
    for _ in range(draw.randint(1, 3)):
        sizes.append(draw.choice(FACTORS) * (draw.choice(FACTORS) if draw.random() < 0.5 else 1))
    while torch.Size(sizes).numel() > MOST_ELEMENTS:
        largest = sizes.index(max(sizes))
        sizes[largest] //= 4
    return sizes


def _cut(draw, size):
    parts = [p for p in PARTS if size % p == 0 and size > p]
    if not parts or draw.random() < 0.3:
        return [size]
    part = draw.choice(parts)
    return [size // part, part]


def _joined(draw, sizes):
    out = []
    for size in sizes:
        if out and draw.random() < 0.5:
            out[-1] *= size
        else:
            out.append(size)
    return out


def _views(draw, sizes):
    """Functions that slice, cut, permute and join dims, and the sizes they leave."""
    functions = []
    for _ in range(draw.randint(1, 3)):
        dim = draw.randrange(len(sizes))
        start = draw.choice(STARTS)
        if draw.random() < 0.3 and start < sizes[dim]:
            length = draw.randint(1, sizes[dim] - start)
            functions.append(lambda x, at=(dim, start, length): x.narrow(*at))
            sizes = sizes[:dim] + [length] + sizes[dim + 1 :]
        cut = [part for size in sizes for part in _cut(draw, size)]
        cut = cut if len(cut) <= 7 else sizes
        order = draw.sample(range(len(cut)), len(cut))
        sizes = _joined(draw, [cut[d] for d in order])
        functions.append(
            lambda x, cut=cut, order=order, sizes=sizes: (
                x.reshape(cut).permute(order).reshape(sizes)
            )
        )
        if draw.random() < 0.3:
            functions.append(torch.Tensor.contiguous)
        if draw.random() < 0.2:
            functions.append(torch.neg)
    return functions, sizes


def _readers(columns, dtype):
    """What reads the views: functions of them, a row and a matrix, and the largest error."""
    moves = [(lambda x, row, matrix: x.clone(), 0)]
    moves += [(lambda x, row, matrix: x.transpose(0, -1).contiguous(), 0)]
    if not dtype.is_floating_point:
        return moves
    error = {torch.float16: 0.02, torch.bfloat16: 0.15, torch.float32: 1e-3}[dtype]
    return moves + [
        (lambda x, row, matrix: x * row + x, error),
        (lambda x, row, matrix: torch.cat([x, -x], -1), 0),
        (lambda x, row, matrix: x.sum(-1), error * (1 + columns / 40)),
        (lambda x, row, matrix: x.softmax(-1), error),
        (lambda x, row, matrix: x.reshape(-1, columns) @ matrix, error * 3),
    ]


def check(seed):
    draw = random.Random(seed)
    dtype = draw.choice(DTYPES)
    views, sizes = _views(draw, shape := _sizes(draw))
    function, error = draw.choice(_readers(sizes[-1], dtype))
    generator = torch.Generator().manual_seed(seed)

    def operand(*sizes):
        numbers = torch.randint(-64, 65, sizes, generator=generator)
        return numbers > 0 if dtype == torch.bool else numbers.to(dtype)

    def program(x, row, matrix):
        for view in views if dtype != torch.bool else [v for v in views if v is not torch.neg]:
            x = view(x)
        return function(x, row, matrix)

    row, matrix = operand(sizes[-1]), operand(sizes[-1], 24)
    x = operand(*shape)
    if dtype.is_floating_point:
        x, row, matrix = x / 64, row / 64, matrix / (64 * sizes[-1] ** 0.5)
    torch._dynamo.reset()
    with torch_spyre.fallback("silent"):
        on_card = [t.to("spyre") for t in (x, row, matrix)]
        found = torch.compile(program, dynamic=False)(*on_card).cpu()
    wide = [t.float() if dtype.is_floating_point else t for t in (x, row, matrix)]
    expected = program(*wide).to(dtype)
    torch.testing.assert_close(found, expected, atol=error, rtol=error, msg=f"seed {seed}")


@pytest.mark.parametrize("ten", range(3))
def test_views_that_cut_sticks(ten):
    for seed in range(10 * ten, 10 * ten + 10):
        check(seed)


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(1, 11))
def test_views_that_cut_sticks_at_length(hundred):
    for seed in range(100 * hundred, 100 * hundred + 100):
        check(seed)


def _patches(x):
    return x.view(2, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(392, 768)


def _image(x):
    return x.view(2, 14, 14, 3, 16, 16).permute(0, 3, 1, 4, 2, 5).reshape(2, 3, 224, 224)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (_patches, (2, 3, 224, 224)),
        (_image, (392, 768)),
        (lambda x: F.pixel_shuffle(x, 2), (2, 64, 32, 32)),
        (lambda x: F.pixel_unshuffle(x, 2), (2, 16, 64, 64)),
        (lambda x: x.view(4, 50, 24, 16).transpose(1, 2).contiguous(), (4, 50, 384)),
        (lambda x: x.transpose(1, 2).reshape(4, 50, 384), (4, 24, 50, 16)),
        (lambda x: x.unflatten(1, (-1, 2)).transpose(1, 2).contiguous(), (60, 200)),
    ],
    ids=["patches", "image", "shuffle", "unshuffle", "heads", "joined heads", "pairs"],
)
def test_one_kernel_cuts_and_joins_sticks(function, shape):
    torch._dynamo.reset()
    x = half(*shape)
    found = torch.compile(function, dynamic=False)(x.to("spyre"))
    torch.testing.assert_close(found.cpu(), function(x), atol=2e-3, rtol=2e-3)
    assert torch_spyre.last_report().kernels == 1


def check_stacked(seed):
    draw = random.Random(seed)
    lead = [draw.choice((1, 1, 2, 3)) for _ in range(draw.randint(1, 3))]
    parts, at = [draw.choice((2, 3, 4, 7)) for _ in range(2)], draw.randint(1, len(lead))
    places = draw.sample(range(4), draw.randint(1, 2))
    x, zero = half(*lead, *parts), torch.zeros((), dtype=torch.float16)

    def program(x, zero):
        joined = (-x).flatten(-2)
        rows = [joined if place in places else zero.expand(joined.shape) for place in range(4)]
        return torch.stack(rows, at).flatten(at - 1, at)

    torch._dynamo.reset()
    found = torch.compile(program, dynamic=False)(x.to("spyre"), zero.to("spyre"))
    assert torch.equal(found.cpu(), program(x.to("spyre").cpu(), zero)), f"seed {seed}"


@pytest.mark.parametrize("trials", [12, pytest.param(200, marks=pytest.mark.long)])
def test_joined_sticks_beside_others(trials):
    for seed in range(trials):
        check_stacked(seed)


SHORT_INNER_DIMS = {  # function, sizes, how often the bytes of the tensor may move at most
    "colours last": (lambda x: x.permute(0, 2, 3, 1).contiguous(), (8, 3, 224, 224), 3),
    "patches of colours": (
        lambda x: x.reshape(8, 3, 14, 16, 14, 16).permute(0, 2, 4, 3, 5, 1).reshape(8, 196, 768),
        (8, 3, 224, 224),
        10,
    ),
}


@pytest.mark.parametrize("name", SHORT_INNER_DIMS)
def test_copies_to_short_inner_dims_leave_in_fuller_sticks(name):
    function, sizes, most = SHORT_INNER_DIMS[name]
    x = half(*sizes)
    torch._dynamo.reset()
    result = torch.compile(function, dynamic=False)(x.to("spyre"))
    torch.testing.assert_close(result.cpu(), function(x), atol=0.01, rtol=0.01)
    assert torch_spyre.last_report().bytes < most * x.nbytes
    # What reads it goes on as from any tensor.
    torch.testing.assert_close((result + 1).cpu(), function(x) + 1, atol=0.01, rtol=0.01)
