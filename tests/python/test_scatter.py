# SPDX-License-Identifier: Apache-2.0
"""Elements written at indices of a line, and the counts of bools that losses divide by."""

import contextlib
import itertools
import math

import pytest
import torch
import torch.nn.functional as F

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.int64)
F16 = torch.float16


def places(*shape, most):
    return torch.randint(most, shape)


def numbers(dtype, *shape):
    return torch.randint(0 if dtype is torch.bool else -100, 100, shape).to(dtype)


SCATTERS = {
    "one of a line": (1, (33, 1), 70),
    "five of a line": (1, (33, 5), 70),
    "five of few, some of them twice": (-1, (33, 5), 3),
    "of columns": (0, (3, 70), 33),
    "many of a line": (1, (33, 40), 70),
    "many of columns, some of them twice": (0, (30, 70), 7),
}


def forms(function):
    torch._dynamo.reset()
    return function, torch.compile(function, dynamic=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", SCATTERS)
def test_scatter(case, dtype):
    dim, shape, most = SCATTERS[case]
    x, index = numbers(dtype, 33, 70), places(*shape, most=most)
    source = numbers(dtype, 40, 70)
    for form in forms(lambda x, index, source: x.scatter(dim, index, source)):
        result = form(x.to("spyre"), index.to("spyre"), source.to("spyre"))
        assert torch.equal(result.cpu(), x.scatter(dim, index, source))
    for form in forms(lambda x, index: x.scatter(dim, index, 3)):
        assert torch.equal(form(x.to("spyre"), index.to("spyre")).cpu(), x.scatter(dim, index, 3))


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("case", SCATTERS)
def test_scatter_add(case, dtype):
    dim, shape, most = SCATTERS[case]
    x, index = numbers(dtype, 33, 70), places(*shape, most=most)
    x[0, :2] = torch.tensor([-0.0, torch.inf])
    x[5, 2], source = 7, numbers(dtype, 33, 70) / 4
    expected = x.double().scatter_add(dim, index, source.double()).to(dtype)
    unit = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-20}[dtype]
    for form in forms(lambda x, index, source: x.scatter_add(dim, index, source)):
        result = form(x.to("spyre"), index.to("spyre"), source.to("spyre")).cpu()
        torch.testing.assert_close(result, expected, rtol=4 * unit, atol=300 * unit)


def test_an_index_beyond_the_line_is_a_fault():
    x, one = torch.zeros(4, 70, dtype=F16).to("spyre"), torch.ones(4, 1, dtype=F16).to("spyre")
    for wrong in (70, 4000, -1):
        index = torch.tensor([[1], [2], [wrong], [3]]).to("spyre")
        for write in (lambda i: x.scatter(1, i, 1.0), lambda i: x.scatter_add(1, i, one)):
            with pytest.raises(RuntimeError, match=f" of row {wrong}, outside 0..69"):
                write(index).cpu()
    assert x.scatter(1, torch.tensor([[1]] * 4).to("spyre"), 2.0).cpu().sum() == 8


def test_a_fault_in_the_parts_of_an_operator_names_it():
    x, index = torch.zeros(4, 64, dtype=F16).to("spyre"), torch.tensor([4]).to("spyre")
    for write in ("index_fill", "index_add"):
        with pytest.raises(RuntimeError) as fault:
            getattr(x, write)(0, index, 1.0 if write == "index_fill" else x[:1]).cpu()
        text = str(fault.value)
        assert f"(eager aten.{write}." in text and "row 4, outside 0..3" in text
    with contextlib.suppress(RuntimeError):  # a refused launch reports, this clears
        torch.spyre.synchronize()
    assert x.cpu().eq(0).all()


@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
@pytest.mark.parametrize("smoothing", (0.0, 0.1))
def test_cross_entropy_with_gradient(reduction, smoothing):
    x, target = torch.randn(33, 130, dtype=F16), places(33, most=130)
    target[3] = -100

    def step(x, target):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        return loss.detach(), gradient

    expected = step(x.double(), target)
    for form in forms(lambda x, target: F.cross_entropy(x, target, reduction=reduction)):
        if smoothing == 0:
            got = form(x.to("spyre"), target.to("spyre")).cpu().double()
            torch.testing.assert_close(got, expected[0], rtol=4e-3, atol=4e-3)
    for got, wanted in zip(step(x.to("spyre"), target.to("spyre")), expected, strict=True):
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=4e-3, atol=4e-3)


def test_gather_has_a_gradient():
    x, index, weight = torch.randn(33, 70, dtype=F16), places(33, 2, most=70), torch.randn(33, 2)

    def gradient(x, index, weight):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x.gather(1, index) * weight).sum(), x)[0]

    expected = gradient(x.double(), index, weight.double())
    result = gradient(x.to("spyre"), index.to("spyre"), weight.half().to("spyre"))
    torch.testing.assert_close(result.cpu().double(), expected, rtol=4e-3, atol=1e-3)


@pytest.mark.parametrize("shape,dim", (((33, 130), None), ((33, 130), 0), ((33, 130), 1)))
def test_counts_of_bools(shape, dim):
    x = torch.rand(shape) < 0.4
    for form in forms(lambda x: x.sum(dim) if dim is not None else x.sum()):
        result = form(x.to("spyre"))
        assert result.dtype == torch.int64
        assert torch.equal(result.cpu(), x.sum(dim) if dim is not None else x.sum())


ADDED = {
    "rows": (0, (24,)),
    "a block of indices": (0, (4, 6)),
    "columns": (1, (40,)),
    "of three dims": (1, (4, 3)),
}


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("accumulate", (False, True))
@pytest.mark.parametrize("case", ADDED)
def test_rows_at_indices(case, accumulate, dtype):
    dim, shape = ADDED[case]
    sizes = (3, 33, 70) if case == "of three dims" else (33, 70)
    x, most = numbers(dtype, *sizes), sizes[dim]
    count = torch.Size(shape).numel()
    index = places(count, most=most) if accumulate else torch.randperm(most)[:count]
    index = (index - most * (index % 2)).view(shape)  # some from the end
    source = numbers(dtype, *sizes[:dim], *shape, *sizes[dim + 1 :]) / 4
    where = (*[None] * dim, index)
    put = torch.ops.aten.index_put

    def moved(place, device):
        return [i if i is None else i.to(device) for i in place]

    broadcasts = dim == 0 and (accumulate or len(shape) > 1)
    for given in (source, source[..., :1]) if broadcasts else (source,):
        expected = put(x.double(), moved(where, "cpu"), given.double(), accumulate).to(dtype)
        for form in forms(lambda x, index, s: put(x, [*[None] * dim, index], s, accumulate)):
            result = form(x.to("spyre"), index.to("spyre"), given.to("spyre"))
            torch.testing.assert_close(result.cpu(), expected, rtol=2.0**-7, atol=0.5)


@pytest.mark.parametrize("dtype", (*DTYPES, torch.int32, torch.uint8), ids=str)
def test_elements_at_indices_of_several_dims(dtype):
    x, source = numbers(dtype, 5, 33, 70), numbers(dtype, 12, 70)
    rows, columns = torch.arange(12) % 5 - 1, torch.randperm(33)[:12]

    def put(x, rows, columns, source):
        x = torch.ops.aten.index_put(x, (rows, columns), source)
        x = torch.ops.aten.index_put(x, (rows, None, columns * 2), source[:, :33])
        x = torch.ops.aten.index_put(x, (None, None, columns[0]), source[0, 0])
        return x.index_put((columns[:5, None] // 8, columns[5:], rows[0]), source[0, 0])

    expected = put(x, rows, columns, source)
    for form in forms(put):
        result = form(*[tensor.to("spyre") for tensor in (x, rows, columns, source)])
        assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("padding", (None, 3))
def test_the_gradient_of_an_embedding(padding, dtype):
    index, weight = places(4, 9, most=33), torch.randn(4, 9, 70).to(dtype)

    def gradient(table, index, weight):
        table = table.detach().requires_grad_()
        rows = F.embedding(index, table, padding_idx=padding)
        return torch.autograd.grad((rows * weight).sum(), table)[0]

    table = torch.randn(33, 70).to(dtype)
    expected = gradient(table.double(), index, weight.double())
    for form in forms(gradient):
        result = form(table.to("spyre"), index.to("spyre"), weight.to("spyre"))
        torch.testing.assert_close(result.cpu().double(), expected, rtol=8e-3, atol=8e-3)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_infinities_reach_their_own_places_only(dtype):
    x, index, y = numbers(dtype, 9, 70), torch.arange(12) // 2, numbers(dtype, 12, 70)
    y[1, 3], y[2, 4], y[3, 4] = math.inf, math.inf, -math.inf
    y[4, 5] = y[5, 5] = -math.inf
    y[6, 69], y[0, 0] = math.nan, -math.inf
    expected = x.index_add(0, index, y).nan_to_num(math.inf, math.inf, -math.inf)
    for form in forms(lambda x, index, y: x.index_add(0, index, y)):
        result = form(x.to("spyre"), index.to("spyre"), y.to("spyre")).cpu()
        torch.testing.assert_close(result, expected, rtol=2.0**-7, atol=0.5)


def test_index_add():
    x, index, y = numbers(F16, 33, 70), places(40, most=33), numbers(F16, 40, 70) / 4
    expected = x.double().index_add(0, index, y.double(), alpha=2).half()
    for form in forms(lambda x, index, y: x.index_add(0, index, y, alpha=2)):
        result = form(x.to("spyre"), index.to("spyre"), y.to("spyre")).cpu()
        torch.testing.assert_close(result, expected, rtol=4e-3, atol=0.5)


@pytest.mark.parametrize("dim", [0, 1])
def test_every_nth_place_is_replaced(dim):
    """Whether or not the steps divide the dim, reach its end or begin behind its front."""
    x = (torch.arange(198) / 8).half().reshape(33, 6).movedim(0, dim)
    for start, step in itertools.product((0, 1, 5), (2, 3, 4, 31)):
        part = torch.full_like(x.narrow(dim, start, 33 - start).movedim(dim, 0)[::step], -1)
        arguments = part.movedim(0, dim), dim, start, None, step
        expected = torch.slice_scatter(x, *arguments)
        found = torch.slice_scatter(x.to("spyre"), part.movedim(0, dim).to("spyre"), *arguments[1:])
        assert torch.equal(found.cpu(), expected), (start, step)


def test_sums_are_rounded_once():
    """2048 + 1 is 2048 in 16 bits: of sums that were rounded one by one nothing would be left."""
    x, ones = torch.full((4, 70), 2048.0, dtype=F16), torch.ones(4, 300, dtype=F16)
    index = torch.zeros(4, 300, dtype=torch.int64)
    rows, of_row = torch.ones(300, 70, dtype=F16), torch.full((300,), 3)
    for form in forms(lambda x, i, y: x.scatter_add(1, i, y)):
        result = form(x.to("spyre"), index.to("spyre"), ones.to("spyre")).cpu()
        assert (result[:, 0] == 2348).all() and (result[:, 1:] == 2048).all()
    for form in forms(lambda x, i, y: x.index_add(0, i, y)):
        result = form(x.to("spyre"), of_row.to("spyre"), rows.to("spyre")).cpu()
        assert (result[3] == 2348).all() and (result[:3] == 2048).all()


def test_sums_into_few_of_many_rows():
    """Rows that are named more than once get all sums, and the others keep their bits."""
    torch.manual_seed(0)
    x = torch.randint(-100, 100, (200, 70)).to(F16)
    for dim, count in ((0, 50), (0, 1), (1, 20)):
        index = torch.randint(9, (count,)) * 7
        source = numbers(F16, *(count if d == dim else n for d, n in enumerate(x.shape)))
        for form in forms(lambda x, i, y, dim=dim: x.index_add(dim, i, y)):
            result = form(x.to("spyre"), index.to("spyre"), source.to("spyre")).cpu()
            assert torch.equal(result, x.double().index_add(dim, index, source.double()).to(F16))
    back = torch.ops.aten.embedding_dense_backward
    for form in forms(lambda y, i: back(y, i, 200, -1, False)):
        index, source = torch.randint(9, (50,)) * 7, numbers(F16, 50, 70)
        result = form(source.to("spyre"), index.to("spyre")).cpu()
        assert torch.equal(result, back(source.float(), index, 200, -1, False).to(F16))


@pytest.mark.host("aten.index_add", "aten.index_put")
@pytest.mark.filterwarnings("ignore")
def test_a_sum_of_bools_with_a_factor():
    """index_add of bools stays one of bools, whatever the factor is."""
    x, index, source = numbers(torch.bool, 9), torch.tensor([0, 3]), torch.tensor([True, False])
    for form in forms(lambda x, index, source: x.index_add(0, index, source, alpha=2)):
        result = form(x.to("spyre"), index.to("spyre"), source.to("spyre"))
        assert torch.equal(result.cpu(), x.index_add(0, index, source, alpha=2))
