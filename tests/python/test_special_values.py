# SPDX-License-Identifier: Apache-2.0
"""The table of docs/special-values.md, row by row: what operators make of infinities, zeros and
NaN, in each format, eager and compiled."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre

PAGE = Path(__file__).parents[2] / "docs/special-values.md"


def rows():
    """(expression of x and y, their values, results in 16 bits, in float32, on the CPU)."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 6:
            yield cells[0].strip("`"), *map(numbers, cells[1:])


def numbers(cell):
    return [float(word) for word in cell.split()]


ROWS = list(rows())


def evaluate(dtype, device, compiled):
    operands = [
        [torch.tensor(values, dtype=dtype).to(device) for values in row[1:3]] for row in ROWS
    ]

    def all_rows(operands):
        names = {"torch": torch, "F": F, "math": math}
        return [
            eval(row[0], names, dict(zip("xy", values, strict=True)))
            for row, values in zip(ROWS, operands, strict=True)
        ]

    function = torch.compile(all_rows) if compiled else all_rows
    with torch_spyre.fallback("silent"):
        return [result.cpu().flatten().tolist() for result in function(operands)]


def same(actual, expected):
    def equal(a, b):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or a != a and b != b

    return len(actual) == len(expected) and all(map(equal, map(float, actual), expected))


def of_other_vectors(row):
    """The page has PyTorch's answers with AVX-512: with AVX2, gelu(inf) is another."""
    return row[0] == "F.gelu(x)" and torch.backends.cpu.get_cpu_capability() != "AVX512"


def check(dtype, device, column, compiled=False):
    found = evaluate(dtype, device, compiled)
    of_pytorch = dtype == torch.float32
    wrong = [
        f"{row[0]} of {row[1]} {row[2]}: {actual}, the page says {row[column]}"
        for row, actual in zip(ROWS, found, strict=True)
        if not same(actual, row[column]) and not (of_pytorch and of_other_vectors(row))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_page_has_rows():
    assert len(ROWS) > 60
    assert len({row[0] for row in ROWS}) > 40


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits(dtype, compiled):
    check(dtype, "spyre", 3, compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_float32(compiled):
    check(torch.float32, "spyre", 4, compiled)


def test_cpu():
    """The last column is PyTorch's."""
    check(torch.float32, "cpu", 5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_nan_is_positive_infinity(dtype):
    """Products, sums and casts of whole sticks, of several rows, behind other operators: the one
    rule, whatever sign the host's arithmetic gives its NaN."""
    infinity = float("inf")
    x = torch.full((3, 130), infinity, dtype=dtype)
    x[:, ::2] = -infinity
    y = torch.full((130, 70), infinity, dtype=dtype)
    nans = torch.full((3, 130), -float("nan")).view(torch.int32) | -(2**31)  # the sign set
    card, other = x.to("spyre"), y.to("spyre")
    for result in (
        card.sum(1),
        card.mean(0),
        card @ other,
        (card @ other) + 1,
        F.linear(card, other.t()),
        card - card,
        card * 0,
        nans.view(torch.float32).to("spyre").to(dtype),
        (nans.view(torch.float32).to("spyre") * 1).to(dtype),
    ):
        expected = torch.full(result.shape, infinity, dtype=dtype)
        if result.shape == (130,):  # means of equal infinities
            expected = x[0]
        torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)
