# SPDX-License-Identifier: Apache-2.0
"""Rows of at most half a stick: what computes them leaves the other half of each stick as it was.
Nothing depends on that: results are the same where memory held NaN as where it held zeros."""

import pytest
import torch

F = torch.nn.functional
WIDTHS = (1, 3, 16, 20, 31, 32, 33, 47)


def made(x, y):
    """Values that element-wise steps and products have stored."""
    return x * y + 0.5, torch.maximum(x, y), F.silu(x), x @ y.transpose(-1, -2)


READERS = {
    "sums": lambda v: [v.sum(-1), v.sum(0), v.mean((0, 1)), v.amax(-1), v.amin(), v.prod(-1)],
    "moments": lambda v: [v.var(-1, correction=0), v.std(0), torch.linalg.vector_norm(v, dim=-1)],
    "softmax": lambda v: [v.softmax(-1), v.log_softmax(0), v.logsumexp(-1)],
    "norms": lambda v: [F.layer_norm(v, v.shape[-1:]), F.rms_norm(v, v.shape[-1:])],
    "ranks": lambda v: [v.sort(-1).values, v.topk(1).values, v.argmax(-1), v.median(-1).values],
    "scans": lambda v: [v.cumsum(-1), v.cummax(0).values, v.cumsum(0)],
    "moves": lambda v: [v.transpose(0, -1).contiguous(), v.flip(-1), v.roll(1, -1), v[..., :1]],
    "joins": lambda v: [torch.cat([v, v], -1), torch.stack([v, v], -1), v.repeat(1, 1, 2)],
    "pads": lambda v: [F.pad(v, (1, 2)), F.pad(v, (0, 0, 2, 1), value=1.0), v.reshape(-1)],
    "products": lambda v: [v @ v.transpose(-1, -2), v.transpose(-1, -2) @ v, v.sum(1) @ v[0].T],
    "elements": lambda v: [v.clone(), -v, (v > 0.2).to(v.dtype), v.expand(2, *v.shape) + 1],
    "indices": lambda v: [v[:, torch.tensor([1, 0], device=v.device)], v.gather(1, _places(v))],
    "wide": lambda v: [v.float().exp(), v.float().sum(-1), v.to(torch.bfloat16) * 2],
    "pooled": lambda v: [F.max_pool2d(v[None], (2, 1)), F.adaptive_avg_pool2d(v[None], 1)],
}


def _places(v):
    return torch.zeros_like(v, dtype=torch.int64)


def fill_memory(value):
    """Leaves the value in the memory that the next tensors get."""
    kept = [torch.full((2**n, 64), value, dtype=torch.float16, device="spyre") * 1
            for n in range(1, 12) for _ in range(6)]  # fmt: skip
    torch.spyre.synchronize()
    del kept


def results(function, *args):
    fill_memory(0.0)
    before = [result.cpu() for result in function(*args)]
    fill_memory(float("nan"))
    return before, [result.cpu() for result in function(*args)]


def check(function, *args):
    for before, after in zip(*results(function, *args), strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=0, equal_nan=False)


def operands(width):
    torch.manual_seed(width)
    return [(torch.rand(4, 6, width) - 0.3).half().to("spyre") for _ in range(2)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", READERS)
def test_nothing_reads_the_other_half(name, width):
    check(lambda x, y: [r for v in made(x, y) for r in READERS[name](v)], *operands(width))


@pytest.mark.parametrize("width", (3, 20, 32, 33))
def test_nothing_reads_the_other_half_in_a_graph(width):
    torch._dynamo.reset()

    def every(x, y):
        return [r for read in READERS.values() for v in made(x, y) for r in read(v)]

    check(torch.compile(every), *operands(width))


@pytest.mark.parametrize("channels", (3, 16, 32))
def test_convolutions_and_their_gradients(channels):
    torch.manual_seed(channels)
    given = torch.randn(2, channels, 12, 12), torch.randn(channels, channels, 3, 3) / 12

    def gradients(x, weight):
        leaves = [t.detach().requires_grad_() for t in (x, weight)]
        y = F.relu(F.conv2d(*leaves, padding=1))
        F.group_norm(y, 1).square().mean().backward()
        return [y.detach(), *[leaf.grad for leaf in leaves]]

    check(gradients, *[t.half().to("spyre") for t in given])
