# SPDX-License-Identifier: Apache-2.0
"""Ranges of integers within a compiled graph: what operators move or choose stays within the values
that they take, so that arithmetic behind them stays on the card; ends of 32 bits do not."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre


def _written(x, write):
    y = x.clone()
    write(y)
    return y


def _into(x, *arguments):
    return torch.zeros(4, 8, dtype=x.dtype, device=x.device).scatter(1, x % 8, *arguments)


MOVED = {
    "pad": lambda x: F.pad(x, (1, 1), value=-1),
    "roll": lambda x: x.roll(1, 1),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "max": lambda x: x.max(1).values,
    "max, whole": lambda x: x.max(),
    "min of two": lambda x: torch.min(x, x.flip(0)),
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(2, 1).values,
    "median": lambda x: x.median(1).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "aminmax": lambda x: x.aminmax(dim=1).min,
    "cummax": lambda x: x.cummax(1).values,
    "clamp_min": lambda x: x.clamp_min(2),
    "clamp_max": lambda x: x.clamp_max(4),
    "bitwise_not": lambda x: ~x,
    "scatter": lambda x: _into(x, x),
    "scatter a number": lambda x: _into(x, 3),
    "written part": lambda x: _written(x, lambda y: y[:, 1:3].fill_(4)),
    "copied part": lambda x: _written(x, lambda y: y[:, 1:].copy_(x[:, :-1])),
    "written row": lambda x: x.select_scatter(x[0], 0, 1),
    "diagonal": lambda x: x.diagonal_scatter(x[0, :4]),
    "embedding": lambda x: F.embedding(x % 4, x),
    "index_fill": lambda x: x.index_fill(1, x[0] % 6, 2),
    "index_copy": lambda x: x.index_copy(0, torch.arange(3, device=x.device), x[:3]),
    "index_put": lambda x: x.index_put((torch.arange(3, device=x.device),), x[0]),
    "new_full": lambda x: x + x.new_full((6,), 7),
    "halves": lambda x: torch.cat(x.chunk(2, 1)),
    "columns": lambda x: torch.stack(x.unbind(1)),
}  # fmt: skip
CHOSEN = {
    "cummax": lambda x: x.cummax(1).indices,
    "sign": lambda x: x.sign(),
    "new_ones": lambda x: x.new_ones((3,)),
}


@pytest.fixture
def x():
    torch._dynamo.reset()
    return torch.arange(24).reshape(4, 6) % 7


@pytest.mark.parametrize("name", [*MOVED, *CHOSEN])
def test_arithmetic_behind_stays_on_the_card(name, x):
    function = {**MOVED, **CHOSEN}[name]
    compiled = torch.compile(lambda x: function(x) * 3 + 5)
    with torch_spyre.fallback("error"):
        found = compiled(x.to("spyre"))
    assert torch.equal(found.cpu(), function(x) * 3 + 5)


# Of the largest value; what these give of it is another one.
OF_ANOTHER = {"clamp_max", "bitwise_not", "scatter a number"}


@pytest.mark.parametrize("name", sorted(MOVED.keys() - OF_ANOTHER))
def test_values_that_leave_32_bits_are_those_of_pytorch(name, x):
    function = MOVED[name]
    x = x + (2**31 - 8)
    compiled = torch.compile(lambda x: function(x) + 5)
    with torch_spyre.fallback("silent"):
        found = compiled(x.to("spyre"))
    assert torch.equal(found.cpu(), function(x) + 5)


def test_what_a_number_adds_to_the_range(x):
    """Of a number that a graph writes beside its operand."""
    for function in (
        lambda x: F.pad(x, (1, 1), value=2**31 - 1) + 5,
        lambda x: ~F.pad(x, (1, 1), value=-(2**31)) + 5,
        lambda x: x.clamp_min(2**31 - 3) + 5,
        lambda x: x.new_full((3,), 2**31 - 1) + x[:3, 0],
        lambda x: x.tril() // x.triu().clamp_min(1),
    ):
        torch._dynamo.reset()
        with torch_spyre.fallback("silent"):
            assert torch.equal(torch.compile(function)(x.to("spyre")).cpu(), function(x))


def test_a_padded_divisor_is_0(x):
    compiled = torch.compile(lambda x, y: x // F.pad(y, (0, 1)))
    with torch_spyre.fallback("silent"), pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x.to("spyre"), (x[:, :5] + 1).to("spyre"))
