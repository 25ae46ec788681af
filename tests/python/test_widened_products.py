# SPDX-License-Identifier: Apache-2.0
"""Products of float32 tensors that hold numbers of 16 bits: the card multiplies these, and the sums
are those of float32."""

import pytest
import torch
import torch_spyre
from inputs import half, numbers

SHAPES = [
    ((2, 4, 24, 32), (2, 4, 24, 32)),
    ((1, 16, 1, 64), (1, 16, 200, 64)),
    ((8, 1, 80), (8, 1, 80)),
    ((2, 4, 24, 80), (2, 4, 1, 80)),
    ((40, 64), (70, 64)),
]


def scores(q, k):
    return torch.matmul(q.float(), k.float().transpose(-1, -2))


def as_defined(x, y):
    """acc = fma(a, b, acc) in float32, with k ascending."""
    total = torch.zeros(*x.shape[:-1], y.shape[-1], dtype=torch.float64)
    for k in range(x.shape[-1]):
        total = (x[..., k, None].double() * y[..., k, None, :].double() + total).float().double()
    return total.float()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("left, right", SHAPES)
def test_sums_are_those_of_float32(left, right, compiled):
    torch._dynamo.reset()
    q, k = half(*left).to("spyre"), half(*right).to("spyre")
    with torch_spyre.fallback("error"):
        actual = (torch.compile(scores) if compiled else scores)(q, k).cpu()
    expected = as_defined(q.cpu().float(), k.cpu().float().transpose(-1, -2))
    assert actual.dtype is torch.float32
    assert torch.equal(actual, expected)


def test_biases_and_linear():
    x, w = half(5, 70).to("spyre"), half(9, 70).to("spyre")
    bias = torch.randn(9)
    with torch_spyre.fallback("error"):
        added = torch.addmm(bias.to("spyre"), x.float(), w.float().t()).cpu()
        linear = torch.nn.functional.linear(x.float(), w.float()).cpu()
    product = as_defined(x.cpu().float(), w.cpu().float().t())
    torch.testing.assert_close(added, product + bias, rtol=1e-6, atol=1e-6)
    assert torch.equal(linear, product)


def test_numbers_of_float32_are_not_narrowed():
    """What is written into a widened tensor, and what is computed of one, has more bits."""
    fine = 1 + torch.arange(64 * 64).reshape(64, 64) * 2.0**-20
    for change in (lambda x: x.copy_(fine.to("spyre")), lambda x: x.mul_(1 + 2.0**-20),
                   lambda x: x[:, 3:].add_(2.0**-20), lambda x: x.fill_(1 + 2.0**-20)):  # fmt: skip
        x = numbers(64, 64).to("spyre").float()
        y = numbers(64, 64).to("spyre").float()
        torch.mm(x, y)  # a program of widened ones is known
        change(x)
        with torch_spyre.fallback("silent"):
            product = torch.mm(x, y).cpu()
        torch.testing.assert_close(product, x.cpu() @ y.cpu(), rtol=1e-6, atol=1e-5)


def test_float32_is_the_hosts_otherwise():
    x = torch.randn(8, 64).to("spyre")
    for function in (lambda x: x @ x.t(), lambda x: (x.half().float() * 1.5) @ x.t()):
        torch._dynamo.reset()
        with torch_spyre.fallback("error"), pytest.raises(torch_spyre.FallbackError):
            torch.compile(function)(x)
    with torch_spyre.fallback("error"), pytest.raises(torch_spyre.FallbackError):
        torch.mm(x, x.half().float().t())
