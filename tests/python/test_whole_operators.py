# SPDX-License-Identifier: Apache-2.0
"""Operators that PyTorch traces in parts are nodes of the card's graphs, and of no others."""

import random

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from inputs import numbers
from torch_spyre.compile import whole_operators

aten = torch.ops.aten
KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
RESAMPLED = {1: ("nearest", "nearest-exact", "linear"),
             2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
             3: ("nearest", "nearest-exact", "trilinear")}  # fmt: skip
SHRUNK = {"hardshrink": F.hardshrink, "softshrink": F.softshrink}


def test_every_operator_that_the_device_takes():
    """A new version of PyTorch may trace more of them in parts."""
    kept = whole_operators.kernels()
    with whole_operators.kept():
        for op in whole_operators._overloads():
            function = kept.get(op)
            traced = {op.py_kernels.get(key) for key in KEYS} - {None}
            assert traced <= {function} or op in whole_operators.IN_PARTS, op
    for op in kept.keys() - whole_operators.IN_OTHER_PARTS.keys():
        assert any(key in op.py_kernels for key in KEYS), op


def case(draw):
    """An image, what is asked of it, and whether all its sizes are dynamic."""
    rank = draw.choice((1, 2, 2, 2, 3))
    sizes = [draw.choice((2, 5, 8, 20)[: 5 - rank]) for _ in range(rank)]
    x = torch.randn(2, 3, *sizes).to(draw.choice((torch.float16, torch.bfloat16)))
    how = {"mode": draw.choice(RESAMPLED[rank])}
    if "near" not in how["mode"]:
        how["align_corners"] = draw.random() < 0.3
    if draw.random() < 0.5:
        how["size"] = [draw.choice((1, 3, 9, 24)) for _ in range(rank)]
    else:
        # 1.1 keeps sizes: kernels of the nearest element copy or not by how many threads there are.
        odd = 1.5 if "near" in how["mode"] else 1.1
        how["scale_factor"] = draw.choice((0.5, odd, 1.5, 2, [odd] * (rank - 1) + [2.0]))
    return x, how, draw.random() < 0.5


def gradients(function, x):
    x = x.detach().requires_grad_()
    result = function(x)
    (result.float() ** 2).sum().backward()
    return result.detach().cpu().float(), x.grad.cpu().float()


def check_resampled(seed):
    torch.manual_seed(seed)
    x, how, dynamic = case(random.Random(seed))
    torch._dynamo.reset()
    compiled = torch.compile(lambda y: F.interpolate(y, **how), dynamic=dynamic)
    expected = gradients(lambda y: F.interpolate(y, **how), x.float())
    found = gradients(compiled, x.to("spyre"))
    unit = torch.finfo(x.dtype).eps * (24 if how["mode"] == "bicubic" else 8)
    for part, right in zip(found, expected, strict=True):
        bound = unit * max(float(right.abs().max()), 1.0)
        assert (part - right).abs().max() <= bound, f"seed {seed}: {how} {x.shape} {x.dtype}"


@pytest.mark.parametrize("trials", [10, pytest.param(300, marks=pytest.mark.long)])
def test_resampled(trials):
    for seed in range(trials):
        check_resampled(seed)


def test_one_graph_for_all_sizes():
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
                             dynamic=True)  # fmt: skip
    for sizes in ((2, 3, 8, 12), (3, 4, 10, 9), (2, 3, 20, 31)):
        x = torch.randn(sizes).half()
        expected = F.interpolate(x.float(), scale_factor=1.5, mode="bilinear")
        assert (compiled(x.to("spyre")).cpu() - expected).abs().max() < 0.02
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("name", SHRUNK)
def test_shrinking_is_one_kernel(name):
    torch._dynamo.reset()
    x = numbers(70)
    compiled = torch.compile(SHRUNK[name])
    assert torch.equal(compiled(x.to("spyre")).cpu(), SHRUNK[name](x))
    assert f"aten.{name}.default" in torch_spyre.last_report().text


def test_graphs_of_others_keep_parts():
    """Before a graph of the card and after one."""
    seen = []

    def look(gm, _inputs):
        seen.append({node.target for node in gm.graph.nodes})
        return gm

    from torch._dynamo.backends.common import aot_autograd

    def resampled(x):
        return F.interpolate(x, scale_factor=2.0, mode="bilinear")

    for device in ("cpu", "spyre", "cpu"):
        torch._dynamo.reset()
        backend = aot_autograd(fw_compiler=look) if device == "cpu" else "spyre"
        torch.compile(resampled, backend=backend)(torch.ones(1, 1, 4, 4).half().to(device))
    assert seen[0] == seen[1] and aten.upsample_bilinear2d.vec not in seen[0]
    assert aten.upsample_bilinear2d.default not in seen[0]
