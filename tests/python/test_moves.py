# SPDX-License-Identifier: Apache-2.0
"""Random programs of what only moves elements: rolls, flips, paddings, concatenations, slices,
windows and gathers of each other, of every dtype, in rows that end inside of sticks. Compiled for
the card they leave PyTorch's bits."""

import random

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

SIZES = (1, 2, 3, 5, 8, 31, 32, 40, 63, 64, 65, 96, 128, 130)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.bool,
          torch.int8, torch.uint8, torch.int16)  # fmt: skip
MOST_ELEMENTS = 40_000


class Moves:
    """Draws moves of a tensor, each a function and the words for it."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.words: list[str] = []

    def move(self, x):
        kinds = [self.roll, self.flip, self.pad, self.cat, self.stack, self.slice, self.rows]
        kinds += [self.permute, self.merge, self.split, self.windows, self.repeat, self.select]
        while True:
            kind = self.random.choice(kinds)
            function = kind(x)
            if function is None:
                continue
            result = function(x)
            if 0 < result.numel() <= MOST_ELEMENTS and result.dim() <= 5:
                self.words.append(kind.__name__)
                return function, result

    def dim(self, x):
        return self.random.randrange(x.dim())

    def roll(self, x):
        shift = self.random.randint(-70, 70)
        if self.random.random() < 0.3:
            return lambda x: x.roll(shift)
        dims = self.random.sample(range(x.dim()), self.random.randint(1, min(2, x.dim())))
        shifts = [self.random.randint(-70, 70) for _ in dims]
        return lambda x: x.roll(shifts, dims)

    def flip(self, x):
        dim = self.dim(x)
        return lambda x: x.flip(dim)

    def pad(self, x):
        around = [self.random.choice((0, 0, 1, 2, 64)) for _ in range(2 * min(2, x.dim()))]
        return lambda x: F.pad(x, around)

    def cat(self, x):
        dim, parts = self.dim(x), self.random.randint(2, 3)
        cuts = [self.cut(x.size(dim)) for _ in range(parts)]
        return lambda x: torch.cat([x.narrow(dim, first, size) for first, size in cuts], dim)

    def stack(self, x):
        dim, other = self.random.randint(0, x.dim()), self.random.randint(-9, 9)
        return lambda x: torch.stack((x, x.roll(other, -1)), dim)

    def cut(self, size):
        first = self.random.randrange(size)
        return first, self.random.randint(1, size - first)

    def slice(self, x):
        dim, step = self.dim(x), self.random.choice((1, 1, 2, 3))
        first, size = self.cut(x.size(dim))
        return lambda x: x.narrow(dim, first, size)[
            (slice(None),) * dim + (slice(None, None, step),)
        ]

    def permute(self, x):
        order = self.random.sample(range(x.dim()), x.dim())
        if self.random.random() < 0.5:
            return lambda x: x.permute(order)
        return lambda x: x.permute(order).contiguous()

    def merge(self, x):
        if x.dim() < 2:
            return None
        dim = self.random.randrange(x.dim() - 1)
        return lambda x: x.flatten(dim, dim + 1)

    def split(self, x):
        dim = self.dim(x)
        parts = [n for n in (2, 3, 4, 8) if x.size(dim) % n == 0]
        if not parts:
            return None
        part = self.random.choice(parts)
        return lambda x: x.unflatten(dim, (-1, part))

    def windows(self, x):
        dim, step = self.dim(x), self.random.randint(1, 3)
        size = self.random.randint(1, min(4, x.size(dim)))
        return lambda x: x.unfold(dim, size, step)

    def repeat(self, x):
        times = [self.random.choice((1, 1, 2)) for _ in range(x.dim())]
        return lambda x: x.repeat(times)

    def rows(self, x):
        dim = self.dim(x)
        index = [self.random.randrange(x.size(dim)) for _ in range(self.random.randint(1, 9))]
        return lambda x: x.index_select(dim, torch.tensor(index, device=x.device))

    def select(self, x):
        if x.dim() < 2:
            return None
        dim = self.dim(x)
        index = self.random.randrange(x.size(dim))
        return lambda x: x.select(dim, index)


def _operand(draw: random.Random, dtype: torch.dtype) -> torch.Tensor:
    """Numbers that every dtype has, at an offset of a larger tensor now and then."""
    shape = [draw.choice(SIZES) for _ in range(draw.randint(1, 3))]
    while torch.Size(shape).numel() > MOST_ELEMENTS:
        shape[draw.randrange(len(shape))] = draw.choice(SIZES[:5])
    generator = torch.Generator().manual_seed(draw.randrange(1 << 30))
    room = [n + draw.choice((0, 0, 3)) for n in shape]
    whole = torch.randint(-128, 128, room, generator=generator)
    whole = whole > 0 if dtype == torch.bool else whole.to(dtype)
    for dim, size in enumerate(shape):
        whole = whole.narrow(dim, whole.size(dim) - size, size)
    return whole


def check(seed: int) -> None:
    moves = Moves(seed)
    dtype = moves.random.choice(DTYPES)
    x = made = _operand(moves.random, dtype)
    functions = []
    for _ in range(moves.random.randint(1, 5)):
        function, made = moves.move(made)
        functions.append(function)

    def program(x):
        for function in functions:
            x = function(x)
        return x

    torch._dynamo.reset()
    with torch_spyre.fallback("silent"):
        whole = torch.as_strided(x, (x.untyped_storage().size() // x.element_size(),), (1,), 0)
        on_card = torch.as_strided(whole.to("spyre"), x.shape, x.stride(), x.storage_offset())
        found = torch.compile(program, dynamic=False)(on_card).cpu()
    name = f"seed {seed}: {list(x.shape)} {dtype}, {', '.join(moves.words)}"
    assert found.shape == made.shape, name
    assert torch.equal(found, program(x)), name


@pytest.mark.parametrize("seed", range(40))
def test_moves_of_moves(seed):
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(10))
def test_moves_of_moves_at_length(hundred):
    for seed in range(100 * (hundred + 1), 100 * (hundred + 2)):
        check(seed)


@pytest.mark.parametrize("cards", [None, [0], ["spyre:0"]])
def test_data_parallel_on_one_card(cards):
    torch.manual_seed(0)
    module = torch.nn.Linear(64, 4).half()
    x = torch.randn(6, 64, dtype=torch.half, requires_grad=True)
    parallel = torch.nn.DataParallel(module, device_ids=cards)
    result = parallel(x)
    assert result.device.type == "spyre" and result.equal(module(x.to("spyre")))
    result.sum().backward()
    torch.testing.assert_close(x.grad, module.weight.detach().cpu().sum(0).expand(6, -1),
                               rtol=1e-2, atol=1e-2)  # fmt: skip
    assert torch.nn.parallel.data_parallel(module, x, cards).equal(result)


def test_scatter_and_gather_on_one_card():
    x = torch.arange(6.0)
    ((part,),) = torch.nn.parallel.scatter([x], [0])
    assert part.device.type == "spyre" and part.cpu().equal(x)
    comm = torch.nn.parallel.comm
    parts = comm.scatter(x, ["spyre:0", "spyre:0"], chunk_sizes=[2, 4])
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3, 4, 5]]
    assert comm.scatter(x, out=[torch.empty_like(p) for p in parts])[1].tolist() == [2, 3, 4, 5]
    assert comm.gather(parts, destination="cpu").equal(x)
    assert comm.gather(parts, out=torch.empty(6, device="spyre")).cpu().equal(x)
