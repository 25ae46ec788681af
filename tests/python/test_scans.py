# SPDX-License-Identifier: Apache-2.0
"""Running values against PyTorch's in float64: sizes, dims, dtypes, views at random."""

import random

import pytest
import torch

FLOATS = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-22}
SIZES = (1, 2, 3, 7, 31, 33, 63, 64, 65, 127, 130, 200)


def forms(function):
    torch._dynamo.reset()
    yield function
    yield torch.compile(function, dynamic=False)


def numbers(size, dtype):
    x = torch.randn(size) * 2
    if not dtype.is_floating_point:
        return x.round().to(dtype)
    return x.to(dtype).to("spyre").cpu()


def view_of(x, choice):
    """The tensor, or one of the views that a program may scan."""
    views = (
        lambda x: x,
        lambda x: x.transpose(0, -1),
        lambda x: x[1:] if x.shape[0] > 1 else x,
        lambda x: x[..., ::2],
        lambda x: x[:1].expand(3, *x.shape[1:]),
        lambda x: x.flatten(),
    )
    return views[choice](x)


def close(actual, expected, dtype, terms):
    if not dtype.is_floating_point:
        assert torch.equal(actual.cpu(), expected)
        return
    bound = FLOATS[dtype] * expected.abs() + 2.0**-22 * terms + 1e-30
    difference = (actual.cpu().double() - expected).abs()
    assert (difference <= bound).all(), (difference - bound).max()


@pytest.mark.parametrize("seed", range(24))
def test_random_scans(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    rank = draw.choice((1, 2, 2, 3, 4))
    size = [draw.choice(SIZES[:4] if i < rank - 2 else SIZES) for i in range(rank)]
    dtype = draw.choice((*FLOATS, torch.int64, torch.int32))
    choice = draw.randrange(6)
    x = numbers(size, dtype)
    seen = view_of(x, choice)
    dim = draw.randrange(-seen.dim(), seen.dim())
    wide = seen.double() if dtype.is_floating_point else seen
    magnitudes = wide.abs().double().cumsum(dim)
    for form in forms(lambda x: view_of(x, choice).cumsum(dim)):
        close(form(x.to("spyre")), wide.cumsum(dim), dtype, magnitudes)
    for form in forms(lambda x: view_of(x, choice).cumprod(dim)):
        close(form(x.sign().to("spyre")), wide.sign().cumprod(dim), dtype, magnitudes * 0)
    for name in ("cummax", "cummin"):
        expected = getattr(torch, name)(seen, dim)
        for form in forms(lambda x, name=name: getattr(torch, name)(view_of(x, choice), dim)):
            values, places = form(x.to("spyre"))
            assert torch.equal(values.cpu(), expected.values)
            assert torch.equal(places.cpu(), expected.indices)
    if dtype in (torch.float16, torch.bfloat16):
        for form in forms(lambda x: view_of(x, choice).logcumsumexp(dim)):
            close(form(x.to("spyre")), wide.logcumsumexp(dim), dtype, 4)


def test_special_values():
    inf, nan = torch.inf, torch.nan
    x = torch.tensor([[1.0, inf, 2.0, -1.0], [nan, 1.0, 3.0, 2.0], [-inf, 0.0, 5.0, nan]])
    for name in ("cumsum", "cumprod", "cummax", "cummin"):
        for dim in (0, 1):
            expected = getattr(torch, name)(x, dim)
            actual = getattr(torch, name)(x.to("spyre"), dim)
            if name in ("cummax", "cummin"):
                assert torch.equal(actual.indices.cpu(), expected.indices)
                actual, expected = actual.values, expected.values
            assert torch.equal(actual.cpu().nan_to_num(7), expected.nan_to_num(7))


def test_long_rows_round_as_one_addition_does():
    x = torch.rand(2, 20000)
    actual = x.to("spyre").cumsum(1).cpu()
    assert torch.equal(actual, x.double().cumsum(1).float())


@pytest.mark.parametrize("name", ("cumsum", "cumprod", "cummax"))
def test_gradients(name):
    def run(x):
        y = getattr(torch, name)(x, 1)
        y = y[0] if isinstance(y, tuple) else y
        return torch.autograd.grad((y * y.detach().sign()).sum(), x)[0]

    x = torch.rand(5, 70) + 0.5
    expected = run(x.double().requires_grad_())
    actual = run(x.to("spyre").requires_grad_()).cpu()
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", ((0,), (3, 0), (0, 4), ()))
def test_without_elements(size):
    x = torch.ones(size).half()
    assert torch.equal(x.to("spyre").cumsum(0).cpu(), x.cumsum(0))


@pytest.mark.parametrize("function", [torch.cumsum, torch.cumprod, torch.logcumsumexp])
@pytest.mark.parametrize("shape", [(), (1,), (5, 1), (70, 1, 3)])
def test_one_element(function, shape):
    """Is its own running value, in float32 without any function of it."""
    for dtype in (torch.float16, torch.float32):
        x = torch.randn(shape).to(dtype).to("spyre")
        result = function(x, min(1, max(0, x.dim() - 1)))
        assert torch.equal(result.cpu(), x.cpu())
        result.add_(1)
        assert not torch.equal(result.cpu(), x.cpu())
