# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre: on the card, eager and compiled, what PyTorch's operators give on the CPU."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from inputs import HALF, numbers
from torch._subclasses.fake_tensor import FakeTensorMode

spyre = torch.ops.spyre

NAMES = """softplus layer_norm exx2 layernormscale layernormnorm rms_norm topkvalue topkindex gelu
silu clamp empty logical_not copy_from_d2d overwrite overwrite_f restickify
max_default_int64_fallback max_dim_int64_fallback min_dim_int64_fallback unfold reshape_via_cpu
batched_matmul constant to_dtype_cpu qfp8ch quantize_fp8_with_scale dequantize_fp8_with_scale
quantize_weight_fp8_with_scale"""


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def test_names():
    for name in NAMES.split():
        assert isinstance(getattr(spyre, name).default, torch._ops.OpOverload)


# The operator, and what it means in PyTorch's words.
CALLS = {
    "softplus": (lambda x: spyre.softplus(x, 2.0, 10.0), lambda x: F.softplus(x, 2.0, 10.0)),
    "gelu": (lambda x: spyre.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "silu": (spyre.silu, F.silu),
    "clamp": (lambda x: spyre.clamp(x, min=-0.5), lambda x: x.clamp(min=-0.5)),
    "clamp_nothing": (spyre.clamp, torch.clone),
    "logical_not": (spyre.logical_not, torch.logical_not),
    "layer_norm": (
        lambda x: spyre.layer_norm(x, [70], x[0], None, 1e-5),
        lambda x: F.layer_norm(x, [70], x[0], None, 1e-5),
    ),
    "rms_norm": (
        lambda x: spyre.rms_norm(x, [70], x[1], 1e-6),
        lambda x: F.rms_norm(x, [70], x[1], 1e-6),
    ),
    "batched_matmul": (lambda x: spyre.batched_matmul(x, x.t()) / 8, lambda x: x @ x.t() / 8),
    "topkvalue": (lambda x: spyre.topkvalue(x, 3, -1), lambda x: x.topk(3).values),
    "max_default": (spyre.max_default_int64_fallback, torch.max),
    "max_dim": (lambda x: spyre.max_dim_int64_fallback(x, 0)[0], lambda x: x.max(0).values),
    "min_dim": (
        lambda x: spyre.min_dim_int64_fallback(x, 1, True)[0],
        lambda x: x.min(1, True).values,
    ),
    "reshape": (lambda x: spyre.reshape_via_cpu(x, [7, 50]), lambda x: x.reshape(7, 50)),
    "restickify": (spyre.restickify, torch.clone),
    "to_dtype": (lambda x: spyre.to_dtype_cpu(x, torch.float32), torch.Tensor.float),
    "constant": (
        lambda x: x * spyre.constant(2.5, HALF, x.device),
        lambda x: x * 2.5,
    ),
    "overwrite_f": (
        lambda x: spyre.overwrite_f(x[:2, :5], x, [0, 1], [1, 64]),
        lambda x: x.slice_scatter(x[1:3].slice_scatter(x[:2, :5], 1, 64, 69), 0, 1, 3),
    ),
    "fp8": (
        lambda x: spyre.dequantize_fp8_with_scale(
            spyre.quantize_fp8_with_scale(x, x[:, :1].abs() + 1), x[:, :1].abs() + 1
        ),
        lambda x: (x / (x[:, :1].abs() + 1)).to(torch.float8_e4m3fn).to(x) * (x[:, :1].abs() + 1),
    ),
    "qfp8ch": (
        lambda x: spyre.qfp8ch(x * 400).to(HALF) / 400,
        lambda x: (x * 400).clamp(-448, 448).to(torch.float8_e4m3fn).to(x) / 400,
    ),
}


@pytest.mark.host("aten.clone")
@pytest.mark.parametrize("form", ["eager", "compiled", "fake"])
@pytest.mark.parametrize("name", CALLS)
def test_calls(name, form):
    ours, meaning = CALLS[name]
    x = numbers(5, 70)
    expected = meaning(x)
    if form == "fake":
        with FakeTensorMode() as mode:
            actual = ours(mode.from_tensor(x))
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        return
    actual = (ours if form == "eager" else torch.compile(ours))(x.to("spyre"))
    assert actual.device.type == "spyre" and actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected, atol=3e-2, rtol=7e-2)


def test_indices_of_the_largest_come_in_the_dtype_of_the_values():
    x = torch.stack([torch.randperm(70) for _ in range(3)]).to(HALF)
    indices = spyre.topkindex(x.to("spyre"), 2, 1)
    assert indices.dtype == HALF and torch.equal(indices.cpu().long(), x.topk(2).indices)


@pytest.mark.host("aten.im2col")
def test_unfold_is_im2col():
    x = numbers(2, 3, 6, 7)
    actual = spyre.unfold(x.to("spyre"), [3, 3], [1, 1], [1, 1], [2, 2])
    torch.testing.assert_close(actual.cpu(), F.unfold(x, 3, 1, 1, 2), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("compiled", [False, True])
def test_writes(compiled):
    def function(part, whole):
        spyre.overwrite(part, whole, [1], [3])
        return whole + 1

    part, whole = numbers(4, 9), numbers(4, 70)
    target = whole.to("spyre")
    with pytest.warns(DeprecationWarning, match="spyre::overwrite"):
        result = (torch.compile(function) if compiled else function)(part.to("spyre"), target)
    whole[:, 3:12] = part
    assert torch.equal(target.cpu(), whole)
    torch.testing.assert_close(result.cpu(), whole + 1, atol=1e-2, rtol=1e-2)
    spyre.copy_from_d2d(part.to("spyre"), target[:, :9])
    assert torch.equal(target[:, :9].cpu(), part)


def test_empty():
    x = spyre.empty([2, 3], torch.device("spyre"), HALF)
    assert (x.device.type, x.shape, x.dtype) == ("spyre", (2, 3), HALF)


def test_refusals():
    x = numbers(3, 4, 70).to("spyre")
    for norm in (spyre.layer_norm, spyre.rms_norm):
        with pytest.raises(torch_spyre.Unsupported, match="normalized_shape of length 2"):
            norm(x, [4, 70])
    steps = {
        "exx2": lambda x: spyre.exx2(x, 1 / 70, False),
        "layernormscale": lambda x: spyre.layernormscale(x, 1e-5),
        "layernormnorm": lambda x: spyre.layernormnorm(x, x, x, None, None),
    }
    for name, step in steps.items():
        with pytest.raises(torch_spyre.Unsupported, match=f"spyre::{name} is a step"):
            step(x)
        assert step(x.to("meta")).shape == ((3, 4) if name == "exx2" else (3, 4, 70))
