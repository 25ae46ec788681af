# SPDX-License-Identifier: Apache-2.0
"""What a compiled forward pass keeps for the backward pass, and that what is computed anew there
gives the same gradients."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch_spyre._pytorch import kept_for_backward
from torch_spyre.compile import backend


def _wide_norm(x):
    wide = x if x.dtype is torch.float64 else x.float()
    return wide * torch.rsqrt(wide.pow(2).mean(-1, True) + 1e-3)


STEPS = {
    "silu": F.silu,
    "exp": lambda x: (x * 0.25).exp(),
    "square": lambda x: x * x * 0.5,
    "wide norm": lambda x: _wide_norm(x).to(x.dtype),
    "softmax": lambda x: x.softmax(-1) * 4,
    "mask": lambda x: torch.where(x > 0.1, x, x * 0.5),
    "relu": lambda x: x.relu() + 0.25,
    "rows": lambda x: x - x.mean(-1, True),
    "product": lambda x: x @ x.transpose(-1, -2) @ x * 0.03,
    "largest": lambda x: x - x.amax(-1, True),
    "turned": lambda x: torch.cat([x[..., 3:], x[..., :3]], -1),
}


def _gradients(function, x, split=None):
    """The result and the gradient, with forward and backward pass split in a way of our own."""
    torch._dynamo.reset()
    leaf = x.clone().requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        if split:
            patch.setattr(backend, "_split_passes", split)
        result = torch.compile(function)(leaf)
        result.pow(2).mean().backward()
    return result.detach().cpu().double(), leaf.grad.cpu().double()


def _exact(function, x):
    leaf = x.cpu().double().requires_grad_()
    result = function(leaf)
    result.pow(2).mean().backward()
    return result.detach(), leaf.grad


@pytest.mark.parametrize("trials", [8, pytest.param(200, marks=pytest.mark.long)])
def test_random_chains(trials):
    """As near to double precision as with everything kept. Bits differ: what the passes have in
    common decides which spellings are one operator, which rounds once."""
    r = torch.Generator().manual_seed(trials)
    pick = lambda of: of[int(torch.randint(len(of), (), generator=r))]  # noqa: E731
    for _ in range(trials):
        names = [pick(list(STEPS)) for _ in range(int(torch.randint(1, 6, (), generator=r)))]
        sizes = (pick([1, 2, 3]), pick([1, 5, 64]), pick([7, 64, 65, 130]))

        def function(x, names=names):
            for name in names:
                x = STEPS[name](x)
            return x

        dtype = pick([torch.float16, torch.bfloat16])
        x = torch.randn(sizes, generator=r).to(dtype).to("spyre")
        found, kept = _gradients(function, x), _gradients(function, x, kept_for_backward.keep_all)
        for ours, theirs, exact in zip(found, kept, _exact(function, x), strict=True):
            off, near = ((given - exact).abs().max() for given in (ours, theirs))
            limit = 2 * near + 0.004 * exact.abs().max() + 1e-6
            assert off <= limit, (names, sizes, dtype, off, near)


def _bytes(function, x, split=None):
    torch_spyre.report.reports.clear()
    _gradients(function, x.to("spyre"), split)
    return sum(report.bytes for report in torch_spyre.compile_reports())


MUCH_KEPT = {
    "wide norm": (STEPS["wide norm"], 0.7),
    "mask": (lambda x: torch.where(x > 0, x * 2, x), 1),
    "binary cross entropy": (lambda x: F.binary_cross_entropy(x.sigmoid(), x.sigmoid()), 0.8),
    "largest": (STEPS["largest"], 1),
    "leaky": (lambda x: F.leaky_relu(x, 0.1), 1),
}


@pytest.mark.parametrize("name", MUCH_KEPT)
def test_fewer_bytes(name):
    function, share = MUCH_KEPT[name]
    x = torch.randn(256, 512).half()
    assert _bytes(function, x) <= share * _bytes(function, x, kept_for_backward.keep_all)


def test_the_host_computes_nothing_anew(monkeypatch):
    kept = []
    keep_all = kept_for_backward.keep_all
    monkeypatch.setattr(kept_for_backward, "keep_all", lambda *a, **k: (
        kept.append(1), keep_all(*a, **k))[1])  # fmt: skip
    torch._dynamo.reset()
    with torch_spyre.fallback("silent"):
        x = torch.randn(8, 8, device="spyre", requires_grad=True)
        torch.compile(lambda x: (x.erf() @ x).sum())(x).backward()
    assert kept
