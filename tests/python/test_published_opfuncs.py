# SPDX-License-Identifier: Apache-2.0
"""Functions of one element: an opfunc of our own each, unless only published ones are wanted."""

import pytest
import torch
import torch_spyre
from torch.nn import functional as F

ONE_KERNEL = {
    torch.sin: None, torch.cos: None, torch.tan: None, torch.asin: 0.9, torch.acos: 0.9,
    torch.atan: None, torch.sinh: None, torch.cosh: None, torch.asinh: None, torch.acosh: 1.5,
    torch.atanh: 0.9, torch.erf: None, torch.erfc: None, torch.exp2: None, torch.expm1: None,
    torch.log1p: 0.9, torch.log2: 1.5, torch.log10: 1.5, torch.ceil: None, torch.trunc: None,
    torch.round: None, torch.sign: None, F.hardsigmoid: None, F.hardswish: None,
}  # fmt: skip
DECOMPOSED = (torch.sin, torch.cos, torch.expm1, torch.ceil, torch.trunc, torch.sign, F.elu,
              F.hardsigmoid, F.hardswish)  # fmt: skip


def operand(function, dtype):
    """Values the card holds; around 2 where the function is not defined near 0."""
    x = torch.rand(67, 70) * 1.8 - 0.9
    x = x + 2 if ONE_KERNEL.get(function) == 1.5 else x
    return x.to(dtype).to("spyre").cpu()


def close(actual, expected):
    """Within a rounding to 9 bits of fraction, of bfloat16 then to 7."""
    unit = 2.0**-8 + 2.0**-10 if actual.dtype is torch.bfloat16 else 2.0**-10
    torch.testing.assert_close(actual.cpu().float(), expected, rtol=1.01 * unit, atol=2.0**-24)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("function", ONE_KERNEL, ids=lambda f: f.__name__)
def test_a_function_of_one_element_is_one_kernel(function, dtype):
    torch._dynamo.reset()
    x = operand(function, dtype)
    expected = function(x.float())
    close(function(x.to("spyre")), expected)
    close(torch.compile(function, dynamic=False)(x.to("spyre")), expected)
    assert torch_spyre.last_report().kernels == 1


@pytest.mark.parametrize("function", DECOMPOSED, ids=lambda f: f.__name__)
def test_published_opfuncs_alone(function):
    torch._dynamo.reset()
    x = operand(function, torch.float16)
    with torch_spyre.config.patch(published_opfuncs=True):
        actual = torch.compile(function, dynamic=False)(x.to("spyre")).cpu().float()
    report = torch_spyre.last_report()
    assert report.nodes_on_host == 0 and report.kernels > 1
    torch.testing.assert_close(actual, function(x.float()), rtol=0.005, atol=0.001)


def test_what_only_an_own_opfunc_computes_is_refused_by_name():
    torch._dynamo.reset()
    x = torch.rand(3, 70).half().to("spyre")
    with torch_spyre.config.patch(published_opfuncs=True):
        with pytest.raises(torch_spyre.FallbackError, match="erf is no published opfunc"):
            torch.compile(torch.erf, dynamic=False)(x)
        with pytest.raises(torch_spyre.FallbackError, match="asinh is no published opfunc"):
            torch.asinh(x)


@pytest.mark.parametrize("beta", (1.0, 0.5, 3.25))
def test_softplus_of_any_beta(beta):
    x = (torch.randn(67, 70) * 9).half().to("spyre").cpu()
    close(F.softplus(x.to("spyre"), beta, 20.0), F.softplus(x.float(), beta, 20.0))
