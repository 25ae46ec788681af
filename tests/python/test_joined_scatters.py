# SPDX-License-Identifier: Apache-2.0
"""Scatters that join what is there by every reduction, against PyTorch's in float64 or integers:
sizes, dims, dtypes, views, duplicates, parts of the other dims, at random."""

import random

import pytest
import torch
import torch_spyre

FLOATS = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-20}
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
SIZES = (1, 2, 3, 7, 31, 33, 63, 64, 65, 127, 130, 200)


# A whole of which one element a line is left, or lines of a part of the other dims, may be the
# host's: no layout takes the index beside the result.
@pytest.fixture(autouse=True)
def on_host_where_no_layout_fits():
    with torch_spyre.fallback("error", allow=["aten.scatter_reduce"]):
        yield


def forms(function):
    torch._dynamo.reset()
    yield function
    yield torch.compile(function, dynamic=False)


def numbers(draw, size, dtype, reduce):
    if dtype is torch.bool:
        return torch.rand(size) < 0.5
    if not dtype.is_floating_point:
        most = {"prod": 3, "mean": 20, "sum": 20}.get(reduce, 120)
        return torch.randint(0 if dtype is torch.uint8 else -most, most, size).to(dtype)
    x = torch.rand(size) + 0.5 if reduce == "prod" else torch.randn(size)
    if draw.random() < 0.3 and x.numel():
        x.view(-1)[draw.randrange(x.numel())] = draw.choice((torch.inf, -0.0, 0.0, torch.nan))
    return x.to(dtype)


def stored(draw, x):
    """The same elements, or a view of a larger storage that has them."""
    choice = draw.randrange(4)
    if choice == 1 and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if choice == 2 and x.dim():
        wide = torch.stack([x, x.flip(0)], -1)
        return wide[..., 0]
    if choice == 3 and x.dim():
        return torch.cat([x[:1], x])[1:]
    return x


def close(actual, expected, dtype, terms):
    assert actual.dtype == dtype
    if dtype not in FLOATS:
        assert torch.equal(actual, expected.to(dtype))
        return
    unit = FLOATS[dtype]
    wide = actual.double()
    assert torch.equal(wide.isnan(), expected.isnan())
    infinite = expected.isinf()
    assert torch.equal(wide[infinite], expected[infinite])
    finite = expected.isfinite()
    bound = unit * expected.abs() + 2.0**-20 * terms + 1e-9
    assert ((wide - expected).abs() <= bound)[finite].all()


def is_defined(reduce, dtype):
    return not (reduce == "mean" and dtype in (torch.bool, torch.int8, torch.uint8))


def on_card(x):
    return x.to("spyre").cpu() if x.dtype in FLOATS else x


@pytest.mark.parametrize("seed", range(32))
def test_random_scatter_reduce(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    rank = draw.choice((1, 2, 2, 3))
    size = [draw.choice(SIZES[:4] if i < rank - 2 else SIZES) for i in range(rank)]
    dtype, reduce = draw.choice(DTYPES), draw.choice(REDUCTIONS)
    if not is_defined(reduce, dtype):
        return
    dim, include = draw.randrange(-rank, rank), draw.random() < 0.5
    shape = list(size)
    shape[dim] = draw.choice(SIZES)
    if draw.random() < 0.3:
        d = draw.randrange(rank)
        shape[d] = max(1, shape[d] // 2)
    index = torch.randint(draw.choice((1, size[dim])), shape)
    if draw.random() < 0.3:
        one = [n if d == dim % rank else 1 for d, n in enumerate(shape)]
        index = torch.randint(size[dim], one).expand(shape)
    source = numbers(draw, [n + draw.randrange(2) for n in shape], dtype, reduce)
    x, source = (on_card(stored(draw, t)) for t in (numbers(draw, size, dtype, reduce), source))
    wide = torch.float64 if dtype in FLOATS else dtype
    expected = x.to(wide).scatter_reduce(dim, index, source.to(wide), reduce, include_self=include)
    terms = torch.zeros(size, dtype=torch.float64).scatter_add(
        dim, index, source.double().nan_to_num(0, 0, 0).abs()
    )
    for form in forms(lambda x, i, s: x.scatter_reduce(dim, i, s, reduce, include_self=include)):
        result = form(x.to("spyre"), index.to("spyre"), source.to("spyre")).cpu()
        close(result, expected, dtype, terms)


@pytest.mark.parametrize("include", (False, True))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_every_reduction(reduce, dtype, include):
    if not is_defined(reduce, dtype):
        return
    torch.manual_seed(0)
    draw = random.Random(0)
    x, source = (numbers(draw, (n, 70), dtype, reduce) for n in (9, 5))
    index, at = torch.randint(9, (5, 70)), torch.tensor([3, 1, 3, 8, 1])
    wide = torch.float64 if dtype in FLOATS else dtype
    terms = torch.full((), 10.0)
    x, source = on_card(x), on_card(source)

    def of_elements(x, index, source):
        return x.scatter_reduce(0, index, source, reduce, include_self=include)

    def of_rows(x, index, source):
        return x.index_reduce(0, index, source, reduce, include_self=include)

    has_rows = reduce != "sum" and (include or dtype is not torch.bool)
    for step, places in ((of_elements, index), (of_rows, at))[: 1 + has_rows]:
        expected = step(x.to(wide), places, source.to(wide))
        for form in forms(step):
            result = form(x.to("spyre"), places.to("spyre"), source.to("spyre")).cpu()
            close(result, expected, dtype, terms)
    scalar = (x[0, 0], torch.tensor(0), source[0, 0])
    expected = of_elements(scalar[0].to(wide), scalar[1], scalar[2].to(wide))
    for form in forms(of_elements):
        close(form(*(t.to("spyre") for t in scalar)).cpu(), expected, dtype, terms)


@pytest.mark.parametrize("seed", range(24))
def test_random_rows(seed):
    draw = random.Random(100 + seed)
    torch.manual_seed(seed)
    rank = draw.choice((1, 2, 2, 3))
    size = [draw.choice(SIZES) if i >= rank - 2 else draw.randrange(1, 4) for i in range(rank)]
    dtype, reduce = draw.choice(DTYPES), draw.choice((*REDUCTIONS, "add", "put"))
    if not is_defined(reduce, dtype):
        return
    dim, include = draw.randrange(rank), draw.random() < 0.5
    count = draw.choice((1, 2, 5, 33, 64, 150))
    index = torch.randint(draw.choice((1, size[dim])), (count,))
    rows = size[:dim] + [count] + size[dim + 1 :]
    kind = {"add": "sum", "put": "sum"}.get(reduce, reduce)
    x = on_card(numbers(draw, size, dtype, kind))
    source = on_card(stored(draw, numbers(draw, rows, dtype, kind)))

    def step(x, index, source):
        if reduce == "put":
            return torch.ops.aten.index_put(x, [None] * dim + [index], source, True)
        if reduce in ("add", "sum"):
            return x.index_add(dim, index, source)
        return x.index_reduce(dim, index, source, reduce, include_self=include)

    wide = torch.float64 if dtype in FLOATS else dtype
    expected = step(x.to(wide), index, source.to(wide))
    terms = torch.zeros(size, dtype=torch.float64).index_add(
        dim, index, source.double().nan_to_num(0, 0, 0).abs()
    )
    for form in forms(step):
        result = form(x.to("spyre"), index.to("spyre"), source.to("spyre")).cpu()
        close(result, expected, dtype, terms)


@pytest.mark.parametrize("dtype", (torch.float16, torch.int64, torch.bool), ids=str)
def test_elements_of_several_dims(dtype):
    torch.manual_seed(0)
    x = torch.randint(0, 2, (7, 33, 70)).to(dtype)
    i, j = torch.randint(7, (90,)), torch.randint(-33, 33, (90,))
    source = torch.randint(0, 2, (90, 70)).to(dtype)
    expected = x.index_put((i, j), source, accumulate=True)
    for form in forms(lambda x, i, j, s: x.index_put((i, j), s, accumulate=True)):
        assert torch.equal(form(*(t.to("spyre") for t in (x, i, j, source))).cpu(), expected)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_an_index_beyond_the_line_is_a_fault(reduce):
    x, one = torch.zeros(4, 70).to("spyre"), torch.ones(4, 1).to("spyre")
    index = torch.tensor([[1], [2], [70], [3]]).to("spyre")
    with pytest.raises(RuntimeError, match="accumulate of row 70, outside 0..69"):
        x.scatter_reduce(1, index, one, reduce).cpu()


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32, torch.int64), ids=str)
def test_products(dtype):
    torch.manual_seed(0)
    shape = (5, 33, 70) if dtype.is_floating_point else (5, 9, 12)
    x = torch.randint(1, 3, shape).to(dtype)
    x = x / 4 + 0.625 if dtype.is_floating_point else x
    for given in (x, x.transpose(0, 2), x[:1].expand(4, *shape[1:]), x[:, ::2]):
        for dim in (0, 1, 2):
            expected = given.to(torch.float64 if x.is_floating_point() else dtype).prod(dim)
            for form in forms(lambda x, dim=dim: x.prod(dim)):
                close(form(given.to("spyre")).cpu(), expected, dtype, torch.zeros(()))


def test_int64_beyond_32_bits_is_the_hosts():
    x, index = torch.zeros(3, dtype=torch.int64), torch.tensor([1, 1, 1])
    source = torch.full((3,), 2**30)
    with torch_spyre.fallback("silent"):
        for form in forms(lambda x, i, s: x.scatter_add(0, i, s)):
            result = form(x.to("spyre"), index.to("spyre"), source.to("spyre"))
            assert result.cpu().tolist() == [0, 3 * 2**30, 0]
        for form in forms(lambda x, i, s: (x + 1).scatter_reduce(0, i, s, "prod")):
            result = form(x.to("spyre"), index.to("spyre"), source.to("spyre"))
            assert (
                result.cpu().tolist() == ((x + 1).scatter_reduce(0, index, source, "prod")).tolist()
            )
        for form in forms(lambda x, i, s: x.index_put((i,), s, accumulate=True)):
            result = form(x.to("spyre"), index.to("spyre"), source.to("spyre"))
            assert result.cpu().tolist() == [0, 3 * 2**30, 0]
        for form in forms(lambda x, i, s: x.index_add(0, i, s, alpha=3)):
            result = form(x.to("spyre"), index[:1].to("spyre"), source[:1].to("spyre"))
            assert result.cpu().tolist() == [0, 3 * 2**30, 0]


JOINS = {
    "index_add": lambda x, i, s: x.index_add_(0, i, s),
    "scatter_add": lambda x, i, s: x.scatter_add_(0, i[:, None].expand(s.shape), s),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce_(0, i[:, None].expand(s.shape), s, "sum"),
    "index_put_": lambda x, i, s: x.index_put_((i,), s, accumulate=True),
    "elements": lambda x, i, s: x.index_put_((i, i), s[:, 0], accumulate=True),
    "put_": lambda x, i, s: x.put_(i, s[:, 0], accumulate=True),
}


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS.keys())
def test_int64_sums_are_the_cards_where_what_is_joined_stays_in_32_bits(join):
    most = 2**31 - 1
    x, index, source = (
        torch.zeros(40, 8, dtype=torch.int64),
        torch.tensor([2, 0, 2]),
        torch.ones(3, 8),
    )
    source = source.long()
    x[5] = most  # nothing comes there
    given, expected = x.to("spyre"), x.clone()
    with torch_spyre.fallback("error"):
        join(given, index.to("spyre"), source.to("spyre"))
    assert torch.equal(given.cpu(), join(expected, index, source))
    x[2] = x[0] = most
    given, expected = x.to("spyre"), x.clone()
    with torch_spyre.fallback("silent"):
        join(given, index.to("spyre"), source.to("spyre"))
    assert torch.equal(given.cpu(), join(expected, index, source))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
@pytest.mark.parametrize("sizes", [(5, 1), (7, 4, 1), (5, 1, 4), (3, 2, 1, 1)], ids=str)
def test_sums_of_rows_whose_dims_have_one_element(sizes, dtype):
    """Each element has a stick of its own then; float32 of the sums has not."""
    x, rows = (torch.randint(-9, 9, [n, *sizes[1:]]).to(dtype) for n in (sizes[0], 4))
    index = torch.tensor([1, 0, 2, 1])
    for function in (
        lambda x, i, r: x.index_put((i,), r, True),
        lambda x, i, r: x.index_add(0, i, r),
    ):
        torch._dynamo.reset()
        found = torch.compile(function)(*[t.to("spyre") for t in (x, index, rows)])
        assert torch.equal(found.cpu(), function(x, index, rows))
