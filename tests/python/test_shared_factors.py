# SPDX-License-Identifier: Apache-2.0
"""Products of batches that share a factor in parts, against float32 on the CPU."""

import pytest
import torch
import torch_spyre

# Batches of both factors.
BATCHES = {
    "inner": ((3, 5), (5,)),
    "outer": ((3, 5), (3, 1)),
    "between": ((2, 3, 5), (2, 1, 5)),
    "of the first": ((5,), (2, 3, 5)),
    "of both": ((3, 1), (1, 5)),
    "all": ((4, 2), ()),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows, depth, columns", [(7, 64, 70), (1, 36, 28), (33, 3, 5)])
@pytest.mark.parametrize("name", BATCHES)
def test_products(name, rows, depth, columns, turned):
    torch._dynamo.reset()
    first, second = BATCHES[name]
    x = torch.randn(*first, rows, depth).half()
    y = torch.randn(*second, columns, depth).half().mT
    y = y if turned else y.contiguous()
    expected = x.float() @ y.float()
    with torch_spyre.fallback("error"):
        for form in (torch.matmul, torch.compile(torch.matmul, dynamic=False)):
            actual = form(x.to("spyre"), y.to("spyre")).cpu().float()
            torch.testing.assert_close(actual, expected, atol=2e-2, rtol=2e-3)


def test_the_same_factor_twice_and_one_that_is_added():
    def products(x, y):
        wide = y.expand(3, *y.shape).contiguous()
        return x @ wide + wide.sum(-2, keepdim=True), wide @ wide.mT

    x, y = torch.randn(3, 5, 7, 16).half(), torch.randn(5, 16, 16).half()
    actual = torch.compile(products, dynamic=False)(x.to("spyre"), y.to("spyre"))
    for a, e in zip(actual, products(x.float(), y.float()), strict=True):
        torch.testing.assert_close(a.cpu().float(), e, atol=4e-2, rtol=4e-3)
