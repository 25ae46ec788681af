# SPDX-License-Identifier: Apache-2.0
"""A row written into a cache costs that row, by whichever words a model writes it."""

import pytest
import torch
from inputs import half
from torch_spyre import _C

ROW, SHAPE = 7, (1, 4, 512, 64)


def index(cache, place):
    return place[None, None, :, None].expand(*cache.shape[:2], 1, cache.shape[3])


def assign(cache, place, row):
    cache[:, :, ROW] = row[:, :, 0]


def assign_at(cache, place, row):
    cache[:, :, place] = row


def assign_two(cache, place, row):
    cache[:, :, ROW] = row[:, :, 0]
    cache[:, :, ROW + 4 : ROW + 5] = row


def assign_many(cache, place, row):
    for n in range(20):
        cache[:, :, ROW + n] = row[:, :, 0]


def copy_over(cache, place, row):
    cache.copy_(cache.slice_scatter(row, 2, ROW, ROW + 1))


def copy_selected(cache, place, row):
    cache.copy_(cache.select_scatter(row[:, :, 0], 2, ROW))


def copy_indexed(cache, place, row):
    cache.copy_(cache.index_copy(2, place, row))


IN_PLACE = {
    "assignment": assign,
    "assignment at an index": assign_at,
    "two assignments": assign_two,
    "many assignments": assign_many,
    "index_copy_": lambda cache, place, row: cache.index_copy_(2, place, row),
    "index_put_": lambda cache, place, row: torch.ops.aten.index_put_(
        cache, [None, None, place], row
    ),
    "index_fill_": lambda cache, place, row: cache.index_fill_(2, place, 3.0),
    "index_add_": lambda cache, place, row: cache.index_add_(2, place, row, alpha=0.5),
    "scatter_": lambda cache, place, row: cache.scatter_(2, index(cache, place), row),
    "scatter_ of a number": lambda cache, place, row: cache.scatter_(2, index(cache, place), 3.0),
    "slice": lambda cache, place, row: cache[:, :, ROW : ROW + 1].copy_(row),
    "narrow": lambda cache, place, row: cache.narrow(2, ROW, 1).copy_(row),
    "select": lambda cache, place, row: cache.select(2, ROW).copy_(row[:, :, 0]),
    "arithmetic of a slice": lambda cache, place, row: cache[:, :, ROW : ROW + 1].add_(row),
    "a number into a slice": lambda cache, place, row: cache[:, :, ROW].fill_(3.0),
}
FUNCTIONAL = {
    "slice_scatter": copy_over,
    "select_scatter": copy_selected,
    "index_copy": copy_indexed,
}


def cost(write, operands):
    """Modelled time of a write that has run before."""

    def run():
        write(*operands)
        torch.spyre.synchronize()

    run()
    before = _C._stream_clock_us(0, 0)
    run()
    return _C._stream_clock_us(0, 0) - before


def silent(write):
    def without_result(*operands):
        write(*operands)

    return without_result


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", [*IN_PLACE, *FUNCTIONAL])
def test_a_row_costs_a_row(name, compiled):
    if name in FUNCTIONAL and not compiled:
        pytest.skip("one operator after the other makes a cache and copies it")
    write = silent((IN_PLACE | FUNCTIONAL)[name])
    operands = half(*SHAPE), torch.tensor([ROW]), half(1, 4, 1, 64)
    card = [operand.to("spyre") for operand in operands]
    address = card[0].data_ptr()
    torch._dynamo.reset()
    run = torch.compile(write, dynamic=False) if compiled else write
    spent, whole = cost(run, card), cost(lambda x, *_: x.clone(), card)
    for _ in range(2):
        write(*operands)
    torch.testing.assert_close(card[0].cpu(), operands[0], atol=0.01, rtol=0.01)
    assert spent < whole / 4, f"{spent:.2f} us; a copy of the cache takes {whole:.2f}"
    assert card[0].data_ptr() == address


OF_QUANTIZED = ("assignment", "assignment at an index", "index_copy_", "index_put_", "scatter_",
                "slice", "index_fill_")  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.bool], ids=str)
@pytest.mark.parametrize("name", OF_QUANTIZED)
def test_a_row_of_small_integers_costs_a_row(name, dtype, compiled):
    """A move is no arithmetic, which would be in 32 bits."""
    write = silent(IN_PLACE[name])
    cache, row = (torch.randint(0, 99, s).to(dtype) for s in (SHAPE, (1, 4, 1, 64)))
    operands = cache, torch.tensor([ROW]), row
    card = [operand.to("spyre") for operand in operands]
    torch._dynamo.reset()
    run = torch.compile(write, dynamic=False) if compiled else write
    spent, whole = cost(run, card), cost(lambda x, *_: x.clone(), card)
    write(*operands)
    assert torch.equal(card[0].cpu(), cache)
    assert spent < whole / 4, f"{spent:.2f} us; a copy of the cache takes {whole:.2f}"


def test_writes_along_several_dims_keep_what_is_around_them():
    def write(x, row):
        x[:, :, ROW] = row[:, :, 0]
        x[:, 1, 40:50] = 3.0
        x[:, 3] = x[:, 0] * 2
        x[:, :, 60] = row[:, :, 0]
        x[:, :, :, 8:12] = 4.0
        return x[:, 1:3].sum(2)

    x, row = half(*SHAPE), half(1, 4, 1, 64)
    card = x.to("spyre")
    sums = torch.compile(write, dynamic=False)(card, row.to("spyre"))
    torch.testing.assert_close(sums.cpu(), write(x, row), atol=0.3, rtol=0.02)
    torch.testing.assert_close(card.cpu(), x, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("prepare", [torch.clone, torch.Tensor.detach])
def test_writes_in_steps_stay_on_the_card(prepare):
    """Rows in steps of an odd dim, other writes before and behind them; of a copy, and in place."""

    def write(x, rows, row):
        x = prepare(x)
        x[1] = row
        x[::2] = rows
        x[3:5] = row
        return x * 2

    operands = half(5, 7, 65), half(3, 7, 65), half(7, 65)
    torch._dynamo.reset()
    written = torch.compile(write, dynamic=False)(*(x.to("spyre") for x in operands))
    torch.testing.assert_close(written.cpu(), write(*operands), atol=0.01, rtol=0.01)


def test_an_operand_in_the_same_memory_is_read_before_it_is_written():
    x = half(8, 64)
    card = x.to("spyre")
    for y in (x, card):
        y.add_(y.view_as(y))
        y.mul_(y[:])
        y.addcmul_(y.view(8, 64), y, value=0.5)
        with pytest.raises(RuntimeError, match="single memory location"):
            y.index_copy_(0, torch.tensor([3]).to(y.device), y[5:6])
        with pytest.raises(RuntimeError, match="single memory location"):
            y[:4].add_(y[2:6])
    torch.testing.assert_close(card.cpu(), x, atol=0.02, rtol=0.01)


def test_a_result_that_is_copied_over_an_argument_is_not_the_argument():
    def function(x, y):
        z = x.index_copy(0, torch.tensor([3], device=x.device), y)
        x.copy_(z)
        return z

    x, y = half(8, 64), half(1, 64)
    card = x.to("spyre")
    torch._dynamo.reset()
    result = torch.compile(function, dynamic=False)(card, y.to("spyre"))
    card.zero_()
    torch.testing.assert_close(result.cpu(), function(x, y), atol=0.01, rtol=0.01)


def test_two_arguments_take_one_result():
    def function(x, y):
        z = x + y
        x.copy_(z)
        y.copy_(z)

    x, y = half(8, 64), half(8, 64)
    card = x.to("spyre"), y.to("spyre")
    torch._dynamo.reset()
    torch.compile(function, dynamic=False)(*card)
    function(x, y)
    for left, right in zip(card, (x, y), strict=True):
        torch.testing.assert_close(left.cpu(), right, atol=0.02, rtol=0.01)
    card[0].zero_()
    assert card[1].cpu().any()


def test_a_row_outside_of_the_cache_is_a_fault_and_the_card_goes_on():
    cache, row = torch.zeros(8, 64).half().to("spyre"), torch.ones(1, 64).half().to("spyre")
    with pytest.raises(RuntimeError, match="scatter of row 8"):
        cache.index_copy_(0, torch.tensor([8]).to("spyre"), row).cpu()
    cache.index_copy_(0, torch.tensor([7]).to("spyre"), row)
    assert cache.cpu()[7].eq(1).all()
