# SPDX-License-Identifier: Apache-2.0
"""Gradients of normalisations in 16 bits, whose kernels on the CPU differ in the dtypes of
statistics."""

import copy

import pytest
import torch

NORMS = {
    "group": lambda: torch.nn.GroupNorm(2, 8),
    "group, no weights": lambda: torch.nn.GroupNorm(2, 8, affine=False),
    "instance": lambda: torch.nn.InstanceNorm2d(8, affine=True),
    "batch": lambda: torch.nn.BatchNorm2d(8),
    "layer": lambda: torch.nn.LayerNorm([6, 6]),
}


@pytest.mark.host(
    "aten.native_group_norm_backward.default",
    "aten.native_batch_norm_backward.default",
    "aten.native_layer_norm.default",
    "aten.native_layer_norm_backward.default",
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NORMS)
def test_gradients(name, dtype, compiled):
    torch._dynamo.reset()
    reference = NORMS[name]()
    x = torch.randint(-16, 17, (4, 8, 6, 6)) / 16
    module = copy.deepcopy(reference).to(dtype).to("spyre")
    on_card = x.to(dtype).to("spyre").requires_grad_()
    x.requires_grad_()
    function = torch.compile(module) if compiled else module
    for each, given in ((reference, x), (function, on_card)):
        each(given).pow(3).mul(0.125).sum().backward()
    pairs = [(on_card.grad, x.grad)]
    for got, wanted in zip(module.parameters(), reference.parameters(), strict=True):
        pairs.append((got.grad, wanted.grad))
    for got, wanted in pairs:
        near = (0.02 if dtype == torch.float16 else 0.1) * wanted.abs().max().item() + 1e-3
        assert got.dtype == dtype
        torch.testing.assert_close(got.cpu().float(), wanted, atol=near, rtol=0)


@pytest.mark.host(
    "aten._batch_norm_with_update.default",
    "aten._batch_norm_with_update_functional.default",
    "aten.batch_norm_backward.default",
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_the_later_batch_norm(dtype):
    """Compiled, its statistics come as float32 from PyTorch's meta kernel."""
    torch._dynamo.reset()
    x = torch.randint(-16, 17, (4, 8, 6)).to(dtype) / 16

    def run(x, function):
        ones = torch.ones(8, dtype=dtype, device=x.device)
        state = torch.zeros_like(ones), torch.ones_like(ones)
        y = function(x.requires_grad_(), ones, ones, *state, 0.1, 1e-5)[0]
        return torch.autograd.grad(y.pow(3).mul(0.125).sum(), x)[0]

    operator = torch.ops.aten._batch_norm_with_update
    expected = run(x.clone(), operator).float()
    got = run(x.to("spyre"), torch.compile(lambda *args: operator(*args)))
    assert got.dtype == dtype
    torch.testing.assert_close(got.cpu().float(), expected, atol=0.05, rtol=0)
