# SPDX-License-Identifier: Apache-2.0
"""Sums, products and extremes of integers on the card: exact, of any dims, one kernel each."""

import pytest
import torch
import torch_spyre

REDUCTIONS = {
    "sum": lambda x, dims: x.sum(dims),
    "amax": lambda x, dims: x.amax(dims),
    "amin": lambda x, dims: x.amin(dims),
    "sum kept": lambda x, dims: x.sum(dims, keepdim=True),
}
SHAPES = [(7,), (64,), (1,), (65, 3), (3, 65), (4, 100, 33), (300, 40), (40, 2048)]


def _integers(shape, dtype, most=2**20):
    numbers = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-most, most, shape, generator=numbers).to(dtype)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_reductions(name, dtype):
    function = REDUCTIONS[name]
    for shape in SHAPES:
        x = _integers(shape, dtype, most=2**14)
        for dims in ([0], [len(shape) - 1], list(range(len(shape)))):
            found, wanted = function(x.to("spyre"), dims), function(x, dims)
            assert found.dtype is wanted.dtype and torch.equal(found.cpu(), wanted)


@pytest.mark.parametrize("size", [1, 2, 31, 64, 200])
def test_products(size):
    x = torch.where(torch.arange(3 * size).view(3, size) % 50 == 7, -3, 1)
    assert torch.equal(x.to("spyre").prod(-1).cpu(), x.prod(-1))
    assert x.to("spyre").prod().item() == x.prod().item()


def test_products_of_bools():
    x = torch.rand(5, 3, 70) < 0.9
    x[2] = True
    for dim in (0, 1, 2):
        found = x.to("spyre").prod(dim, dtype=torch.bool)
        assert torch.equal(found.cpu(), x.prod(dim, dtype=torch.bool))


def test_extremes_of_ends():
    x = torch.full((5, 70), 2**31 - 1)
    x[2, 69], x[3, 0] = -(2**31), 5
    card = x.to("spyre")
    assert torch.equal(card.amin(1).cpu(), x.amin(1))
    assert torch.equal((-1 - card).amax(1).cpu(), (-1 - x).amax(1))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_compiled_reductions(name):
    x = _integers((512, 130), torch.int64, most=2**10)
    compiled = torch.compile(REDUCTIONS[name], dynamic=False)
    with torch_spyre.config.patch(fallback="error"):
        for dims in ([0], [0, 1], [1]):
            assert torch.equal(compiled(x.to("spyre"), dims).cpu(), REDUCTIONS[name](x, dims))
    assert torch_spyre.last_report().kernels == 1


@pytest.mark.parametrize("dims", [-1, (1, 2), [0, 2]])
def test_sums_whose_whole_would_leave_32_bits(dims):
    """The range is that of what joins one number, not of all elements."""
    x = torch.full((1 << 10, 2, 1 << 7), 1 << 13)
    compiled = torch.compile(lambda x: x.sum(dims), dynamic=False)
    torch._dynamo.reset()
    with torch_spyre.config.patch(fallback="error"):
        assert torch.equal(x.to("spyre").sum(dims).cpu(), x.sum(dims))
        assert torch.equal(compiled(x.to("spyre")).cpu(), x.sum(dims))
        assert torch.equal(x.to("spyre").nansum(dims).cpu(), x.nansum(dims))


def test_reductions_of_a_growing_length():
    compiled = torch.compile(lambda x: (x.amax(-1), x.amin(-1), x.sum(-1)), dynamic=True)
    for length in (70, 71, 130, 300):
        x = _integers((6, length), torch.int64)
        found = compiled(x.to("spyre"))
        for one, wanted in zip(found, (x.amax(-1), x.amin(-1), x.sum(-1)), strict=True):
            assert torch.equal(one.cpu(), wanted)
