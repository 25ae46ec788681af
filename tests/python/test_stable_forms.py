# SPDX-License-Identifier: Apache-2.0
"""Formulas that cancel in 16 bits, or leave their range on the way to a result that does not."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre

SIXTEEN_BITS = [torch.float16, torch.bfloat16]


def relative_error(actual, expected, floor):
    actual, expected = actual.cpu().double(), expected.double()
    return ((actual - expected).abs() / (expected.abs() + floor)).max().item()


def run(function, compiled, *operands):
    torch._dynamo.reset()
    with torch_spyre.fallback("silent"):
        return (torch.compile(function) if compiled else function)(*operands)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
def test_ndtr_of_tails(dtype, compiled):
    x = torch.linspace(-4.5, 4.5, 200).to(dtype).to("spyre")
    result = run(torch.special.ndtr, compiled, x)
    assert result.dtype is dtype
    assert relative_error(result, torch.special.ndtr(x.cpu().double()), 1e-6) < 0.02


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [*SIXTEEN_BITS, torch.float32])
def test_ndtr_has_its_gradient(dtype, compiled):
    """PyTorch differentiates its parts: a decomposition in the place of these is differentiated."""
    x = torch.linspace(-2, 2, 9).to(dtype).to("spyre").requires_grad_()
    with torch_spyre.fallback("silent"):
        (gradient,) = torch.autograd.grad(run(torch.special.ndtr, compiled, x).sum(), x)
    density = (-0.5 * x.detach().cpu().double() ** 2).exp() / (2 * torch.pi) ** 0.5
    assert relative_error(gradient, density, 0) < 0.02


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
def test_soft_margin_loss_of_large_margins(dtype, reduction, compiled):
    x = torch.tensor([-9.0, 9.0, 0.5, -60.0, 3.0]).to(dtype)
    target = torch.tensor([9.0, 1.0, -1.0, 1.0, 1.0]).to(dtype)

    def loss_and_gradient(x, target):
        loss = F.soft_margin_loss(x, target, reduction=reduction)
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        return loss, gradient

    expected = loss_and_gradient(x.double().requires_grad_(), target.double())
    card = x.to("spyre").requires_grad_()
    loss = run(lambda x, y: F.soft_margin_loss(x, y, reduction=reduction), compiled, card,
               target.to("spyre"))  # fmt: skip
    with torch_spyre.fallback("silent"):
        (gradient,) = torch.autograd.grad(loss.sum(), card)
    assert relative_error(loss.detach(), expected[0].detach(), 1e-3) < 0.02
    assert relative_error(gradient, expected[1], 1e-3) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_casts_to_int64_are_exact(dtype):
    """Beyond 32 bits the card saturates; the host then computes the graph anew."""
    torch._dynamo.reset()

    def function(x, state):
        state.add_(1)
        return (x * 1).long(), (x * 1).floor().to(torch.int64)

    compiled = torch.compile(function)
    for values in ([1.5, -7.9, 20000.0], [4e9, 3.0, -8e9], [2.0, 1.0, 0.0], [2.0**31, -1.0, 0.0]):
        state = torch.zeros(2, dtype=dtype).to("spyre")
        x = torch.tensor(values).to(dtype).to("spyre")
        with torch_spyre.fallback("silent"):
            results = compiled(x, state)
        expected = function(x.cpu(), torch.zeros(2, dtype=dtype))
        for result, wanted in zip(results, expected, strict=True):
            assert result.dtype is torch.int64 and result.cpu().tolist() == wanted.tolist()
        assert state.cpu().tolist() == [1, 1]  # written once


def test_a_saturating_cast_is_a_fallback():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x * 1).long())
    with torch_spyre.fallback("error"):
        compiled(torch.tensor([1.0, -2e9]).to("spyre"))
        with pytest.raises(torch_spyre.FallbackError, match="leave 32 bits"):
            compiled(torch.tensor([1.0, -2.2e9]).to("spyre"))
