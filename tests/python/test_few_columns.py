# SPDX-License-Identifier: Apache-2.0
"""Products of one column, of rows of a few elements, and of columns by rows: products of elements
and sums in float32."""

import pytest
import torch
import torch_spyre
from inputs import half

CASES = {  # operands' sizes; whether whole sticks of columns are still multiplied
    "matrix by vector": ((70, 300), (300,), False),
    "vector by vector": ((300,), (300,), False),
    "one column": ((70, 300), (300, 1), False),
    "batches of one column": ((5, 7, 65), (5, 65, 1), False),
    "one column for all batches": ((5, 7, 65), (65, 1), False),
    "short rows": ((500, 3), (3, 3), False),
    "small matrices": ((66, 4, 4), (66, 4, 4), False),
    "small matrices by one": ((66, 4, 4), (4, 3), False),
    "batches broadcast": ((6, 1, 2, 8), (5, 8, 8), False),
    "column by row": ((70, 1), (1, 33), False),
    "batches of columns by rows": ((5, 70, 1), (5, 1, 33), False),
    "more than a few": ((70, 300), (300, 2), True),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_products(name, dtype):
    left, right, multiplies = CASES[name]
    x, y = half(*left).to(dtype), half(*right).to(dtype)
    torch._dynamo.reset()
    result = torch.compile(torch.matmul, dynamic=False)(x.to("spyre"), y.to("spyre"))
    assert result.dtype == dtype
    expected = torch.matmul(x.double(), y.double())
    tolerance = 0.01 * max(1.0, expected.abs().max().item())
    torch.testing.assert_close(result.cpu().double(), expected, atol=tolerance, rtol=0.01)
    assert (torch_spyre.last_report().macs > 0) == multiplies


@pytest.mark.parametrize("name", ["one column", "small matrices", "column by row"])
def test_gradients(name):
    left, right, _ = CASES[name]
    x, y = half(*left), half(*right)
    wide = [t.double().requires_grad_() for t in (x, y)]
    torch.matmul(*wide).square().sum().backward()
    card = [t.to("spyre").requires_grad_() for t in (x, y)]
    torch._dynamo.reset()
    torch.compile(torch.matmul, dynamic=False)(*card).square().sum().backward()
    for ours, exact in zip(card, wide, strict=True):
        tolerance = 0.01 * max(1.0, exact.grad.abs().max().item())
        torch.testing.assert_close(ours.grad.cpu().double(), exact.grad, atol=tolerance, rtol=0.02)


def test_a_sum_loses_nothing_between_its_terms():
    # 16 bits would lose every one of the small terms beside the large one.
    x = torch.tensor([[2048.0] + [0.5] * 512], dtype=torch.float16)
    y = torch.ones(513, 1, dtype=torch.float16)
    result = torch.compile(torch.matmul, dynamic=False)(x.to("spyre"), y.to("spyre"))
    assert result.item() == 2304
