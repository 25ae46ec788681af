# SPDX-License-Identifier: Apache-2.0
"""Gradients of nll_loss and cross_entropy on the card, beside float64 on the CPU."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch.utils._python_dispatch import TorchDispatchMode
from torch_spyre.compile import decomposition_table

SHAPES = {"rows": (6, 70), "image": (2, 5, 3, 4), "one": (9,), "one class": (3, 1)}
HOW = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "ignored": {"ignore_index": 0},
    "ignored beyond": {"ignore_index": -7},
    "weights": {"weight": True},
    "weights none": {"weight": True, "reduction": "none", "ignore_index": 1},
}


def gradient(loss, x):
    x = x.detach().requires_grad_()
    result = loss(x)
    (result * torch.arange(1, result.numel() + 1).reshape(result.shape).to(result)).sum().backward()
    return x.grad


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_of_nll_loss(shape, how, dtype, compiled):
    torch.manual_seed(0)
    torch._dynamo.reset()
    sizes, options = SHAPES[shape], dict(HOW[how])
    classes = sizes[1] if len(sizes) > 1 else sizes[0]
    target = torch.randint(classes, sizes[:1] + sizes[2:] if len(sizes) > 1 else ())
    if how == "ignored beyond" and target.dim():
        target.view(-1)[0] = -7
    weight = torch.linspace(0.5, 1.5, classes)

    def loss(x):
        if "weight" in options:
            options["weight"] = weight.to(x)
        return F.nll_loss(x, target.to(x.device), **options)

    x = torch.randn(sizes).to(dtype)
    with torch_spyre.fallback("error"):
        found = gradient(torch.compile(loss) if compiled else loss, x.to("spyre"))
    wanted = gradient(loss, x.double())
    assert found.stride() == wanted.stride()
    unit = {torch.float32: 2.0**-22, torch.float16: 2.0**-8, torch.bfloat16: 2.0**-6}[dtype]
    torch.testing.assert_close(found.cpu().double(), wanted, rtol=unit, atol=unit, equal_nan=True)


def test_gradient_of_cross_entropy_is_read_and_written_once():
    torch._dynamo.reset()
    x = torch.randn(512, 1024).half().to("spyre").requires_grad_()
    target = torch.randint(1024, (512,)).to("spyre")
    torch.compile(F.cross_entropy)(x, target).backward()
    assert torch_spyre.last_report().bytes < 2.1 * x.numel() * 2


class Called(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.names.add(op.overloadpacket.__name__)
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("alone", [False, True])
def test_calls_alone_write_gradients_into_zeros(alone):
    call = decomposition_table.table(alone)[torch.ops.aten.nll_loss_backward.default]
    with Called() as called:
        given = torch.ones(()), torch.randn(4, 10), torch.tensor([1, 2, 0, 3]), torch.tensor(4.0)
        grad, x, target, total = (tensor.to("spyre") for tensor in given)
        call(grad, x, target, None, 1, -100, total)
    assert ("scatter" in called.names) == alone


@pytest.mark.parametrize("compiled", [False, True])
def test_no_class(compiled):
    torch._dynamo.reset()
    x = torch.randn(4, 10).half().to("spyre").requires_grad_()
    target = torch.tensor([1, 2, 10, 3]).to("spyre")
    loss = torch.compile(F.cross_entropy) if compiled else F.cross_entropy
    with pytest.raises((IndexError, RuntimeError), match="10"):
        loss(x, target).backward()
        torch.spyre.synchronize()
