# SPDX-License-Identifier: Apache-2.0
"""Products of int8: exact sums in int32, on the card."""

import pytest
import torch
import torch_spyre


def numbers(*sizes):
    return torch.randint(-128, 128, sizes, dtype=torch.int8)


SIZES = [(1, 128, 64), (17, 200, 70), (64, 1024, 256), (5, 7, 3)]


@pytest.mark.parametrize("m,k,n", SIZES, ids=str)
@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "compiled"))
def test_int_mm_is_exact(compiled, m, k, n):
    torch._dynamo.reset()
    x, y = numbers(m, k), numbers(k, n)
    x[0], y[:, 0] = -128, -128
    function = torch.compile(torch._int_mm, dynamic=False) if compiled else torch._int_mm
    with torch_spyre.config.patch(fallback="error"):
        result = function(x.to("spyre"), y.to("spyre"))
    assert result.dtype is torch.int32
    assert torch.equal(result.cpu(), x.int() @ y.int())


def test_a_transposed_factor_and_scales_behind_it():
    torch._dynamo.reset()
    x, weight = numbers(9, 130), numbers(66, 130)

    def quantised_linear(x, weight, scale):
        return torch._int_mm(x, weight.t()).float() * scale

    scale = torch.tensor(0.25)
    expected = quantised_linear(x, weight, scale)
    moved = [t.to("spyre") for t in (x, weight, scale)]
    actual = torch.compile(quantised_linear, dynamic=False)(*moved)
    assert torch_spyre.last_report().nodes_on_host == 0
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "compiled"))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.host("aten.mm", "aten.linear", "aten.bmm", "aten.addmm")
def test_products_of_int8_wrap(compiled):
    """A product that stays int8."""
    torch._dynamo.reset()
    x, y = numbers(2, 7, 70), numbers(5, 70)

    def function(x, y):
        return x[0] @ y.t(), torch.nn.functional.linear(x, y), torch.addmm(x[0, :, :5], x[0], y.t())

    given = torch.compile(function) if compiled else function
    for actual, expected in zip(given(x.to("spyre"), y.to("spyre")), function(x, y), strict=True):
        assert actual.dtype is torch.int8 and torch.equal(actual.cpu(), expected)
