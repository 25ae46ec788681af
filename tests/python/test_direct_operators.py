# SPDX-License-Identifier: Apache-2.0
"""Operators that PyTorch would compose for a device: each is one program, whose result lies as it
comes, not in an allocation of the default layout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_spyre._pytorch.dispatch import is_composed_of_out
from torch_spyre.compile import decomposition_table
from torch_spyre.eager import operator_program
from torch_spyre.eager.kernel_registration import direct_operators

_aten = torch.ops.aten


def _made() -> Tensor:
    """Of a convolution: 64 channels fill a stick, rows of 12 would not."""
    x, weight = torch.randn(2, 64, 12, 12), torch.randn(64, 64, 3, 3) / 24
    return F.conv2d(x.half().to("spyre"), weight.half().to("spyre"), padding=1)


def _stick(x: Tensor) -> int:
    """The stride of the dim that runs along the sticks."""
    return int(x.device_tensor_layout().stride_map[-1])


def test_what_pytorch_would_make_of_an_allocation_has_a_kernel() -> None:
    torch.zeros(1, device="spyre")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    composed = [
        op
        for op in decomposition_table.table()
        if isinstance(op, torch._ops.OpOverload)
        and op.namespace == "aten"
        and is_composed_of_out(op)
        and not op.overloadpacket.__name__.endswith("_copy")
        and op.overloadpacket not in (_aten.copy, _aten.new_empty_strided, _aten.as_strided_scatter)
    ]
    assert len(composed) > 80
    assert [str(op) for op in composed if not has_kernel(op.name(), "PrivateUse1")] == []


def test_names_are_given_once() -> None:
    names = [name for name, _op in direct_operators()]
    assert len(names) == len(set(names)) and "gelu_backward" in names and "relu" in names


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.pad(x, (1, 2, 3, 1), mode="replicate"),
        lambda x: F.pad(x, (1, 2, 3, 1), mode="reflect"),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: _aten.gelu_backward(x, x),
        lambda x: _aten.silu_backward(x, x),
        lambda x: _aten.threshold_backward(x, x, 0.5),
    ],
    ids=["nearest", "replicate", "reflect", "pool", "gelu", "silu", "relu"],
)
def test_results_lie_as_what_they_are_made_of(function) -> None:
    x = _made()
    assert _stick(x) == x.stride(1)
    y = function(x)
    assert _stick(y) == y.stride(1)
    wanted = function(x.cpu().float())
    torch.testing.assert_close(y.cpu().float(), wanted, rtol=4e-3, atol=4e-3)


def test_a_gradient_of_layer_norm_is_one_program() -> None:
    x = torch.randn(6, 96, dtype=torch.float16, device="spyre").requires_grad_()
    weight = torch.randn(96, dtype=torch.float16, device="spyre").requires_grad_()
    y = F.layer_norm(x, (96,), weight)
    y.backward(torch.ones_like(y))
    operator = operator_program.operator_of(_aten.native_layer_norm_backward.default)
    x2 = x.detach()
    _y, mean, rstd = _aten.native_layer_norm(x2, [96], weight.detach(), None, 1e-5)
    arguments = (x2, x2, [96], mean, rstd, weight.detach(), None, [True, True, False])
    program, _tensors, reason = operator.find(arguments, {})
    assert isinstance(program, operator_program.OperatorProgram), reason


def test_a_convolution_of_one_channel_is_taken_apart_as_compiled() -> None:
    x = torch.randn(1, 1, 40, 40, dtype=torch.float16, device="spyre")
    weight = torch.randn(1, 1, 3, 3, dtype=torch.float16, device="spyre")
    none = [0, 0]
    arguments = (x, weight, None, [1, 1], [1, 1], [1, 1], False, none, 1)
    operator = operator_program.operator_of(_aten.convolution.default)
    program, _tensors, reason = operator.find(arguments, {})
    assert isinstance(program, operator_program.OperatorProgram), reason
    assert program.of_parts
    wanted = F.conv2d(x.cpu().float(), weight.cpu().float(), padding=1)
    torch.testing.assert_close(
        F.conv2d(x, weight, padding=1).cpu().float(), wanted, rtol=4e-3, atol=8e-3
    )


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (1, 2)])
def test_gradients_of_depthwise_weights(multiplier: int, stride: int, dilation: int) -> None:
    x, weight = torch.randn(2, 6, 11, 11), torch.randn(6 * multiplier, 1, 3, 3)

    def function(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(x, weight, stride=stride, padding=1, dilation=dilation, groups=6)

    wide = weight.clone().requires_grad_()
    y = function(x, wide)
    grad = torch.randn_like(y)
    y.backward(grad)
    assert wide.grad is not None
    for compiled in (False, True):
        own = weight.half().to("spyre").requires_grad_()
        f = torch.compile(function, dynamic=False) if compiled else function
        f(x.half().to("spyre"), own).backward(grad.half().to("spyre"))
        assert own.grad is not None
        difference = (own.grad.cpu().float() - wide.grad).norm() / wide.grad.norm()
        assert difference < 4e-3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: _aten.gelu_backward(x, x),
        lambda x: F.conv_transpose2d(x, x[:1].repeat(8, 1, 1, 1)[:, :3, :3, :3], stride=2),
        lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"),
        lambda x: F.pad(x, (1, 2, 1, 0), mode="replicate"),
        lambda x: _aten.reflection_pad2d_backward(F.pad(x, (1, 1, 1, 1)), x, [1, 1, 1, 1]),
        lambda x: F.pixel_shuffle(x, 2),
        lambda x: F.batch_norm(x, None, None, training=True),
    ],
    ids=[
        "max pool",
        "nearest",
        "pool",
        "gelu",
        "transposed convolution",
        "reflect",
        "replicate",
        "gradient of reflect",
        "shuffle",
        "batch norm",
    ],
)
def test_strides_are_pytorchs(function) -> None:  # of images in channels_last
    x = torch.randn(2, 8, 6, 6).half().contiguous(memory_format=torch.channels_last)
    assert function(x.to("spyre")).stride() == function(x).stride()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, grad: F.batch_norm(x, None, None, training=True),
        lambda x, grad: _aten._log_softmax_backward_data(grad, x, 1, torch.float16),
        lambda x, grad: _aten._log_softmax_backward_data(x, x, 1, torch.float16),
        lambda x, grad: _aten.hardsigmoid_backward(grad, x),
        lambda x, grad: _aten.hardsigmoid_backward(x, grad),
        lambda x, grad: _aten.elu_backward(grad, 1.0, 1.0, 1.0, False, x),
        lambda x, grad: _aten.softplus_backward(grad, x, 1.0, 20.0),
        lambda x, grad: F.logsigmoid(x),
    ],
    ids=["batch norm", "log_softmax", "log_softmax of turned", "hardsigmoid",
         "hardsigmoid of turned", "elu", "softplus", "logsigmoid"],
)  # fmt: skip
def test_strides_of_turned_operands_are_pytorchs(function) -> None:
    x, grad = torch.randn(4, 10, 6).half().transpose(1, 2), torch.randn(4, 6, 10).half()
    wanted = function(x, grad)
    y = function(x.to("spyre"), grad.to("spyre"))
    assert y.stride() == wanted.stride()
    torch.testing.assert_close(y.cpu().float(), wanted.float(), rtol=8e-3, atol=8e-3)


def test_a_scatter_by_places_in_memory_keeps_what_lies_between() -> None:
    source = torch.full((2, 2), -1)
    for x in (torch.arange(48).view(6, 8)[1:4, 1:7:2], torch.arange(12).view(3, 4).t()):
        there = torch.arange(48).to("spyre") if x.shape == (3, 3) else torch.arange(12).to("spyre")
        there = there.as_strided(x.shape, x.stride(), x.storage_offset())
        wanted = torch.as_strided_scatter(x, source, (2, 2), (4, 2), 3)
        y = torch.as_strided_scatter(there, source.to("spyre"), (2, 2), (4, 2), 3)
        assert y.stride() == wanted.stride() and torch.equal(y.cpu(), wanted)
