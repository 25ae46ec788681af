# SPDX-License-Identifier: Apache-2.0
"""The largest elements of windows, with gradients and without, of which the latter has no
indices."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from inputs import numbers

POOLS = {
    "lines": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 5, 17)),
    "lines side by side": (lambda x: F.max_pool1d(x, 2), (5, 17)),
    "images": (lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0)), (2, 5, 17, 9)),
    "parts of windows": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (5, 17, 9)),
    "spread": (lambda x: F.max_pool2d(x, 3, 1, 1, 2), (1, 3, 8, 8)),
}


DTYPES = (torch.float16, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", POOLS)
def test_the_largest_elements_of_windows(name, dtype):
    pool, sizes = POOLS[name]
    x = numbers(*sizes).to(dtype)
    for run in (pool, torch.compile(pool, dynamic=False), torch.inference_mode()(pool)):
        result = run(x.to("spyre"))
        assert torch.equal(result.cpu(), pool(x))
        assert result.stride() == pool(x).stride()
    many = torch.vmap(pool)(torch.stack([x, -x]).to("spyre"))
    assert torch.equal(many.cpu(), torch.stack([pool(x), pool(-x)]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", POOLS)
def test_gradients_of_the_largest_elements(name, dtype):
    pool, sizes = POOLS[name]
    x = numbers(*sizes).float().requires_grad_()
    card = x.detach().to(dtype).to("spyre").requires_grad_()
    (pool(x) ** 2).sum().backward()
    (pool(card) ** 2).sum().backward()
    assert torch.equal(card.grad.cpu().float(), x.grad)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_card_computes_them(dtype):
    with torch_spyre.fallback("error"):
        for pool, sizes in POOLS.values():
            (pool(numbers(*sizes).to(dtype).to("spyre").requires_grad_()) ** 2).sum().backward()
        x = numbers(2, 5, 17, 9).to(dtype)
        values, places = F.adaptive_max_pool2d(x.to("spyre"), (4, 3), return_indices=True)
    expected = F.adaptive_max_pool2d(x, (4, 3), return_indices=True)
    assert torch.equal(values.cpu(), expected[0])
    assert torch.equal(places.cpu(), expected[1])


def test_without_gradients_there_are_no_indices(counted):
    x = numbers(2, 4, 8, 8).to("spyre")
    F.max_pool2d(x, 2)
    F.max_pool1d(x[0], 2)
    F.max_pool2d(x.requires_grad_(), 2)
    names = [str(op) for op in counted]
    assert names == ["aten.max_pool2d.default"] * 2 + ["aten.max_pool2d_with_indices.default"]


def test_windows_of_nothing_are_refused_as_on_the_cpu():
    for x in (numbers(2, 5, 17), numbers(2, 5, 17).to("spyre")):
        with pytest.raises(RuntimeError, match="stride must be greater than zero"):
            F.max_pool1d(x, 3, 0)
        with pytest.raises(RuntimeError, match="Output size is too small"):
            F.max_pool2d(x, 99)
