# SPDX-License-Identifier: Apache-2.0
"""Integers divided by tensors, shifted and multiplied along a dim: exact on the card, in PyTorch's
dtypes and by its rules of signs; PyTorch's error where a divisor is 0."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
import torch_spyre

DTYPES = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
PAIRS = {
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "fmod": torch.fmod,
    "towards zero": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "of a number": lambda x, y: 100 % y + torch.div(100, y, rounding_mode="floor"),
    "by -1": lambda x, _y: (x // -1) % -1 if x.dtype.is_signed else x // 1,
    "<<": lambda x, y: (x & 7) << (y & 15),
    ">>": operator.rshift,
    "shifted by a number": lambda x, _y: ((x & 31) << 2) + (x >> 3),
    "product": lambda x, _y: (x % 3 + 1)[:, :12].prod(1),
    "running product": lambda x, _y: (x % 3).cumprod(0),
}


def results(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [function(x, y) for function in PAIRS.values()]


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_pytorch(dtype: torch.dtype, is_compiled: bool) -> None:
    ends = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
    torch.manual_seed(7)
    x = torch.randint(ends.min // 2, ends.max // 2, (4, 70)).to(dtype)
    y = torch.randint(ends.min, ends.max, (4, 70)).to(dtype)
    y[y == 0] = 3
    y[:, ::2] = y[:, ::2] % 9 + 1
    torch._dynamo.reset()
    function = torch.compile(results, fullgraph=True) if is_compiled else results
    with torch_spyre.fallback("error"):
        actual = function(x.to("spyre"), y.to("spyre"))
    for name, found, expected in zip(PAIRS, actual, results(x, y), strict=True):
        assert found.device.type == "spyre" and found.dtype == expected.dtype, name
        assert torch.equal(found.cpu(), expected), name


def shifted_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x <<= 2
    x >>= 1
    x //= y
    x %= 5
    return x.bitwise_left_shift_(y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_place(dtype: torch.dtype) -> None:
    x = torch.arange(-9 if dtype.is_signed else 0, 31).to(dtype)
    y = (x % 4 + 1).to(dtype)
    on_card = x.to("spyre")
    with torch_spyre.fallback("error"):
        made = shifted_in_place(on_card, y.to("spyre"))
    assert made is on_card and torch.equal(on_card.cpu(), shifted_in_place(x, y))


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "function", [operator.floordiv, operator.mod, torch.fmod], ids=["//", "%", "fmod"]
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_zero_divisors(
    dtype: torch.dtype, function: Callable[..., torch.Tensor], is_compiled: bool
) -> None:
    """Of the same program: a divisor that is 0 is found among those of each call."""
    torch._dynamo.reset()
    form = torch.compile(function) if is_compiled else function
    x, y = torch.arange(70).to(dtype), (torch.arange(70) % 7 + 1).to(dtype)
    assert torch.equal(form(x.to("spyre"), y.to("spyre")).cpu(), function(x, y))
    y[69] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        form(x.to("spyre"), y.to("spyre")).cpu()
    assert torch.equal(form(x.to("spyre"), x.to("spyre") + 1).cpu(), function(x, x + 1))


def test_products_beyond_32_bits_are_the_hosts() -> None:
    x = torch.full((4,), 1000)
    with torch_spyre.fallback("warn"), pytest.warns(torch_spyre.FallbackWarning, match="32"):
        assert x.to("spyre").prod().item() == 10**12
    y = torch.tensor([1 << 20, 1 << 20, 0])  # parts leave 32 bits, the product does not
    with torch_spyre.fallback("error"):
        assert y.to("spyre").prod().item() == 0


@pytest.mark.parametrize("x", (torch.tensor([7, 100]), torch.tensor([2**31 - 1, 100])), ids=str)
def test_sums_whose_decomposition_is_one_operator(x: torch.Tensor) -> None:
    """Each call is looked at: on the card what fits 32 bits, on the host the rest."""
    mode = "error" if x.sum() < 2**31 else "silent"
    out = torch.empty((), dtype=torch.int64, device="spyre")
    with torch_spyre.fallback(mode):
        assert x.to("spyre").nansum().item() == x.sum()
        assert torch.sum(x.to("spyre"), 0, out=out).item() == x.sum()


def test_sums_of_rows_are_looked_at_row_by_row() -> None:
    """All elements together would leave 32 bits."""
    x = torch.full((4, 3), 2**29)
    for dims in (1, (1,), -1):
        with torch_spyre.fallback("error"):
            assert torch.equal(x.to("spyre").sum(dims).cpu(), x.sum(dims))
            compiled = torch.compile(lambda x, dims=dims: x.sum(dims))
            assert torch.equal(compiled(x.to("spyre")).cpu(), x.sum(dims))
    with torch_spyre.fallback("warn"), pytest.warns(torch_spyre.FallbackWarning, match="32"):
        assert torch.equal(x.to("spyre").sum(0).cpu(), x.sum(0))


def test_sums_of_bools_that_became_integers_are_the_cards() -> None:
    """~r * 1 is an int64 of no int64, which is 0 or 1."""

    def either(places: torch.Tensor) -> torch.Tensor:
        first = places == 0
        return first + ~first * 1

    torch._dynamo.reset()
    places = torch.arange(24) % 5
    assert torch.equal(torch.compile(either)(places.to("spyre")).cpu(), either(places))
