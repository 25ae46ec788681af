# SPDX-License-Identifier: Apache-2.0
"""Assignments to parts of tensors inside compiled graphs: they stay on the card."""

import math
import warnings

import pytest
import torch
import torch_spyre
from inputs import half


def rows(x, part):
    x[:, 2:5] = part
    return x


def rows_of_a_batch(x, part):
    x[-1, 2:5] = part[0]
    return x


def one_row(x, part):
    x[0, -1] = part[0, 0]
    return x


def a_number(x, part):
    x[:, :-4, 8:] = 3
    return x + part[:, :1]


def every_other(x, part):
    x[:, 1::2] = 7
    x[:, :, ::4] = part[:, :1, :4]
    return x


def quarters(x, part):
    for i, row in enumerate((slice(0, -4), slice(-4, -2), slice(-2, None))):
        for j, column in enumerate((slice(0, -4), slice(-4, None))):
            x[:, row, column] = i * 2 + j
    return x


def positions(x, part):
    table = torch.zeros(16, 16, dtype=x.dtype, device=x.device)
    table[:, 0::2] = x[0, :, :8]
    table[:, 1::2] = x[1, :, 8:] * 2
    return table


def past_the_end(x, part):
    x[:, 13:100] = part
    return x


WRITES = [rows, rows_of_a_batch, one_row, a_number, every_other, quarters, positions,
          past_the_end]  # fmt: skip


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_parts_are_written_on_the_card(write):
    def function(x, part):
        return write(x * 1, part)

    x, part = half(2, 16, 16), half(2, 3, 16)
    torch._dynamo.reset()
    result = torch.compile(function, dynamic=False)(x.to("spyre"), part.to("spyre"))
    torch.testing.assert_close(result.cpu(), function(x, part), atol=0.01, rtol=0.01)
    assert ": host" not in torch_spyre.last_report().text


def test_an_input_that_is_written_shows_it():
    x, part = half(2, 16, 16), half(2, 3, 16)
    on_card = x.to("spyre")
    torch.compile(rows, dynamic=False)(on_card, part.to("spyre"))
    torch.testing.assert_close(on_card.cpu(), rows(x, part), atol=0.01, rtol=0.01)


def test_a_copy_over_a_transposed_part_keeps_its_values():
    def function(x, part):
        z = (x * 1).transpose(0, 1)[2:5]
        z.copy_(part.transpose(0, 1))
        return z, z.stride()

    x, part = half(2, 16, 16), half(2, 3, 16)
    result, _ = torch.compile(function, dynamic=False)(x.to("spyre"), part.to("spyre"))
    torch.testing.assert_close(result.cpu(), function(x, part)[0], atol=0.01, rtol=0.01)


@pytest.mark.parametrize("compiled", [False, True])
def test_turned_dims(compiled):
    def function(x):
        return torch.roll(x, (-3, 5), (1, 2)), torch.roll(x, 17, -1)

    x = half(2, 8, 70)
    run = torch.compile(function, dynamic=False) if compiled else function
    for actual, expected in zip(run(x.to("spyre")), function(x), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, atol=0.01, rtol=0.01)
    if compiled:
        assert ": host" not in torch_spyre.last_report().text


def copied(dim):
    return lambda x, index, source: x.index_copy(dim, index, source)


def assigned(x, index, source):
    x = x * 1
    x[:, index] = source
    return x


def assigned_number(x, index, source):
    x = x * 1
    x[:, index] = 3
    return x


INDEXED = {  # function, sizes of x, index, sizes of the source
    "a step of a cache": (copied(2), (2, 4, 100, 64), [37], (2, 4, 1, 64)),
    "several steps": (copied(2), (2, 4, 100, 64), [3, 99, 0], (2, 4, 3, 64)),
    "rows": (copied(0), (256, 70), [3, 255], (2, 70)),
    "columns": (copied(-1), (5, 70), [69, 0, 3], (5, 3)),
    "the last of equal ones": (copied(0), (8, 70), [3, 3], (2, 70)),
    "from the end": (assigned, (2, 8, 70), [3, -1], (2, 2, 70)),
    "one row for all": (assigned, (2, 8, 70), [5, 0], (70,)),
    "a number": (assigned_number, (2, 8, 70), [5, 0], (1,)),
}


def test_rows_are_written_at_indices_without_a_graph():
    x, index, source = half(256, 70), torch.tensor([3, 255]), half(2, 70)
    on_card = [t.to("spyre") for t in (x, index, source)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch_spyre.FallbackWarning)
        on_card[0][on_card[1]] = on_card[2]
        on_card[0].index_copy_(0, on_card[1] - 1, on_card[2])
    x[index] = source
    x.index_copy_(0, index - 1, source)
    torch.testing.assert_close(on_card[0].cpu(), x, atol=0.01, rtol=0.01)


@pytest.mark.parametrize("name", INDEXED)
def test_rows_are_written_at_indices(name):
    function, size, index, source_size = INDEXED[name]
    operands = half(*size), torch.tensor(index), half(*source_size)
    torch._dynamo.reset()
    result = torch.compile(function, dynamic=False)(*[x.to("spyre") for x in operands])
    torch.testing.assert_close(result.cpu(), function(*operands), atol=0.01, rtol=0.01)
    assert ": host" not in torch_spyre.last_report().text


@pytest.mark.parametrize("index", [8, -1])
def test_an_index_outside_its_dim_is_a_fault(index):
    operands = half(8, 70), torch.tensor([2, index]), half(2, 70)
    stream = torch.spyre.Stream()  # keeps the fault
    with torch.spyre.stream(stream), pytest.raises(RuntimeError, match=f"scatter of row {index}"):
        torch.compile(copied(0), dynamic=False)(*[x.to("spyre") for x in operands]).cpu()


def test_values_that_are_no_numbers():
    x = torch.tensor([1.0, -math.inf, math.inf, 0.0, 65504.0], dtype=torch.float16)

    def function(x):
        return torch.isinf(x), torch.isinf(x).any(), torch.isnan(x)

    for run in (function, torch.compile(function, dynamic=False)):
        for actual, expected in zip(run(x.to("spyre")), function(x), strict=True):
            assert torch.equal(actual.cpu(), expected)
    assert ": host" not in torch_spyre.last_report().text
