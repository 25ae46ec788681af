# SPDX-License-Identifier: Apache-2.0
"""Eager operators without a row of the compiler: one program of PyTorch's decomposition."""

import pytest
import torch
import torch_spyre
from torch.nn import functional as F
from torch_spyre.compile.decompositions import recurrent
from torch_spyre.eager.operator_program import operator_of, programs

CASES = {
    "mse_loss": F.mse_loss,
    "mse_loss sum": lambda x, y: F.mse_loss(x, y, reduction="sum") / 64,
    "nan_to_num": lambda x, y: torch.nan_to_num(x + y),
    "nansum": lambda x, y: torch.nansum(x - y, dim=1),
    "std_mean": lambda x, y: torch.stack(torch.std_mean(x + y, dim=1)),
}


def pair():
    x, y = torch.rand(5, 130), torch.rand(5, 130)
    return x.half().to("spyre").cpu(), y.half().to("spyre").cpu()


@pytest.mark.parametrize("name", CASES)
def test_numbers(name):
    x, y = pair()
    actual = CASES[name](x.to("spyre"), y.to("spyre"))
    torch.testing.assert_close(
        actual.cpu().float(), CASES[name](x.float(), y.float()), rtol=4e-3, atol=1e-3
    )


def test_steps_with_a_factor_compiled():
    """Dynamo makes prims.fma of these, which optimizers without lists are."""

    def step(x, y):
        x = x * 1
        x.addcdiv_(y, y + 1, value=-0.5)
        return x.addcmul_(x, y, value=0.25)

    x, y = pair()
    torch._dynamo.reset()
    with torch_spyre.fallback("error"):
        actual = torch.compile(step)(x.to("spyre"), y.to("spyre"))
    torch.testing.assert_close(
        actual.cpu().float(), step(x.float(), y.float()), rtol=4e-3, atol=1e-3
    )


def test_one_program_a_call():
    x, y = (t.to("spyre") for t in pair())
    F.mse_loss(x, y)
    known = len(programs)
    program, reason = operator_of(torch.ops.aten.mse_loss.default).find((x, y), {})[::2]
    assert reason is None and program.launch.executable.segment_count() == 1
    F.mse_loss(y, x)
    assert len(programs) == known


@pytest.mark.parametrize("kind, gates", [("lstm", 4), ("gru", 3)])
def test_a_recurrent_cell_is_one_program(kind, gates):
    """PyTorch calls one in each step of a sequence; its gradient is that of its parts."""
    cell = getattr(torch.ops.aten, f"_thnn_fused_{kind}_cell").default
    host = [torch.randn(5, size).half() for size in (8 * gates, 8 * gates, 8)]
    card = [tensor.to("spyre") for tensor in host]
    program, reason = operator_of(cell).find(tuple(card), {})[::2]
    assert reason is None and program.launch.executable.segment_count() == 1
    parts = getattr(recurrent, f"{kind}_cell")
    for actual, expected in zip(cell(*card), parts(*(t.float() for t in host)), strict=True):
        torch.testing.assert_close(actual.cpu().float(), expected, rtol=4e-3, atol=2e-3)
    card[0].requires_grad_()
    assert cell(*card)[0].requires_grad


def test_out():
    x, y = pair()
    out = torch.empty(0, dtype=torch.float16, device="spyre")
    torch.nan_to_num(x.to("spyre"), out=out)
    torch.testing.assert_close(out.cpu(), torch.nan_to_num(x))


def test_a_loss_of_float32_is_made_of_what_the_card_has():
    x, y = (t.float().sigmoid() for t in pair())
    loss = F.binary_cross_entropy(x.to("spyre"), y.to("spyre"))
    torch.testing.assert_close(loss.cpu(), F.binary_cross_entropy(x, y), rtol=1e-5, atol=0)


def test_gradients_come_through():
    x, y = pair()
    leaf = x.to("spyre").requires_grad_()
    with torch_spyre.fallback("silent"):
        F.mse_loss(leaf, y.to("spyre")).backward()
    expected = 2 * (x.float() - y.float()) / x.numel()
    torch.testing.assert_close(leaf.grad.cpu().float(), expected, rtol=4e-3, atol=1e-5)


@pytest.mark.filterwarnings("error")
def test_warnings_as_errors_keep_programs():
    """PyTorch's tracer asks tensors inside a graph of autograd for their gradient, and warns."""
    leaf = torch.rand(3, 70).half().to("spyre").requires_grad_()
    inner = leaf * 2
    with torch.no_grad():
        assert torch.nansum(inner, dim=1).device.type == "spyre"
        assert F.mse_loss(inner, inner).item() == 0


def test_wrong_arguments_raise_as_on_the_cpu():
    x, y = pair()
    for wrong in (lambda x, y: F.mse_loss(x, y[:3, :7]), lambda x, y: torch.std_mean(x, dim=7)):
        with pytest.raises((RuntimeError, IndexError)) as expected:
            wrong(x, y)
        with pytest.raises(expected.type):
            wrong(x.to("spyre"), y.to("spyre"))
