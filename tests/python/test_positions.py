# SPDX-License-Identifier: Apache-2.0
"""Random programs of values that follow from where they stand: sums, differences and multiples of
`arange` along several dims, which of them are larger, views of all this, and what reads it.
Operands are small whole numbers, so that every format has the results and bits can be compared."""

import random
import warnings

import pytest
import torch
from torch_spyre.compile.planned.spyre_kernel import kernels_of

SIZES = (1, 2, 3, 5, 31, 32, 63, 64, 65, 96, 130)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64)
MOST = 240  # numbers that bfloat16 has, with room for one addition


class Positions:
    """Draws a function of a tensor whose results follow from positions."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.sizes = [self.random.choice(SIZES) for _ in range(self.random.randint(1, 3))]
        self.words: list[str] = []

    def leaf(self):
        """Numbers along one dim, which broadcast to the sizes."""
        dim = self.random.randrange(len(self.sizes))
        start, step = self.random.randint(-20, 20), self.random.choice((1, 1, 2, -1, -3))
        end = start + step * self.sizes[dim]
        shape = [-1] + [1] * (len(self.sizes) - dim - 1)
        return lambda x: torch.arange(start, end, step, device=x.device).reshape(shape)

    def number(self, depth=2):
        if depth == 0:
            return self.leaf()
        kind = self.random.choice(("leaf", "add", "sub", "times", "plus", "window", "turned"))
        self.words.append(kind)
        a = self.number(depth - 1)
        c = self.random.randint(-5, 5)
        if kind == "add":
            b = self.number(depth - 1)
            return lambda x: a(x) + b(x)
        if kind == "sub":
            b = self.number(depth - 1)
            return lambda x: a(x) - b(x)
        if kind == "times":
            return lambda x: a(x) * c
        if kind == "plus":
            return lambda x: c - a(x)
        if kind == "window":  # the rows from the second on, put back in front of the last one
            return lambda x: _shifted(a(x))
        if kind == "turned":
            return lambda x: a(x).flip(-1) if c > 3 else a(x).clone()
        return a

    def sign(self):
        a, b = self.number(), self.number(1)
        kind = self.random.choice(("gt", "ge", "lt", "le", "eq", "and", "not", "constant"))
        self.words.append(kind)
        c = self.random.randint(-20, 90)
        if kind == "and":
            other = self.number(1)
            return lambda x: (a(x) >= b(x)) & (a(x) - other(x) < c)
        if kind == "not":
            return lambda x: ~(a(x) > b(x))
        if kind == "constant":
            return lambda x: a(x) > c
        return lambda x: getattr(torch, kind)(a(x), b(x))

    def use(self):
        kinds = ["where", "fill", "plus", "both", "alone", "sign", "cast", "sum", "rows", "flat"]
        kind = self.random.choice([*kinds, "tril"])
        self.words.append(kind)
        n, s = self.number(), self.sign()
        if kind == "where":
            return lambda x: torch.where(s(x), x, x + 1)
        if kind == "fill":
            return lambda x: x.masked_fill(s(x), 3)
        if kind == "plus":
            return lambda x: x + n(x).clamp(-MOST, MOST).to(x.dtype)
        if kind == "both":
            return lambda x: torch.where(s(x), n(x), n(x) - 1)
        if kind == "alone":
            return n
        if kind == "sign":
            return s
        if kind == "cast":
            return lambda x: n(x).to(torch.float32)
        if kind == "sum":
            return lambda x: (x * s(x).to(x.dtype)).float().sum(-1)
        if kind == "rows":
            return lambda x: x[n(x).reshape(-1)[:7].abs() % x.size(0)]
        if kind == "flat":
            return lambda x: n(x).expand(x.shape).reshape(-1) * 2 + 1
        c = self.random.randint(-70, 70)
        return lambda x: torch.tril(x, c) if x.dim() > 1 else x


def _shifted(x):
    return torch.cat([x[1:], x[:1]]) if x.dim() and x.size(0) > 1 else x


def _run(seed: int) -> None:
    p = Positions(seed)
    dtype = p.random.choice(DTYPES)
    uses = [p.use() for _ in range(p.random.randint(1, 2))]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-8, 9, p.sizes, generator=generator).to(dtype)
    if p.random.random() < 0.2 and x.dim() > 1:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)

    def function(x):
        return [use(x) for use in uses]

    expected = function(x)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = torch.compile(function)(x.to("spyre"))
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype, (seed, p.words)
        assert torch.equal(result.cpu(), wanted), (seed, p.sizes, dtype, p.words)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    _run(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_many_random_programs(first):
    for seed in range(first, first + 50):
        _run(seed)


@pytest.fixture
def steps(compile_observed):
    """steps(function, tensors) -> the opfuncs of its steps; results are the CPU's."""

    def compile_and_read(function, *tensors):
        result, made = compile_observed(function, *tensors)
        assert torch.equal(result.cpu(), function(*tensors))
        kernels = [kernel for executable in made for kernel in kernels_of(executable)]
        return [store.value.op for kernel in kernels for store in kernel.body]

    return compile_and_read


@pytest.mark.parametrize("diagonal", [-3, 0, 70])
def test_a_triangle_is_one_step(steps, diagonal):
    x = torch.randint(-8, 9, (2, 96, 200)).half()
    assert steps(lambda x: torch.tril(x, diagonal), x) == ["where3"]
    assert steps(lambda x: torch.triu(x, diagonal), x) == ["where3"]


def test_a_causal_mask_is_part_of_what_reads_it(steps):
    def masked(x):
        rows = torch.arange(x.size(0), device=x.device)[:, None]
        columns = torch.arange(x.size(1), device=x.device)
        return torch.where(rows >= columns, x, float("-inf"))

    assert steps(masked, torch.randint(-8, 9, (96, 200)).half()) == ["where3"]


def test_an_arange_is_one_step(steps):
    x = torch.zeros(1)
    assert steps(lambda x: torch.arange(300, device=x.device), x) == ["identity"]
    assert steps(lambda x: 3 * torch.arange(-5, 300, 7, device=x.device) + 1, x) == ["identity"]
    assert steps(lambda x: torch.arange(40, device=x.device).float(), x) == ["identity"]


@pytest.mark.parametrize("sizes", [(3, 3), (70, 90), (300, 300), (1, 65)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_ones_of_a_diagonal(sizes, dtype):
    torch._dynamo.reset()
    x = torch.arange(sizes[0] * sizes[1]).reshape(sizes) % 7
    function = lambda x: x + torch.eye(*sizes, dtype=dtype, device=x.device)  # noqa: E731
    found = torch.compile(function)(x.to(dtype).to("spyre"))
    assert torch.equal(found.cpu(), function(x.to(dtype)))
