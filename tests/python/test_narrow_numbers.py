# SPDX-License-Identifier: Apache-2.0
"""Numbers beside integers of 8 and 16 bits are what their dtype holds of them, modulo 2^bits, as in
PyTorch; where PyTorch refuses a number, the device does."""

import itertools

import pytest
import torch
import torch_spyre

NUMBERS = (-300, -129, -3, -1, 0, 1, 5, 127, 128, 255, 256, 300, 40000, 70000)
DTYPES = (torch.uint8, torch.int8, torch.int16)
OPERATORS = {
    "lt": lambda x, n: x < n,
    "ge": lambda x, n: x >= n,
    "eq": lambda x, n: x == n,
    "maximum": lambda x, n: torch.maximum(x, torch.tensor(n, device=x.device)),
    "minimum": lambda x, n: torch.minimum(x, torch.tensor(n, device=x.device)),
    "clamp": lambda x, n: x.clamp(n, 100),
    "clamp_min": lambda x, n: x.clamp_min(n),
    "clamp by tensor": lambda x, n: torch.clamp(x, max=torch.tensor(n, device=x.device)),
    "remainder": lambda x, n: x % n,
    "fmod": lambda x, n: torch.fmod(x, n),
    "floor_divide": lambda x, n: x // n,
    "truncated": lambda x, n: torch.div(x, n, rounding_mode="trunc"),
    "divides": lambda x, n: n // torch.where(x == 0, 1, x),
    "where": lambda x, n: torch.where(x > 5, x, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 5, n),
    "add": lambda x, n: x + n,
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "mul": lambda x, n: x * n,
    "rsub": lambda x, n: n - x,
    "fill": lambda x, n: x.clone().fill_(n),
    "full_like": torch.full_like,
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([1], device=x.device), n),
    "bits": lambda x, n: (x & n) ^ (x | n),
    "pad": lambda x, n: torch.nn.functional.pad(x, (1, 2), value=n),
    "float": lambda x, n: x < n + 0.5,
}


def result(function, x, number):
    """What the function gives, or None where it refuses the number."""
    try:
        return function(x, number)
    except (RuntimeError, OverflowError):
        return None


def pairs():
    return itertools.product(DTYPES, NUMBERS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_wrap(name):
    function = OPERATORS[name]
    for dtype, number in pairs():
        ends = torch.iinfo(dtype)
        x = torch.tensor([0, 1, 5, 100, 127, ends.min, ends.max], dtype=dtype)
        expected, actual = (result(function, t, number) for t in (x, x.to("spyre")))
        what = f"{name} of {dtype} and {number}: {actual}, not {expected}"
        assert (expected is None) == (actual is None), what
        if expected is not None:
            assert expected.dtype == actual.dtype and torch.equal(expected, actual.cpu()), what


@pytest.mark.parametrize("first, then", [(255, -3), (-3, 255)])
def test_numbers_are_refused_in_any_order(first, then):
    """A program made for a number that PyTorch takes is not given one that it refuses."""
    pad = torch.nn.functional.pad
    x = torch.tensor([1, 5], dtype=torch.uint8)
    for number in (first, then, first):
        expected, actual = (
            result(lambda t, n: pad(t, (2, 1), value=n), t, number) for t in (x, x.to("spyre"))
        )
        assert (expected is None) == (actual is None) == (number < 0), number
        assert expected is None or torch.equal(expected, actual.cpu())


def test_numbers_are_refused_where_sizes_grow():
    for size in range(3, 12):
        x = torch.ones(size, dtype=torch.uint8, device="spyre")
        assert torch.nn.functional.pad(x, (1, 2), value=255)[0].item() == 255
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.nn.functional.pad(x, (1, 2), value=-3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compiled_numbers_wrap(dtype):
    """But for a padding that PyTorch refuses, and divisors that are not known before."""
    torch._dynamo.reset()
    numbers = (-1, 1, 5, 127) if dtype is torch.uint8 else (-128, -1, 1, 127)
    x = torch.tensor([1, 5, 100, 127], dtype=dtype)

    functions = [f for name, f in OPERATORS.items() if name not in ("pad", "divides")]

    def every(x):
        return [f(x, n) for f, n in itertools.product(functions, numbers)]

    with torch_spyre.fallback("error"):
        actual = torch.compile(every)(x.to("spyre"))
    for found, expected in zip(actual, every(x), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found.cpu(), expected)
