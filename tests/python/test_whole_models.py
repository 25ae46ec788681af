# SPDX-License-Identifier: Apache-2.0
"""Parts of ordinary models that once fell to the host: all of each is one program of the card."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre

HALF = torch.float16


def halves(*shape):
    return (torch.randint(-16, 17, shape) / 16).to(HALF)


def patches_of_an_image(x, weight, token, positions):
    """The embedding of ViT, CLIP and DINO."""
    y = F.conv2d(x, weight, stride=4).flatten(2).transpose(1, 2)
    return torch.cat([token.expand(x.shape[0], -1, -1), y], 1) + positions


def shifted_windows(x, weight, bias):
    """The attention of Swin in windows of 4 x 4 of a rolled image."""
    b, h, w, c = x.shape
    y = x.roll((-2, -2), (1, 2)).view(b, h // 4, 4, w // 4, 4, c)
    y = y.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    q, k, v = (y @ weight).view(-1, 16, 3, 2, 32).permute(2, 0, 3, 1, 4).unbind(0)
    y = ((q @ k.transpose(-2, -1)) * 0.125 + bias).softmax(-1) @ v
    y = y.transpose(1, 2).reshape(-1, 4, 4, c)
    y = y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5)
    return y.reshape(b, h, w, c) + x


def rotary_angles(x, mask):
    """Positions and angles of Llama, as transformers makes them."""
    positions = torch.arange(x.shape[1], device=x.device)[None]
    steps = torch.arange(0, 64, 2, dtype=torch.int64, device=x.device).float()
    frequency = (steps * (-math.log(10000.0) / 64)).exp()
    angles = (frequency[None, :, None] @ positions[:, None, :].float()).transpose(1, 2)
    angles = torch.cat((angles, angles), -1)
    return x * angles.cos().to(x.dtype) + x * angles.sin().to(x.dtype) + mask[:, :, None]


def positions_of_a_mask(table, mask):
    """Positions of RoBERTa and OPT: padding has none."""
    counted = mask.long().cumsum(1) * mask
    return F.embedding(torch.where(counted > 0, counted + 1, 0), table)


def causal_scores(scores):
    rows = torch.arange(scores.shape[-1], device=scores.device)
    masked = torch.full_like(scores, -100.0).triu(1)
    return (scores + masked).softmax(-1) * (rows.abs() >= 0)


def padding_of_keys(mask, batch, keys):
    """One element at every pair of indices, as masks of transformers are read."""
    return mask[batch[:, None], keys[None, :]].to(HALF) + 1


def relative_scores(scores, index):
    """Content to position, as in DeBERTa."""
    return scores.gather(-1, index) * 2


CASES = {
    "patches": (patches_of_an_image, lambda: (
        halves(2, 3, 16, 16), halves(70, 3, 4, 4) / 4, halves(1, 1, 70), halves(1, 17, 70))),
    "windows": (shifted_windows, lambda: (
        halves(1, 8, 8, 64), halves(64, 192) / 4, halves(2, 16, 16))),
    "angles": (rotary_angles, lambda: (halves(2, 9, 64), halves(2, 9))),
    "positions": (positions_of_a_mask, lambda: (
        halves(12, 65), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1]]))),
    "causal": (causal_scores, lambda: (halves(2, 65, 65),)),
    "keys": (padding_of_keys, lambda: (
        torch.rand(3, 65) > 0.5, torch.arange(3), torch.randint(-65, 65, (65,)))),
    "relative": (relative_scores, lambda: (halves(2, 5, 63), torch.randint(0, 63, (2, 5, 9)))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_whole(name):
    torch.manual_seed(0)
    function, make = CASES[name]
    arguments = make()
    wide = [x.float() if x.is_floating_point() else x for x in arguments]
    with torch.no_grad():
        expected = function(*wide).float()
        actual = torch.compile(function)(*[x.to("spyre") for x in arguments])
    report = torch_spyre.last_report()
    assert report.host_ops == [] and report.segments == 1, report.text
    torch.testing.assert_close(actual.cpu().float(), expected, atol=3e-2, rtol=2e-2)


def check(function, *arguments, tolerance=0.0):
    """Equal to the CPU, types and shapes too, with nothing on the host."""
    expected = function(*arguments)
    actual = torch.compile(function)(*[x.to("spyre") for x in arguments])
    assert torch_spyre.last_report().host_ops == [], torch_spyre.last_report().text
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        torch.testing.assert_close(a.cpu(), e, atol=tolerance, rtol=0, equal_nan=True)


def test_progressions():
    def function(x):
        def count(*ends, **kwargs):
            return torch.arange(*ends, device=x.device, **kwargs)

        numbers = [count(1), count(65), count(3, 130), count(10, -7, -3), count(5, dtype=HALF)]
        return *numbers, count(65.0) * x, count(-6, 7, 2, dtype=torch.int32)

    check(function, torch.ones(65))


def test_progressions_are_separate():
    def function(x):
        return torch.arange(4, device=x.device), torch.arange(4, device=x.device)

    a, b = torch.compile(function)(torch.ones(1).to("spyre"))
    a.add_(1)
    assert b.cpu().tolist() == [0, 1, 2, 3]
    assert a.cpu().tolist() == [1, 2, 3, 4]


def test_integers():
    most = 2**31 - 1
    x = torch.randint(-most, most, (3, 65))
    y = torch.randint(-most, most, (3, 65))
    small = x % 1000

    def function(x, y, small):
        chosen = torch.where(x > y, x, y), x.masked_fill(y < 0, -2), -x, x.abs()
        return *chosen, small.cumsum(0), small.cumsum(-1), small.triu(-1), (small > 0).tril(3)

    check(function, x, y, small)


def test_gathered_elements():
    x = torch.randint(-1000, 1000, (3, 65)).to(HALF)

    def function(x, i, j, v):
        one = x[i, j], v[j], v.index_select(0, j), F.embedding(i, v[:, None])
        return *one, x.gather(1, i.expand(3, 5) + j), x.gather(0, i), (v > 0)[j]

    i, j = torch.tensor([[2], [0], [1]]), torch.tensor([0, 62, 5, 1, 60])
    check(function, x, i, j, x[0].contiguous())


def test_outer_products_of_float32():
    x, y = torch.randn(2, 9, 1), torch.randn(2, 1, 65)
    check(lambda x, y: (x @ y, torch.bmm(x, y), x[0] @ y[1]), x, y)


@pytest.mark.host("aten.isnan")
@pytest.mark.parametrize("reach", [3.0, 2e5])
def test_waves(reach):
    special = torch.tensor([0.0, math.pi, math.inf, math.nan, -1e-20])
    x = torch.cat([torch.linspace(-reach, reach, 4000), special])
    exact = x.double().sin(), x.double().cos()
    actual = torch.compile(lambda x: (x.sin(), x.cos()))(x.to("spyre"))
    for a, e in zip(actual, exact, strict=True):
        torch.testing.assert_close(a.cpu().double(), e, atol=1.5e-7, rtol=0, equal_nan=True)
    assert torch.tensor(2.1e5).to("spyre").sin().isnan().item()


@pytest.mark.parametrize("heads", (2, 4))
def test_a_layer_of_attention_learns(heads):
    """Compiled, in 16 bits: heads of a stick and of half a stick, forward and backward."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, heads, 64, 0.0, "gelu", batch_first=True)
    x, weight = torch.randn(4, 10, 128), torch.randn(4, 10, 128)
    (layer(x) * weight).sum().backward()
    expected = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    layer = layer.half().to("spyre")
    with torch_spyre.config.patch(fallback="error"):
        y = torch.compile(layer, dynamic=False)(x.half().to("spyre"))
    (y.float() * weight.to("spyre")).sum().backward()
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        error = (parameter.grad.cpu().float() - gradient).norm() / gradient.norm()
        assert error < 0.01


@pytest.mark.parametrize("repeats", ("first", "second", "both"))
def test_factors_that_are_the_same_along_k(repeats):
    """The gradient of a sum is one number, expanded."""

    def factor(rows, columns, is_one):
        x = halves(1, 1) if is_one else halves(rows, columns)
        return x.to("spyre").expand(rows, columns)

    x, y = factor(5, 70, repeats != "second"), factor(70, 66, repeats != "first")
    with torch_spyre.config.patch(fallback="error"):
        found = torch.mm(x, y).cpu().float()
    torch.testing.assert_close(found, x.cpu().float() @ y.cpu().float(), rtol=2e-3, atol=2e-3)


def test_products_of_flattened_dims():
    """Columns that are two dims of their operand's storage."""
    x, y = halves(5, 6, 7), halves(5, 6, 7)
    with torch_spyre.config.patch(fallback="error"):
        found = torch.tensordot(x.to("spyre"), y.to("spyre"), dims=([2], [2]))
    expected = torch.tensordot(x.float(), y.float(), dims=([2], [2]))
    torch.testing.assert_close(found.cpu().float(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("function", (torch.sum, torch.mean, torch.amax, F.layer_norm))
def test_reductions_of_repeats(function):
    def reduce(x):
        wide = x.unsqueeze(-1).expand(5, 70, 9)
        return function(wide, (9,)) if function is F.layer_norm else function(wide, -1)

    x = halves(5, 70)
    with torch_spyre.config.patch(fallback="error"):
        found = reduce(x.to("spyre")).cpu().float()
    torch.testing.assert_close(found, reduce(x.float()), rtol=2e-3, atol=2e-3)
