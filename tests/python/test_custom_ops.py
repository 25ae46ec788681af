# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre: on the card, eager and compiled, what PyTorch's operators give on the CPU."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from inputs import HALF, numbers
from torch._subclasses.fake_tensor import FakeTensorMode

spyre = torch.ops.spyre


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


KEPT = torch.tensor([0, 3, 69])


def image(x):
    """Two filters of 3 x 3."""
    return x[:2, :9].reshape(2, 1, 3, 3)


def heads(x):
    """Queries of four heads, keys and values of two."""
    split = x[:, :64].reshape(1, 5, 4, 16).transpose(1, 2)
    return split, split[:, :2] * 0.5, split[:, 2:]


def pair(x):
    """Both sides of a product of float8, [16, 64] x [64, 16]."""
    rows = (x.repeat(4, 1)[:16] / 4).to(torch.float8_e4m3fn)
    return rows[:, :64], rows[:, 6:].t()


def product(a, b):
    return (a.float() @ b.float()).to(HALF)


# The operator, and what it means in PyTorch's words.
CALLS = {
    "softplus": (lambda x: spyre.softplus(x, 2.0, 10.0), lambda x: F.softplus(x, 2.0, 10.0)),
    "gelu": (lambda x: spyre.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "silu": (spyre.silu, F.silu),
    "clamp": (lambda x: spyre.clamp(x, min=-0.5), lambda x: x.clamp(min=-0.5)),
    "clamp_nothing": (spyre.clamp, torch.clone),
    "opaque_copy_": (lambda x: spyre.opaque_copy_(x * 2, x), lambda x: x * 2),
    "stagger_to_standard_ea": (lambda x: spyre.stagger_to_standard_ea(x.t()), lambda x: x.t()),
    "logical_not": (spyre.logical_not, torch.logical_not),
    "layer_norm": (
        lambda x: spyre.layer_norm(x, [70], x[0], None, 1e-5),
        lambda x: F.layer_norm(x, [70], x[0], None, 1e-5),
    ),
    "counted_layer_norm": (
        lambda x: spyre.counted_layer_norm(
            x - x.mean(-1, True), torch.tensor(1 / 70).to(x.device), None, x[0], 1e-5
        ),
        lambda x: F.layer_norm(x, [70], None, x[0], 1e-5),
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
    "conv2d": (
        lambda x: spyre.conv2d(x[None, None], image(x), [1, 2], [1, 1], [1, 1], 1),
        lambda x: F.conv2d(x[None, None], image(x), None, (1, 2), 1),
    ),
    "conv2d_with_bias": (
        lambda x: spyre.conv2d_with_bias(
            x[None, None], image(x), x[0, :2], [1, 1], [0, 0], [1, 2], 1
        ),
        lambda x: F.conv2d(x[None, None], image(x), x[0, :2], 1, 0, (1, 2)),
    ),
    "prod_dim_int": (lambda x: spyre.prod_dim_int(x, 0, True), lambda x: x.prod(0, True)),
    "keep_by_index": (
        lambda x: spyre.keep_by_index(x, torch.tensor([[0, 3, 69]] * 5).to(x.device), 1, -1.0),
        lambda x: torch.full_like(x, -1.0).index_copy(1, KEPT, x[:, KEPT]),
    ),
    "compact": (lambda x: spyre.compact(x[:, 3:9]), lambda x: x[:, 3:9].clone()),
    "tile_dim_marker": (lambda x: spyre.tile_dim_marker(x, 0) + 1, lambda x: x + 1),
    "to_dtype_d2d": (
        lambda x: spyre.to_dtype_d2d(x[1:], torch.float32, 70),
        lambda x: x[1:].float(),
    ),
    "copy_forced": (lambda x: spyre.copy_forced(x[0], x), lambda x: x[0].expand(5, 70).clone()),
    "causal_mask": (
        lambda x: x + spyre.causal_mask(5, 70, x.dtype, x.device)[0, 0].clamp(-9, 0),
        lambda x: x - 9 * torch.ones(5, 70).triu(1).to(x),
    ),
    "sliding_window_attention": (
        lambda x: spyre.sliding_window_attention(*heads(x), x.new_zeros(1, 1, 5, 5), 5, False, 0.5),
        lambda x: F.scaled_dot_product_attention(*heads(x), scale=0.5, enable_gqa=True),
    ),
    "kv_window": (
        lambda x: torch.cat(spyre.kv_window(x[None, None], x[None, None] + 1, 1, 3, 4)),
        lambda x: torch.stack((x[None, 1:4], x[None, 1:4] + 1)),
    ),
    "quantscalepertokenfp8": (
        lambda x: spyre.quantscalepertokenfp8(x, 4.0),
        lambda x: x.abs().amax(1, keepdim=True) / 4,
    ),
    "qfp8wt": (
        lambda x: spyre.qfp8wt(x).to(HALF),
        lambda x: x.to(torch.float8_e4m3fn).to(x),
    ),
    "scaled_mm": (lambda x: spyre.scaled_mm(*pair(x)), lambda x: product(*pair(x))),
    "scaled_mm_of_a_batch": (
        lambda x: spyre.scaled_mm(pair(x)[0].expand(2, 16, 64), pair(x)[1]),
        lambda x: product(*pair(x)).expand(2, 16, 16),
    ),
    "scaled_mm_of_batches": (
        lambda x: spyre.scaled_mm(*(side.expand(2, *side.shape) for side in pair(x))),
        lambda x: product(*pair(x)).expand(2, 16, 16),
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


# What the table does not call: steps without values, results that are no tensor of the same shape,
# writes.
ELSEWHERE = """exx2 layernormscale layernormnorm topkindex unfold empty overwrite copy_from_d2d
name_dims quantize_weight_fp8_with_scale"""


def test_every_operator_is_called():
    from torch_spyre.compile import customops

    names = {name.split(".")[1] for name, _ in customops.composites()}
    called = {word for functions in CALLS.values() for word in names_in(functions[0])}
    assert names <= called | set(ELSEWHERE.split())
    for name in names:
        assert isinstance(getattr(spyre, name).default, torch._ops.OpOverload)
        assert callable(getattr(customops, name))


def names_in(function):
    if isinstance(function, torch._ops.OpOverloadPacket):
        return {str(function).split(".")[1]}
    return set(function.__code__.co_names)


def test_indices_of_the_largest_come_in_the_dtype_of_the_values():
    x = torch.stack([torch.randperm(70) for _ in range(3)]).to(HALF)
    indices = spyre.topkindex(x.to("spyre"), 2, 1)
    assert indices.dtype == HALF and torch.equal(indices.cpu().long(), x.topk(2).indices)


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


@pytest.mark.parametrize(
    ("wrong", "text"),
    {
        "ub": (lambda x: spyre.quantscalepertokenfp8(x, 0.0), "scale_ub must be positive, not 0"),
        "dims": (lambda x: spyre.quantscalepertokenfp8(x[0, 0]), "at least one dim, not 0"),
        "window": (
            lambda x: spyre.kv_window(x[None, None], x[None, None], 4, 3, 4),
            "rows 4..7 of a cache of 5",
        ),
        "heads": (
            lambda x: spyre.kv_window(x.view(1, 5, 7, 10), x.view(1, 5, 7, 10), 0, 3, 4),
            "4 heads of queries are no multiple of 5",
        ),
        "batch": (
            lambda x: spyre.scaled_mm(pair(x)[0][None], pair(x)[1].expand(2, 64, 16)),
            "expected as many matrices",
        ),
    }.values(),
    ids="ub dims window heads batch".split(),
)
def test_wrong_arguments(wrong, text):
    with pytest.raises(ValueError, match=text):
        wrong(numbers(5, 70).to("spyre"))


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


def test_constants_by_torch_spyres_module_name():
    from torch_spyre import constants
    from torch_spyre._inductor.constants import DLFLOAT16_MAX, FP8_E4M3FN_MAX

    assert FP8_E4M3FN_MAX == torch.finfo(torch.float8_e4m3fn).max == -constants.FP8_E4M3FN_MIN
    # The largest number of a float32 that becomes float16 on the card, and comes back.
    most = torch.tensor([[DLFLOAT16_MAX, 2 * DLFLOAT16_MAX]], device="spyre").half().float()
    assert most.cpu()[0, 0] == DLFLOAT16_MAX


@torch.library.custom_op("foreign::turned", mutates_args=())
def turned(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of no device in particular: its parts are the device's, and lie as they come."""
    assert x.device.type == "spyre"
    return (x * 3).t(), x.t().clone(memory_format=torch.contiguous_format).t()


@turned.register_fake
def _(x):
    return torch.empty_like(x).t(), torch.empty_like(x)


@torch.library.custom_op("foreign::of_the_card", mutates_args=(), device_types="spyre")
def of_the_card(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


@of_the_card.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("foreign::of_the_host", mutates_args=(), device_types="cpu")
def of_the_host(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@of_the_host.register_fake
def _(x):
    return torch.empty_like(x)


def test_operators_of_libraries_run_on_the_card_in_graphs_as_alone():
    def between(x):
        a, b = turned(x + 1)
        c = of_the_card(a * 0.1)
        return a, b * 2, c + b.t()

    x = numbers(8, 70).to("spyre")
    torch_spyre.reset_fallback_report()
    expected = between(x)
    found = torch.compile(between)(x)
    assert not torch_spyre.fallback_report()
    for one, other in zip(found, expected, strict=True):
        assert one.device.type == "spyre"
        assert torch.equal(one.cpu(), other.cpu())


def test_operators_of_libraries_that_the_host_alone_has_run_there():
    x = numbers(8, 70).to("spyre")
    with torch_spyre.fallback("silent"):
        found = torch.compile(lambda x: of_the_host(x * 2))(x)
    assert torch.equal(found.cpu(), (x * 2 + 1).cpu())
