# SPDX-License-Identifier: Apache-2.0
"""Fused optimizers and the gradient scaler, beside PyTorch's kernels for the CPU."""

import pytest
import torch

OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.1, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "adamw_amsgrad": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True, fused=True),
    "adam_up": lambda p: torch.optim.Adam(p, 1e-2, maximize=True, fused=True),
    "adam_tensor_rate": lambda p: torch.optim.Adam(p, torch.tensor(1e-2), fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 1e-2, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, weight_decay=0.1, fused=True),
    "nesterov": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2, lr_decay=0.1, fused=True),
}


def trained(make, device, dtype):
    """Parameters and states after four steps."""
    torch.manual_seed(0)
    shapes = ((5, 64), (70,), ())
    parameters = [torch.randn(shape).to(dtype).to(device).requires_grad_() for shape in shapes]
    optimizer = make(parameters)
    for _ in range(4):
        for p in parameters:
            p.grad = torch.randn(p.shape).to(dtype).to(device)
        optimizer.step()
    states = [s for p in parameters for s in optimizer.state[p].values() if s is not None]
    return [t.detach().float().cpu() for t in (*parameters, *states)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_as_on_the_cpu(name, dtype):
    if name in ("sgd", "momentum", "nesterov") and dtype is torch.float16:
        pytest.skip("the CPU's own kernel leaves vectors of 16 bits as they are")
    expected = trained(OPTIMIZERS[name], "cpu", dtype)
    found = trained(OPTIMIZERS[name], "spyre", dtype)
    loose = {"atol": 4e-3, "rtol": 4e-3} if dtype is torch.float16 else {"atol": 2e-6, "rtol": 2e-5}
    torch.testing.assert_close(found, expected, **loose)


def scaled(device, broken_at):
    """Parameters and scales of six steps, one of which has a gradient that is no number."""
    torch.manual_seed(1)
    weight = torch.randn(8, 64).to(device).requires_grad_()
    optimizer = torch.optim.AdamW([weight], 1e-2, fused=True)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    seen = []
    for step in range(6):
        x = torch.randn(4, 8).to(device)
        loss = (x.sum(0).unsqueeze(1) * weight).square().mean()
        if step == broken_at:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        seen.append(scaler.get_scale())
    return weight.detach().cpu(), seen


@pytest.mark.host("aten.reciprocal")  # of the scale, in float64
@pytest.mark.parametrize("broken_at", [2, 3])
def test_the_gradient_scaler(broken_at):
    expected, scales = scaled("cpu", broken_at)
    found, own = scaled("spyre", broken_at)
    assert own == scales
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
