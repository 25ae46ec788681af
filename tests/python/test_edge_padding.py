# SPDX-License-Identifier: Apache-2.0
"""Padding by mirrored and repeated edges leaves PyTorch's bits, strides and errors."""

import random

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int64)
SIZES = (1, 2, 3, 5, 63, 64, 65, 130)


def case(draw):
    rank = draw.choice((1, 2, 2, 3))
    sizes = [draw.choice(SIZES[: 9 - 2 * rank]) for _ in range(rank)]
    lead = [draw.choice((1, 2, 3)) for _ in range(draw.choice((1, 2)))]
    x = torch.randint(-99, 99, [*lead, *sizes]).to(draw.choice(DTYPES))
    if draw.random() < 0.3 and rank == 2 and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    mode = draw.choice(("reflect", "replicate", "circular"))
    padding = []
    for size in reversed(sizes):
        most = {"reflect": size - 1, "replicate": 5, "circular": size}[mode]
        least = -1 if mode == "circular" and size > 2 else 0
        padding += [draw.randint(least, min(most + least, 5)) for _ in range(2)]
    return x, padding, mode


def check(seed, compiled):
    torch.manual_seed(seed)
    x, padding, mode = case(random.Random(seed))
    torch._dynamo.reset()
    function = lambda x: F.pad(x, padding, mode)  # noqa: E731
    found = (torch.compile(function) if compiled else function)(x.to("spyre"))
    expected = function(x)
    say = f"seed {seed}: {x.dtype} {x.shape} {padding} {mode}"
    assert torch.equal(found.cpu(), expected), say
    # PyTorch allocates repeated edges of other devices' eager calls, in no memory format.
    assert mode == "replicate" or found.stride() == expected.stride(), say


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("trials", [25, pytest.param(400, marks=pytest.mark.long)])
def test_random_edges(trials, compiled):
    for seed in range(trials):
        check(seed, compiled)


@pytest.mark.parametrize("padding", [(4, 0), (0, 7), (-1, 0)])
def test_reflections_beyond_the_dim_are_refused(padding):
    x = torch.ones(2, 3, 4).half()
    if min(padding) < 0:
        wanted = F.pad(x, padding, "reflect")
        assert torch.equal(F.pad(x.to("spyre"), padding, "reflect").cpu(), wanted)
        return
    with pytest.raises(RuntimeError, match="[Pp]adding size"):
        F.pad(x.to("spyre"), padding, "reflect")


@pytest.mark.parametrize("padding", [(2, 3, 1, 2), (-1, 1, 2, 1), (0, -2, -3, 2)])
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_gradients(mode, padding):
    x = torch.randint(-8, 8, (2, 3, 6, 9)).half()
    grads = []
    for device, wrap in (("cpu", lambda f: f), ("spyre", lambda f: f), ("spyre", torch.compile)):
        torch._dynamo.reset()
        leaf = x.float() if device == "cpu" else x.to(device)
        leaf = leaf.detach().requires_grad_()
        result = wrap(lambda x: F.pad(x, padding, mode))(leaf)
        weights = torch.arange(float(result.numel())).reshape(result.shape) % 7
        (result * weights.to(leaf)).sum().backward()
        grads.append(leaf.grad.cpu().float())
    assert torch.equal(grads[0], grads[1]) and torch.equal(grads[0], grads[2])


def check_gradient(seed):
    """Sums of whole numbers, which have PyTorch's bits."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    sizes = [draw.choice((2, 3, 5, 33, 64, 70)) for _ in range(draw.choice((1, 2, 2, 3)))]
    if len(sizes) == 1 and draw.random() < 0.5:
        sizes = [1300]
    mode = draw.choice(("reflect", "replicate", "circular"))
    padding = [draw.randint(0, min(size - 1, 5)) for size in reversed(sizes) for _ in range(2)]
    x = torch.randint(-8, 8, (2, 3, *sizes)).half()
    weights = torch.randint(-4, 5, F.pad(x, padding, mode).shape).half()
    function = lambda x, w: (F.pad(x, padding, mode) * w).sum()  # noqa: E731
    grads = []
    for device, wrap in (("cpu", lambda f: f), ("spyre", lambda f: f), ("spyre", torch.compile)):
        torch._dynamo.reset()
        leaf = (x.float() if device == "cpu" else x.to(device)).requires_grad_()
        wrap(function)(leaf, weights.to(leaf)).backward()
        grads.append(leaf.grad.float().cpu())
    for grad in grads[1:]:
        assert torch.equal(grad, grads[0]), f"seed {seed}: {mode} {sizes} {padding}"


@pytest.mark.parametrize("trials", [8, pytest.param(100, marks=pytest.mark.long)])
def test_random_gradients(trials):
    with torch_spyre.fallback("error"):
        for seed in range(trials):
            check_gradient(seed)
