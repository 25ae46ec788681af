# SPDX-License-Identifier: Apache-2.0
"""Views of what the host computes for a compiled graph lie as they were traced: the backward pass
goes by the strides of what the forward pass has kept."""

from random import Random

import pytest
import torch

# products of float32
pytestmark = pytest.mark.host(
    "aten.mm", "aten.bmm", "aten.convolution", "aten.convolution_backward"
)

SIZES = (1, 3, 64, 70)


def _view(random, x):
    """A view of `x`, or `x` itself."""
    dim = random.randrange(x.dim())
    size = x.shape[dim]
    first = random.randrange(size)
    views = [
        lambda x: x.transpose(dim, random_dim),
        lambda x: x.narrow(dim, first, length),
        lambda x: x.unsqueeze(0).expand(3, *x.shape),
        lambda x: x.unfold(dim, length, 2),
        lambda x: x.chunk(2, dim)[-1],
        lambda x: x.diagonal(0, 0, 1) if x.dim() > 1 else x,
        lambda x: x.select(dim, first) if x.dim() > 1 else x,
        lambda x: x[::2],
    ]
    random_dim, length = random.randrange(x.dim()), random.randint(1, size - first)
    made = random.choice(views)
    return made if made(x).dim() < 6 and made(x).numel() < 20000 else lambda x: x


def _chain(random, x):
    views = []
    for _ in range(random.randrange(5)):
        views.append(_view(random, x))
        x = views[-1](x)
    return views


def _through(views, x):
    for view in views:
        x = view(x)
    return x


def _strides(tensors):
    """Of the dims that have more than one element."""
    return [
        [step for size, step in zip(t.shape, t.stride(), strict=True) if size != 1] for t in tensors
    ]


@pytest.mark.parametrize("seed", range(10))
def test_results_and_what_is_kept_have_the_strides_of_the_trace(seed):
    random = Random(seed)
    torch.manual_seed(seed)
    left = torch.randn(random.choice(SIZES), 8)
    right = torch.randn(8, random.choice(SIZES))
    first, second = (_chain(random, left @ right) for _ in range(2))
    makes_products = random.random() < 0.5

    def function(left, right):
        product = left @ right  # float32: the host's
        x, y = _through(first, product), _through(second, product)
        if makes_products and y.dim() > 1:
            return x, y @ y.transpose(-1, -2)
        return x, y.sin(), y

    found = []
    for device in ("cpu", "spyre"):
        torch._dynamo.reset()
        arguments = [t.to(device).requires_grad_() for t in (left, right)]
        results = (torch.compile(function) if device == "spyre" else function)(*arguments)
        loss = sum(result.square().mean() for result in results)
        gradients = torch.autograd.grad(loss, arguments)
        found.append((_strides(results), [t.detach().cpu() for t in (*results, *gradients)]))
    assert found[1][0] == found[0][0]
    torch.testing.assert_close(found[1][1], found[0][1], atol=1e-3, rtol=1e-3)


def test_a_convolution_in_parts_that_are_multiplied():
    """Attention over pixels, as in diffusion models."""
    torch._dynamo.reset()
    layer = torch.nn.Conv1d(16, 48, 1)
    x = torch.randn(2, 16, 60)

    def attention(layer, x):
        query, key, value = layer(x).chunk(3, 1)
        return value @ (query.transpose(1, 2) @ key).softmax(-1)

    attention(layer, x).sum().backward()
    expected = layer.weight.grad.clone()
    layer = layer.to("spyre")
    layer.zero_grad()
    torch.compile(attention)(layer, x.to("spyre")).sum().backward()
    torch.testing.assert_close(layer.weight.grad.cpu(), expected, atol=1e-3, rtol=1e-3)
