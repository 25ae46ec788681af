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


def rms_norm_by_sqrt(x, w, _b):
    return w * (x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6))


def layer_norm_of_distances(x, w, b):
    distance = x - x.mean(-1, keepdim=True)
    return w * (distance * torch.rsqrt((distance * distance).mean(-1, keepdim=True) + 1e-6)) + b


def layer_norm_of_variance(x, w, b):
    variance = x.var(-1, keepdim=True, unbiased=False)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-6) * w + b


@pytest.mark.parametrize(
    "function",
    [rms_norm, rms_norm_by_sqrt, layer_norm, layer_norm_of_distances, layer_norm_of_variance],
)
def test_norms(function):
    x, w, b = random(5, 96), random(96), random(96)
    result, report = compiled(function, x, w, b)
    operator = "rms_norm" if function.__name__.startswith("rms") else "layer_norm"
    assert f" as aten.{operator}.default" in report.text
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


def gradient_of_log_softmax(grad, x):
    return torch.func.vjp(lambda x: x.log_softmax(0), x)[1](grad)[0]


@pytest.mark.parametrize("scale", [1, 20])
def test_a_gradient_of_log_softmax_takes_the_softmax(scale):
    grad, x = random(96, 40), random(96, 40) * scale
    result, report = compiled(gradient_of_log_softmax, grad, x)
    assert "softmax_of_its_logarithm as aten._softmax.default" in report.text
    assert report.nodes_on_host == 0
    expected = gradient_of_log_softmax(grad.double(), x.double())
    # Distances from the maximum, exp of them and its quotient are rounded to 10 bits.
    torch.testing.assert_close(result.double(), expected, rtol=2**-9, atol=2**-7 * scale)


def test_a_log_softmax_that_is_read_keeps_its_exp():
    x = random(8, 96)
    result, report = compiled(lambda x: (y := x.log_softmax(-1)).exp() + y, x)
    assert "softmax_of_its_logarithm" not in report.text
    wide = x.double()
    expected = wide.softmax(-1) + wide.log_softmax(-1)
    torch.testing.assert_close(result.double(), expected, rtol=1e-2, atol=1e-2)


def test_a_result_that_is_used_inside_keeps_the_composition():
    def both(x):
        s = torch.sigmoid(x)
        return x * s + s

    x = random(5, 96)
    result, report = compiled(both, x)
    assert "silu as" not in report.text
    torch.testing.assert_close(result, both(x.float()), rtol=1e-2, atol=1e-2)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate_pairs(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def rope_of_llama(x, cos, sin):
    x = x.transpose(1, 2)
    return (x * cos.unsqueeze(1)) + (rotate_half(x) * sin.unsqueeze(1))


def rope_of_a_part(x, cos, sin):
    rotated, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    return torch.cat((rotated * cos + rotate_half(rotated) * sin, rest), dim=-1)


def rope_of_glm(x, cos, sin):
    x = x.transpose(1, 2)
    return (x * cos.unsqueeze(1)) + (rotate_pairs(x) * sin.unsqueeze(1))


def rope_of_hf_adapters(x, freqs):
    batch, length, heads, size = x.shape
    parts = x.view(batch, length, heads, 2, size // 2)
    turned = freqs[:, :, None, :, :, :].mul(parts.unsqueeze(-3)).sum(4, keepdim=True)
    return turned.flatten(3).transpose(1, 2)


def as_written(function, *operands):
    """On the card operator by operator, where nothing is recognised."""
    return function(*(x.to("spyre") for x in operands)).cpu().float()


@pytest.mark.parametrize(
    ("function", "size", "rotated", "call"),
    [
        (rope_of_llama, 128, 128, "rope as spyre.rope.default(%transpose, "),
        (rope_of_llama, 48, 48, "rope as spyre.rope.default(%transpose, "),
        (rope_of_a_part, 96, 32, "rope as spyre.rope.default("),
        (rope_of_glm, 64, 64, "rope_interleaved as spyre.rope.default(%transpose, "),
    ],
)
def test_rotary_embeddings(function, size, rotated, call):
    x, cos, sin = random(2, 40, 3, size), random(2, 40, rotated), random(2, 40, rotated)
    result, report = compiled(function, x, cos, sin)
    assert call in report.text and report.nodes_on_host == 0
    assert torch.equal(result, as_written(function, x, cos, sin))


def test_a_rotary_embedding_by_matrices():
    x, freqs = random(2, 40, 3, 128), random(2, 40, 2, 2, 64)
    result, report = compiled(rope_of_hf_adapters, x, freqs)
    assert "rope_by_matrix as spyre.rope_by_matrix.default(%" in report.text
    assert torch.equal(result, as_written(rope_of_hf_adapters, x, freqs))


def test_halves_of_whole_sticks_are_not_concatenated():
    x, cos, sin = random(1, 64, 2, 128), random(1, 64, 128), random(1, 64, 128)
    _, report = compiled(rope_of_llama, x, cos, sin)
    assert report.kernels == 5


def test_a_rotary_embedding_whose_parts_are_used_stays():
    def both(x, cos, sin):
        turned = rotate_half(x)
        return x * cos + turned * sin, turned

    def other_halves(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., :half], x[..., half:]), dim=-1) * sin

    x, cos, sin = random(5, 64), random(5, 64), random(5, 64)
    for function in (lambda *a: sum(both(*a)), other_halves):
        result, report = compiled(function, x, cos, sin)
        assert "rope" not in report.text
        assert torch.equal(result, as_written(function, x, cos, sin))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("activation", [torch.nn.functional.silu, silu])
def test_a_gate_times_a_second_projection(activation, dtype):
    def gated(gate, up):
        return activation(gate) * up

    gate, up = random(5, 96).to(dtype), random(5, 96).to(dtype)
    result, report = compiled(gated, gate, up)
    assert " as spyre.silu_mul.default(%" in report.text
    torch.testing.assert_close(result, gated(gate.float(), up.float()), rtol=1e-2, atol=1e-2)


def test_a_gate_that_leaves_the_graph_stays():
    def both(gate, up):
        opened = torch.nn.functional.silu(gate)
        return opened * up + opened

    _, report = compiled(both, random(5, 96), random(5, 96))
    assert "silu_mul" not in report.text


@pytest.mark.parametrize("device", ["cpu", "spyre"])
def test_compositions_can_be_called_by_name(device):
    x, cos, sin = (random(2, 3, 64).to(device) for _ in range(3))
    for interleaved, turn in ((False, rotate_half), (True, rotate_pairs)):
        result = torch.ops.spyre.rope(x, cos, sin, interleaved)
        assert torch.equal(result.cpu(), (x * cos + turn(x) * sin).cpu())
    expected = torch.nn.functional.silu(x) * cos
    assert torch.equal(torch.ops.spyre.silu_mul(x, cos).cpu(), expected.cpu())


def test_the_graph_that_is_handed_over_shows_them(tmp_path, monkeypatch):
    def block(x, cos, sin, scores):
        turned = x * cos + rotate_half(x) * sin
        return torch.nn.functional.silu(turned) * x, softmax(scores), gelu_erf(x)

    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        compiled_block = torch.compile(block, dynamic=False)
        compiled_block(*(random(4, 64).to("spyre") for _ in range(4)))
    (file,) = tmp_path.glob("run_*/torchinductor/*/fx_graph_transformed.py")
    text = file.read_text()
    for call in ("spyre.rope.default(", "spyre.silu_mul.default(", "aten._softmax.default(",
                 "aten.gelu.default("):  # fmt: skip
        assert text.count(call) == 1, text
    for part in ("aten.cat", "aten.slice", "aten.exp", "aten.erf"):
        assert part not in text
