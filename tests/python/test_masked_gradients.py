# SPDX-License-Identifier: Apache-2.0
"""Compiled gradients with a mask: what it leaves out is None, on the card and on the host."""

import itertools

import pytest
import torch
import torch_spyre
from inputs import numbers

_aten = torch.ops.aten
MASKS = [mask for mask in itertools.product([False, True], repeat=3) if any(mask)]
DTYPES = [torch.float16, torch.float32]


def convolution(mask, dtype):
    tensors = [numbers(*s, dtype=dtype) for s in ((2, 4, 7, 5), (2, 3, 9, 7), (4, 3, 3, 3))]
    how = [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask
    return lambda *xs: _aten.convolution_backward(*xs, *how), tensors


def layer_norm(mask, dtype):
    shapes = (3, 70), (3, 70), (3, 1), (3, 1), (70,), (70,)
    go, x, mean, scale, weight, bias = (numbers(*s, dtype=dtype) for s in shapes)

    def call(go, x, mean, scale, weight, bias):
        return _aten.native_layer_norm_backward(go, x, [70], mean, scale, weight, bias, mask)

    return call, [go, x, mean, scale, weight, bias]


def group_norm(mask, dtype):
    shapes = (2, 6, 35), (2, 6, 35), (2, 3), (2, 3), (6,)
    tensors = [numbers(*s, dtype=dtype) for s in shapes]
    return lambda *xs: _aten.native_group_norm_backward(*xs, 2, 6, 35, 3, mask), tensors


def batch_norm(mask, dtype):
    shapes = (2, 6, 35), (2, 6, 35), (6,), (6,), (6,), (6,), (6,)
    tensors = [numbers(*s, dtype=dtype) for s in shapes]
    tensors[4] = tensors[4].abs()
    return lambda *xs: _aten.native_batch_norm_backward(*xs, True, 1e-5, mask), tensors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gradient", [convolution, layer_norm, group_norm, batch_norm])
@pytest.mark.host(
    "aten.convolution_backward", "aten.native_layer_norm_backward",
    "aten.native_group_norm_backward", "aten.native_batch_norm_backward",
)  # fmt: skip
def test_masks(gradient, dtype):
    for mask in MASKS:
        call, tensors = gradient(mask, dtype)
        wide = [tensor.double() for tensor in tensors]
        expected = gradient(mask, torch.float64)[0](*wide)
        torch._dynamo.reset()
        actual = torch.compile(call)(*(tensor.to("spyre") for tensor in tensors))
        for kept, a, e in zip(mask, actual, expected, strict=True):
            if not kept:  # PyTorch's decomposition of batch_norm's leaves out no gradient of x
                assert a is None or gradient is batch_norm
                continue
            error = (a.cpu().double() - e).abs().max() / e.abs().max()
            assert a.dtype is dtype and error < (1e-2 if dtype is torch.float16 else 1e-4)


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_what_a_mask_has_taken_gets_its_gradient(is_compiled):
    """Of 6,000 places, whose running counts are summed in parts."""
    torch.manual_seed(1)
    mask, source = torch.rand(60, 100) < 0.4, torch.randint(-8, 9, (50, 80)).half()
    x, weights = torch.zeros(60, 100).half(), torch.randint(-8, 9, (60, 100)).half()
    function = lambda x, m, s, w: (x.masked_scatter(m, s) * w).sum()  # noqa: E731
    leaf, card = source.float().requires_grad_(), source.to("spyre").requires_grad_()
    function(x.float(), mask, leaf, weights.float()).backward()
    torch._dynamo.reset()
    with torch_spyre.fallback("error"):
        call = torch.compile(function) if is_compiled else function
        call(*(t.to("spyre") for t in (x, mask)), card, weights.to("spyre")).backward()
    assert torch.equal(card.grad.cpu().float(), leaf.grad)
