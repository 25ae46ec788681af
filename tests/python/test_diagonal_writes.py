# SPDX-License-Identifier: Apache-2.0
"""Diagonals of any pair of dims that are written, compiled and eagerly, as views and as copies."""

import pytest
import torch
import torch_spyre

SIZES = {
    (5, 7): (0, 1),
    (70, 5): (1, 0),
    (3, 64, 64): (1, 2),
    (2, 65, 3, 70): (1, 3),
    (4, 3, 130): (2, 0),
    (1, 9): (0, 1),
}
OFFSETS = (-20, -4, -1, 0, 2, 6)


def numbers(dtype, shape):
    return torch.randint(0, 2 if dtype is torch.bool else 9, shape).to(dtype)


def write(x, source, *place):
    x.diagonal(*place).copy_(source)
    return x


def forms(function):
    torch._dynamo.reset()
    return function, torch.compile(function, dynamic=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_diagonals_are_written(sizes, dtype):
    for offset in OFFSETS:
        x, place = numbers(dtype, sizes), (offset, *SIZES[sizes])
        source = numbers(dtype, x.diagonal(*place).shape)
        expected = torch.diagonal_scatter(x, source, *place)
        with torch_spyre.fallback("error"):
            result = torch.diagonal_scatter(x.to("spyre"), source.to("spyre"), *place)
        assert result.stride() == expected.stride()
        assert torch.equal(result.cpu(), expected)


def test_diagonals_of_views_are_written():
    for offset in (-3, 0, 1):
        x = numbers(torch.float16, (66, 70))
        source = numbers(torch.float16, x.diagonal(offset).shape)
        expected = write(x.clone(), source, offset)
        for form in forms(lambda x, y, offset=offset: write(x, y, offset)):
            given = x.to("spyre")
            assert torch.equal(form(given, source.to("spyre")).cpu(), expected)
            assert torch.equal(given.cpu(), expected)
