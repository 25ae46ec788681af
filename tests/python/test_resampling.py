# SPDX-License-Identifier: Apache-2.0
"""Resampling by matrices and by taps, averages of windows side by side: values, gradients and
strides beside PyTorch's on the CPU, with nothing on the host."""

import random

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

WAYS = [pytest.param(lambda f: f, id="eager"), pytest.param(torch.compile, id="compiled")]
TRIALS = [12, pytest.param(200, marks=pytest.mark.long)]
MOST_ERROR = {torch.float16: 6e-3, torch.bfloat16: 6e-3, torch.float32: 2e-5}  # of the largest


def on_card_and_back(x, dtype):
    """The values that the card has, in float32."""
    return x.to(dtype).to("spyre").cpu().float()


def relative(found, wanted):
    return ((found.float().cpu() - wanted).abs().max() / wanted.abs().max().clamp(min=1e-3)).item()


def resampling(draw):
    rank = draw.choice((1, 2, 2, 3))
    most = 28 if rank == 3 else 300
    sizes = [min(draw.choice((1, 3, 7, 12, 65, 130, 300)), most) for _ in range(rank)]
    mode = {1: "linear", 2: draw.choice(("bilinear", "bicubic")), 3: "trilinear"}[rank]
    options = {"mode": mode, "align_corners": draw.random() < 0.5}
    options["size"] = [max(1, int(size * draw.choice((0.5, 1, 1.3, 2)))) for size in sizes]
    return sizes, options


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trials", TRIALS)
@torch_spyre.fallback("error")
def test_random_resampling(trials, way):
    for seed in range(trials):
        torch.manual_seed(seed)
        torch._dynamo.reset()
        draw = random.Random(seed)
        sizes, options = resampling(draw)
        dtype = draw.choice(list(MOST_ERROR))
        x = on_card_and_back(torch.randn(2, 3, *sizes), dtype)
        function = lambda x: F.interpolate(x, **options)  # noqa: B023, E731
        error = relative(way(function)(x.to(dtype).to("spyre")), function(x))
        assert error < MOST_ERROR[dtype], f"seed {seed}: {dtype} {sizes} {options}"


def average(draw):
    rank = draw.choice((1, 2, 2, 3))
    sizes = [draw.choice((1, 2, 3, 7, 8, 12, 28)) for _ in range(rank)]
    if draw.random() < 0.5:
        size = [draw.choice([o for o in range(1, n + 1) if n % o == 0]) for n in sizes]
        return sizes, f"adaptive_avg_pool{rank}d", [size], {}
    kernel = [draw.randint(1, min(n, 5)) for n in sizes]
    options = {"ceil_mode": draw.random() < 0.4}
    if rank > 1 and draw.random() < 0.4:
        options["divisor_override"] = 3
    return sizes, f"avg_pool{rank}d", [kernel], options


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trials", TRIALS)
@torch_spyre.fallback("error")
def test_random_averages(trials, way):
    for seed in range(trials):
        torch.manual_seed(seed)
        torch._dynamo.reset()
        draw = random.Random(seed)
        sizes, name, args, options = average(draw)
        dtype, found = torch.float16, []
        x = on_card_and_back(torch.randn(2, 3, *sizes), dtype)
        if len(sizes) == 2 and draw.random() < 0.3:
            x = x.contiguous(memory_format=torch.channels_last)
        function = lambda x: getattr(F, name)(x, *args, **options)  # noqa: B023, E731
        for leaf, call in ((x.clone(), function), (x.to(dtype).to("spyre"), way(function))):
            result = call(leaf.requires_grad_())
            weights = (torch.arange(result.numel()) % 7 - 3).reshape(result.shape)
            result.backward(weights.to(result))
            found.append((result.detach(), leaf.grad))
        (wanted, wanted_grad), (result, grad) = found
        say = f"seed {seed}: {name} {sizes} {args} {options}"
        assert result.stride() == wanted.stride(), say
        assert relative(result, wanted) < MOST_ERROR[dtype], say
        assert relative(grad, wanted_grad) < MOST_ERROR[dtype], say
