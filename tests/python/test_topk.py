# SPDX-License-Identifier: Apache-2.0
"""topk, argmax and the positions of max.dim: values and positions are PyTorch's, on the card."""

import pytest
import torch
import torch_spyre

HALF, BF16, FLOAT = torch.float16, torch.bfloat16, torch.float32


def numbers(dtype, *shape, equal=False):
    """Numbers that the card has exactly; few different ones when many shall be equal."""
    if not dtype.is_floating_point:
        return torch.randint(0, 9, shape) if equal else torch.randint(-(2**31), 2**31, shape)
    x = torch.randint(-4, 5, shape).float() if equal else torch.randn(shape)
    return x.to(dtype).to("spyre").cpu()


def first(x, k, dim, largest):
    """The definition: sorted by value, equal ones by position."""
    x = x.reshape(1) if x.dim() == 0 else x
    order = x.float() if x.dtype == HALF else x
    indices = torch.sort(order, dim=dim, descending=largest, stable=True).indices
    indices = indices.narrow(dim, 0, k)
    return x.gather(dim, indices), indices


CASES = [  # dtype, shape, k, dim, largest
    (HALF, (64, 256), 4, -1, True),
    (HALF, (256, 64), 4, 0, True),
    (HALF, (2, 3, 70, 5), 3, 2, True),
    (HALF, (2, 3, 70, 5), 3, -3, False),
    (HALF, (4, 3000), 100, 1, True),
    (HALF, (100,), 128 - 28, 0, True),
    (BF16, (7, 130), 5, 1, False),
    (FLOAT, (3, 40000), 2, -1, True),
    (torch.int64, (6, 300), 6, 1, False),
    (torch.int64, (300, 6), 6, 0, True),
]


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(("dtype", "shape", "k", "dim", "largest"), CASES)
def test_topk(dtype, shape, k, dim, largest, equal):
    x = numbers(dtype, *shape, equal=equal)
    values, indices = first(x, k, dim, largest)
    actual = x.to("spyre").topk(k, dim, largest)
    assert actual.indices.dtype == torch.int64
    assert torch.equal(actual.values.cpu(), values)
    assert torch.equal(actual.indices.cpu(), indices)


def test_compiled_with_its_neighbours():
    """A router: weights of the four best of 60 experts, and a view that cuts the ranks."""

    def route(x):
        values, indices = torch.topk(x.softmax(-1), 4, dim=-1)
        return values / values.sum(-1, keepdim=True), indices[:, ::2] + 1, indices.t().contiguous()

    x = numbers(HALF, 33, 60)
    weights, odd, turned = torch.compile(route)(x.to("spyre"))
    expected = route(x.to("spyre").softmax(-1).cpu().log().float().to(FLOAT))
    assert torch.equal(odd.cpu(), expected[1]) and torch.equal(turned.cpu(), expected[2])
    assert torch.allclose(weights.cpu().float(), expected[0].float(), atol=0.01)


@pytest.mark.parametrize("dtype", [HALF, FLOAT, torch.int64])
def test_extremes(dtype):
    x = numbers(dtype, 5, 70, equal=True)
    s = x.to("spyre")
    for name in ("argmax", "argmin"):
        largest = name == "argmax"
        assert torch.equal(getattr(s, name)(-1).cpu(), first(x, 1, 1, largest)[1][:, 0])
        flat = first(x.reshape(-1), 1, 0, largest)[1][0]
        assert torch.equal(getattr(s, name)().cpu(), flat)
        assert torch.equal(getattr(s[0, 0], name)().cpu(), torch.tensor(0))
    if dtype.is_floating_point:
        values, indices = s.min(0)
        assert torch.equal(values.cpu(), x.amin(0))
        assert torch.equal(indices.cpu(), first(x, 1, 0, False)[1][0])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16])
def test_the_greatest_and_the_least_integers(dtype):
    bounds = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    least, most = bounds.min, bounds.max
    for values in ([most, 5], [least, -5], [5, most], [most] * 3, [least, most, least, 0, most]):
        x = torch.tensor(values, dtype=dtype)
        card = x.to("spyre")
        for descending in (False, True):
            assert torch.equal(
                card.sort(descending=descending)[0].cpu(), x.sort(descending=descending)[0]
            )
            order = card.argsort(descending=descending, stable=True).cpu()
            assert torch.equal(order, x.argsort(descending=descending, stable=True))
            found = card.topk(2, largest=descending).values.cpu()
            assert torch.equal(found, x.topk(2, largest=descending).values)
        assert card.argmax().item() == x.argmax().item()
        assert card.argmin().item() == x.argmin().item()


def test_expanded_and_single_elements():
    x = numbers(HALF, 70, 1)
    s = x.to("spyre")
    assert torch.equal(
        s.expand(70, 5).topk(4, 0).indices.cpu(), first(x.expand(70, 5), 4, 0, True)[1]
    )
    assert torch.equal(s.expand(70, 5).topk(3, 1).indices.cpu(), torch.arange(3).expand(70, 3))
    values, indices = s.topk(1, 1)
    assert torch.equal(values.cpu(), x) and not indices.cpu().any()
    assert torch.equal(torch.topk(s[3, 0], 1).values.cpu(), x[3, 0])


def test_nan_is_the_first():
    x = torch.tensor([1.0, torch.nan, 3.0, torch.inf, -0.0, 0.0, -torch.inf])
    values, indices = x.to("spyre").topk(7)
    assert indices.tolist() == [1, 3, 2, 0, 4, 5, 6]
    assert torch.equal(values.cpu()[1:], x[[3, 2, 0, 4, 5, 6]]) and values.cpu()[0].isnan()
    assert x.to("spyre").argmin().item() == x.argmin().item() == 1


def test_the_smallest_of_float32_and_many_ranks():
    x = torch.tensor([1.0, torch.nan, 3.0])
    with torch_spyre.fallback("error"):
        assert x.to("spyre").topk(3, largest=False).indices.tolist() == [0, 2, 1]
        wide = torch.randperm(9000).to(FLOAT)
        assert torch.equal(wide.to("spyre").topk(200).values.cpu(), wide.topk(200).values)
    with pytest.raises(RuntimeError):
        x.to("spyre").topk(4)


SORTED = {  # shape: dims
    (1,): (0,),
    (5, 1): (0, 1),
    (100,): (0,),
    (3, 129): (0, 1),
    (2, 70, 3): (0, 1, 2),
    (2, 8000): (1,),
    (7000, 3): (0,),  # three rankings side by side
    (1, 300_000): (1,),  # LX does not hold all entries: two passes
}
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [HALF, BF16, FLOAT, torch.bool, *INTEGERS])
def test_sort(dtype, descending):
    for shape, dims in SORTED.items():
        x = torch.randint(-40, 41, shape).to(dtype)
        if dtype is FLOAT:
            x[torch.rand(shape) < 0.1] = torch.nan
        for dim in dims:
            expected = x.sort(dim=dim, descending=descending, stable=True)
            with torch_spyre.fallback("error"):
                actual = x.to("spyre").sort(dim=dim, descending=descending)
            assert torch.equal(actual.indices.cpu(), expected.indices)
            torch.testing.assert_close(
                actual.values.cpu(), expected.values, rtol=0, atol=0, equal_nan=True
            )


def test_top_p_of_a_vocabulary():
    """Compiled: sorted, added up, cut, and back in the order of the tokens."""

    def nucleus(logits):
        values, order = logits.sort(descending=True, stable=True)
        shares = values.softmax(-1)
        kept = torch.where(shares.cumsum(-1) - shares > 0.8, -torch.inf, values)
        return torch.zeros_like(kept).scatter(1, order, kept), order

    x = numbers(HALF, 2, 32_000)
    with torch_spyre.fallback("error"):
        actual, order = torch.compile(nucleus)(x.to("spyre"))
    kept = actual.cpu() > -torch.inf
    assert torch.equal(order.cpu(), x.sort(descending=True, stable=True).indices)
    assert torch.equal(actual.cpu()[kept], x[kept])
    for row, taken in zip(x, kept, strict=True):
        assert row[taken].min() >= row[~taken].max() and 0.3 < taken.float().mean() < 0.7
