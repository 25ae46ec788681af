# SPDX-License-Identifier: Apache-2.0
"""Margin losses and their gradients on the card, beside float64 on the CPU."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

# What stands behind the first -1 of a row does not count; a class may be listed twice.
LISTED = torch.tensor(
    [[3, 0, -1, 1, 2], [1, -1, 0, 0, 0], [4, 3, 2, 1, 0], [-1, 1, 1, 1, 1], [2, 2, 0, -1, 3]]
)
WANTED = torch.tensor([0, 4, 3, 3, 1])

LOSSES = {
    "multilabel_margin_loss": lambda x, **how: F.multilabel_margin_loss(
        x, LISTED.to(x.device), **how
    ),
    "multi_margin_loss": lambda x, **how: F.multi_margin_loss(
        x, WANTED.to(x.device), margin=0.7, **how
    ),
    "multi_margin_loss of weights": lambda x, **how: F.multi_margin_loss(
        x, WANTED.to(x.device), weight=torch.linspace(0.5, 1.5, 5).to(x), **how
    ),
    "one row": lambda x, **how: F.multilabel_margin_loss(x[4], LISTED[4].to(x.device), **how),
}


def loss_and_gradient(loss, x):
    x = x.detach().requires_grad_()
    result = loss(x)
    result.sum().backward()
    return result.detach().cpu().double(), x.grad.cpu().double()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_margin_losses(name, reduction, dtype, compiled):
    torch.manual_seed(0)
    torch._dynamo.reset()

    def loss(x):
        return LOSSES[name](x, reduction=reduction)

    x = torch.randn(5, 5).to(dtype).to("spyre")
    with torch_spyre.fallback("error"):
        found = loss_and_gradient(torch.compile(loss) if compiled else loss, x)
    wanted = loss_and_gradient(loss, x.float().cpu().double())
    unit = {torch.float32: 2.0**-22, torch.float16: 2.0**-8, torch.bfloat16: 2.0**-6}[dtype]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=unit, atol=unit)
