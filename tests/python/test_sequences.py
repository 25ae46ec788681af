# SPDX-License-Identifier: Apache-2.0
"""Operators along a dim: running sums and extremes, flips, rolls."""

import pytest
import torch

HALVES = (torch.float16, torch.bfloat16)
SHAPES = ((7,), (130,), (3, 70), (70, 3), (2, 5, 129), (4, 1, 64), (1, 1))


def held(*size, dtype):
    return torch.randn(*size).to(dtype).to("spyre").cpu()


def forms(function):
    torch._dynamo.reset()
    yield function
    yield torch.compile(function, dynamic=False)


@pytest.mark.parametrize("dtype", (*HALVES, torch.float32), ids=str)
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_cumsum(size, dtype):
    x = held(*size, dtype=dtype)
    unit = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-20}[dtype]
    for dim in range(-1, len(size) - 1):
        expected = x.double().cumsum(dim)
        for form in forms(lambda x, dim=dim: x.cumsum(dim)):
            actual = form(x.to("spyre")).cpu().double()
            # Sums cancel: what is lost of their terms counts.
            bound = unit * expected.abs() + 2.0**-18 * x.double().abs().cumsum(dim)
            assert ((actual - expected).abs() <= bound).all()


def test_cumsum_of_infinities_and_of_many():
    x = torch.tensor([1.0, torch.inf, 2.0, 3.0]).half()
    assert torch.equal(x.to("spyre").cumsum(0).cpu(), x.cumsum(0))
    ones = torch.ones(3, 4000, dtype=torch.float16)
    expected = torch.arange(1, 4001).half().to("spyre").cpu().expand(3, 4000)
    assert torch.equal(ones.to("spyre").cumsum(1).cpu(), expected)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("size", SHAPES, ids=str)
@pytest.mark.parametrize("function", (torch.cummax, torch.cummin), ids=lambda f: f.__name__)
def test_running_extremes(function, size, dtype):
    x = (held(*size, dtype=dtype) * 2).round()  # with equal ones
    for dim in range(-1, len(size) - 1):
        expected = function(x, dim)
        for form in forms(lambda x, dim=dim: tuple(function(x, dim))):
            values, places = form(x.to("spyre"))
            assert torch.equal(values.cpu(), expected.values)
            assert torch.equal(places.cpu(), expected.indices)


@pytest.mark.parametrize(
    "dtype", (*HALVES, torch.float32, torch.int64, torch.int32, torch.bool), ids=str
)
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_flips_and_rolls(size, dtype):
    x = (torch.randn(*size) * 9).to(dtype).to("spyre").cpu()
    every = list(range(len(size)))
    functions = [lambda x, d=d: x.flip(d) for d in [*every, every, every[::2]]]
    functions += [lambda x, n=n: x.roll(n) for n in (1, -2, 1000)]
    functions += [lambda x, d=d: x.roll(2, d) for d in every]
    functions += [torch.fliplr, torch.rot90] if len(size) > 1 else [torch.flipud]
    for function in functions:
        for form in forms(function):
            assert torch.equal(form(x.to("spyre")).cpu(), function(x))


def test_flips_of_views():
    x = held(6, 70, dtype=torch.float16)
    for view in (lambda x: x.t(), lambda x: x[::2, 3:], lambda x: x[1].expand(4, 70)):
        assert torch.equal(view(x.to("spyre")).flip(0, 1).cpu(), view(x).flip(0, 1))


def test_dims_out_of_range():
    x = torch.ones(3, 4, dtype=torch.float16, device="spyre")
    for wrong in (lambda x: x.flip(2), lambda x: x.cumsum(5), lambda x: x.cummax(-3)):
        with pytest.raises(IndexError):
            wrong(x)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        x.flip(0, 0)


@pytest.mark.parametrize("count", (1, 2, 33, 64, 4095, 4096, 4097, 10000, 70001))
def test_counts_of_any_length(count):
    def counted(like):
        numbers = torch.arange(count, device=like.device)
        return numbers, numbers * 3 - 7, torch.arange(5, count + 5, device=like.device)

    torch._dynamo.reset()
    x = torch.zeros(2)
    for form in (counted, torch.compile(counted, dynamic=False)):
        for got, wanted in zip(form(x.to("spyre")), counted(x), strict=True):
            assert torch.equal(got.cpu(), wanted)


@pytest.mark.parametrize("dtype", (torch.int64, torch.int32, torch.int16, torch.uint8), ids=str)
def test_integers_are_chosen_whole(dtype):
    ends = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    x = torch.randint(ends.min, ends.max, (5, 130)).to(dtype)
    y = torch.randint(ends.min, ends.max, (130,)).to(dtype)
    x[0, :2], y[0] = torch.tensor([ends.min, ends.max]).to(dtype), ends.max
    mask = torch.rand(5, 1) < 0.5
    torch._dynamo.reset()
    for form in (torch.where, torch.compile(torch.where, dynamic=False)):
        got = form(mask.to("spyre"), x.to("spyre"), y.to("spyre"))
        assert torch.equal(got.cpu(), torch.where(mask, x, y))
        got = form((x > y).to("spyre"), x.t().contiguous().t().to("spyre"), 0)
        assert torch.equal(got.cpu(), torch.where(x > y, x, 0))
