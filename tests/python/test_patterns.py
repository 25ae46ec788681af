# SPDX-License-Identifier: Apache-2.0
"""Compositions that models spell out become the operation they stand for, and mean the same."""

import math

import pytest
import torch
import torch_spyre


def compiled(function, *operands):
    torch._dynamo.reset()
    result = torch.compile(function, dynamic=False)(*(x.to("spyre") for x in operands))
    return result.cpu().float(), torch_spyre.last_report()


def random(*sizes):
    return torch.randn(sizes, dtype=torch.float16)


def gelu_tanh(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def gelu_erf(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def silu(x):
    return x * torch.sigmoid(x)


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def rms_norm(x, w, _b):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def layer_norm(x, w, b):
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return w * (x - mean) / torch.sqrt(variance + 1e-6) + b


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (gelu_tanh, "gelu_tanh as aten.gelu.default"),
        (gelu_erf, "gelu_erf_by_division as aten.gelu.default"),
        (silu, "silu as aten.silu.default"),
        (softmax, "softmax as aten._softmax.default"),
    ],
)
def test_of_one_operand(function, name):
    x = random(5, 96)
    result, report = compiled(function, x)
    assert name in report.text and report.nodes_on_host == 0
    torch.testing.assert_close(result, function(x.float()), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("function", [rms_norm, layer_norm])
def test_norms(function):
    x, w, b = random(5, 96), random(96), random(96)
    result, report = compiled(function, x, w, b)
    assert f" as aten.{function.__name__}.default" in report.text
    torch.testing.assert_close(result, function(x.float(), w.float(), b.float()),
                               rtol=2e-2, atol=2e-2)  # fmt: skip


def test_a_scale_of_another_shape_is_no_norm():
    x, w = random(5, 96), random(5, 96)
    result, report = compiled(rms_norm, x, w, w)
    assert "rms_norm as" not in report.text
    torch.testing.assert_close(result, rms_norm(x.float(), w.float(), None), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("divided", [False, True])
def test_attention(masked, divided):
    def attention(q, k, v, mask):
        scores = q @ k.transpose(-1, -2)
        scores = scores / 8.0 if divided else scores * 0.125
        scores = scores + mask if masked else scores
        return torch.softmax(scores, -1) @ v

    q, k, v = random(2, 3, 16, 64), random(2, 3, 24, 64), random(2, 3, 24, 32)
    mask = torch.zeros(2, 1, 16, 24, dtype=torch.float16)
    mask[:, :, :, -4:] = -torch.inf
    result, report = compiled(attention, q, k, v, mask)
    assert "as aten.scaled_dot_product_attention.default" in report.text
    expected = attention(q.float(), k.float(), v.float(), mask.float())
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)


def test_attention_with_its_softmax_in_float32():
    def attention(q, k, v, mask):
        scores = torch.matmul(q, k.transpose(2, 3)) * 0.125 + mask
        p = torch.nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(p, v)

    q, k, v = (random(1, 2, 16, 64) for _ in range(3))
    mask = torch.triu(torch.full((1, 1, 16, 16), -torch.inf), 1).half()
    result, report = compiled(attention, q, k, v, mask)
    assert "masked_attention_f32 as" in report.text
    expected = attention(q.float(), k.float(), v.float(), mask.float())
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)


def test_a_result_that_is_used_inside_keeps_the_composition():
    def both(x):
        s = torch.sigmoid(x)
        return x * s + s

    x = random(5, 96)
    result, report = compiled(both, x)
    assert "silu as" not in report.text
    torch.testing.assert_close(result, both(x.float()), rtol=1e-2, atol=1e-2)
