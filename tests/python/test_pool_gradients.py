# SPDX-License-Identifier: Apache-2.0
"""Pools of random windows and their gradients, whose windows overlap, hang over or leave elements
out, against PyTorch's on the CPU. Numbers are whole and small: sums are exact, maxima have ties."""

import random

import pytest
import torch
import torch.nn.functional as F


def _windows(rng: random.Random, rank: int):
    kernel = [rng.randint(1, 4) for _ in range(rank)]
    stride = [rng.randint(1, 5) for _ in range(rank)]
    padding = [rng.randint(0, k // 2) for k in kernel]
    dilation = [rng.choice([1, 1, 2, 3]) for _ in range(rank)]
    sizes = [
        d * (k - 1) + 1 + rng.choice([0, 1, 5, 9]) for k, d in zip(kernel, dilation, strict=True)
    ]
    sizes[-1] += rng.choice([0, 0, 55, 64])
    return sizes, kernel, stride, padding, dilation, rng.random() < 0.4


def _pool(rng: random.Random, rank: int):
    sizes, kernel, stride, padding, dilation, ceil = _windows(rng, rank)
    if rng.random() < 0.5:
        pool = [F.max_pool2d, F.max_pool3d][rank - 2]
        keywords = {"return_indices": rng.random() < 0.7, "dilation": dilation}
    else:
        pool = [F.avg_pool2d, F.avg_pool3d][rank - 2]
        keywords = {
            "count_include_pad": rng.random() < 0.5,
            "divisor_override": rng.choice([None, None, 4]),
        }
    call = lambda x: pool(x, kernel, stride, padding, ceil_mode=ceil, **keywords)  # noqa: E731
    return sizes, call, (pool.__name__, kernel, stride, padding, ceil, keywords)


def _gradient(call, x, seed):
    leaf = x.detach().requires_grad_()
    result = call(leaf)
    first, *others = result if isinstance(result, tuple) else (result,)
    r = torch.Generator().manual_seed(seed)
    first.backward(torch.randint(-8, 9, first.shape, generator=r).to(first.dtype).to(x.device))
    return [first.detach(), *others, leaf.grad]


@pytest.mark.parametrize("trials", [14, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize("compiled", [False, True])
def test_random_windows(compiled, trials):
    rng = random.Random(f"{compiled} {trials}")
    for _ in range(trials):
        torch._dynamo.reset()
        sizes, call, what = _pool(rng, rng.choice([2, 2, 3]))
        r = torch.Generator().manual_seed(rng.randrange(1 << 30))
        x = torch.randint(-20, 21, [rng.randint(1, 2), rng.randint(1, 3), *sizes], generator=r)
        dtype, seed = rng.choice([torch.float16, torch.bfloat16]), rng.randrange(1 << 30)
        expected = _gradient(call, x.float(), seed)
        function = torch.compile(call) if compiled else call
        results = _gradient(function, x.to(dtype).to("spyre"), seed)
        for got, wanted in zip(results, expected, strict=True):
            assert got.is_contiguous(), what
            got = got.cpu()
            if got.is_floating_point():
                torch.testing.assert_close(
                    got.float(), wanted, rtol=2**-7, atol=2**-6, msg=f"{what}"
                )
            else:
                assert torch.equal(got, wanted), what


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kernel", [40, (40, 3), (3, 64)], ids=str)
def test_windows_larger_than_the_image(kernel, compiled):
    """Networks that pool all that is left ask for any larger window."""
    x = torch.randint(-20, 21, [2, 3, 5, 7])
    for pool in (F.avg_pool2d, F.max_pool2d):
        call = lambda x: pool(x, kernel, ceil_mode=True)  # noqa: B023, E731
        torch._dynamo.reset()
        wanted = _gradient(call, x.float(), 3)
        found = _gradient(torch.compile(call) if compiled else call, x.half().to("spyre"), 3)
        for got, right in zip(found, wanted, strict=True):
            torch.testing.assert_close(got.cpu().float(), right, rtol=2**-7, atol=2**-6)


@pytest.mark.host("aten.max_pool2d_with_indices", "aten.max_pool2d_with_indices_backward")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("pool", [F.avg_pool2d, F.max_pool2d])
def test_gradients_of_windows_that_leave_a_rest_are_dense(pool, dtype):
    torch._dynamo.reset()
    x = torch.randint(-20, 21, [1, 40, 6, 7]).to(dtype)
    call = lambda x: pool(x, 3, 2)  # noqa: E731
    *_, wanted = _gradient(call, x.float(), 3)
    *_, found = _gradient(torch.compile(call), x.to("spyre"), 3)
    assert found.is_contiguous()
    torch.testing.assert_close(found.cpu().float(), wanted, rtol=2**-7, atol=2**-6)
