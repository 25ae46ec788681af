# SPDX-License-Identifier: Apache-2.0
"""Formulas that subtract numbers of one size: norms, variances, expm1 in elu, lerp.

The reference is computed in float64 from the operands as the card holds them. An error is counted
in units of the result's format, scaled by the condition: for a norm the deviations are known to a
unit, and a unit of the deviation, times the weight, is a unit of the result."""

import pytest
import torch
import torch.nn.functional as F

# The distance between 1 and the next number: SEN169_FP16 has 9 bits of fraction; a bfloat16
# result keeps 7 of them on the host.
UNIT = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-23}
DTYPES = list(UNIT)
MEANS = [0, 1, 10, 30, 100, 1000, 2**15]
WIDTHS = [2, 3, 64, 65, 768, 4096]


def on_card(x, dtype):
    """The tensor on the card, and its values there in float64."""
    x = x.to(dtype).to("spyre")
    return x, x.cpu().double()


def rows(mean, width, dtype, count=5):
    generator = torch.Generator().manual_seed(width)
    return on_card(torch.randn(count, width, generator=generator) + mean, dtype)


def assert_units(actual, expected, condition, dtype, most):
    """|actual - expected| is at most `most` units of `condition`, element by element."""
    error = (actual.cpu().double() - expected).abs()
    units = torch.where(error == 0, 0, error / (UNIT[dtype] * condition))
    assert units.max() <= most, units.max()


def units_of_sums(width, dtype):
    """Sums of float32 are rounded as they grow, those of 16 bits at the end."""
    return 3 + (width / 1024 if dtype == torch.float32 else 0)


def variance(x, dims=-1, correction=0):
    return x.var(dims, correction=correction, keepdim=True)


def normalized(x, eps):
    return (x - x.mean(-1, keepdim=True)) / (variance(x) + eps).sqrt()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_layer_norm(width, dtype):
    weight, wide_weight = on_card(torch.rand(width) + 0.5, dtype)
    bias, wide_bias = on_card(torch.rand(width) - 0.5, dtype)
    for mean in MEANS:
        x, wide = rows(mean, width, dtype)
        expected = normalized(wide, 1e-5)
        plain = F.layer_norm(x, [width])
        assert_units(plain, expected, 1 + expected.abs(), dtype, units_of_sums(width, dtype))
        affine = F.layer_norm(x, [width], weight, bias)
        condition = wide_weight * (1 + expected.abs()) + wide_bias.abs()
        expected = expected * wide_weight + wide_bias
        assert_units(affine, expected, condition, dtype, units_of_sums(width, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compiled_layer_norm(dtype):
    torch._dynamo.reset()
    for width in (3, 64, 768):
        compiled = torch.compile(lambda x, width=width: F.layer_norm(x, [width]), dynamic=False)
        for mean in (0, 30, 1000, 2**15):
            x, wide = rows(mean, width, dtype)
            expected = normalized(wide, 1e-5)
            assert_units(compiled(x), expected, 1 + expected.abs(), dtype, 3)


def test_rows_between_two_neighbours():
    """The worst rows for a rounded mean: half of them one value, half the next one."""
    for start in (1.0, 512.0, 2.0**15):
        step = start * UNIT[torch.float16]
        x, wide = on_card(start + step * (torch.arange(768) % 2).expand(3, -1), torch.float16)
        assert wide.unique().numel() == 2
        expected = normalized(wide, 0)
        assert_units(F.layer_norm(x, [768], eps=0), expected, 1.0, torch.float16, 4)
        assert_units(x.var(-1), variance(wide, correction=1)[:, 0], variance(wide)[:, 0],
                     torch.float16, 4)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_statistics_of_layer_norm(dtype):
    """Mean and 1 / deviation are float32, and the backward pass reads them."""
    for width in (3, 768):
        for mean in MEANS:
            x, wide = rows(mean, width, dtype)
            _y, average, scale = torch.native_layer_norm(x, [width], None, None, 1e-5)
            deviation = (variance(wide) + 1e-5).sqrt()
            assert average.dtype == scale.dtype == torch.float32
            # As exact as float32 can say it; of float32 no better than sums of it.
            rounding = abs(mean) * (8 if dtype == torch.float32 else 2.0**-12)
            expected = wide.mean(-1, keepdim=True)
            assert_units(average, expected, deviation + rounding, dtype, 2)
            assert_units(scale, 1 / deviation, 1 / deviation, dtype, 3)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_layer_norm_backward(dtype, compiled):
    torch._dynamo.reset()
    norm = torch.compile(F.layer_norm, dynamic=False) if compiled else F.layer_norm
    for mean in (0, 30, 1000):
        x, wide = rows(mean, 768, dtype)
        outer, wide_outer = on_card(torch.randn(x.shape), dtype)
        x.requires_grad_()
        wide.requires_grad_()
        norm(x, [768]).backward(outer)
        F.layer_norm(wide, [768]).backward(wide_outer)
        deviation = variance(wide.detach()).sqrt()
        # The mean that is saved for the backward pass is a float32.
        saved = 1 + abs(mean) * 2.0**-23 / UNIT[dtype]
        size = (1 + wide_outer.abs()) * (1 + normalized(wide.detach(), 1e-5).abs())
        condition = saved * size
        assert_units(x.grad, wide.grad, condition / deviation, dtype, 4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mean", MEANS)
def test_variances(mean, dtype):
    for width in WIDTHS:
        x, wide = rows(mean, width, dtype)
        for correction in (0, 1):
            expected = variance(wide, correction=correction)[:, 0]
            for actual in (
                torch.var(x, -1, correction=correction),
                torch.var_mean(x, -1, correction=correction)[0],
                torch.std(x, -1, correction=correction).square(),
            ):
                condition = expected + variance(wide)[:, 0]
                assert_units(actual, expected, condition, dtype, units_of_sums(width, dtype))
        over_all = wide.var()
        most = units_of_sums(wide.numel(), dtype)
        assert_units(torch.var(x), over_all, over_all, dtype, most)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mean", [0, 30, 1000])
def test_norms_of_layers(mean, dtype):
    x, wide = on_card(torch.randn(2, 6, 8, 8) + mean, dtype)
    for groups, actual in (
        (2, F.group_norm(x, 2)),
        (6, F.instance_norm(x)),
        (6, F.group_norm(x, 6)),
    ):
        expected = F.group_norm(wide, groups)
        assert_units(actual, expected, 1 + expected.abs(), dtype, 4)


@pytest.mark.host("aten.gt.Scalar")  # of celu as PyTorch takes it apart, in float32
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elu_of_small_numbers(dtype, compiled):
    torch._dynamo.reset()
    x, wide = on_card(-torch.logspace(-9 if dtype == torch.float32 else -4, 1.5, 200), dtype)
    for function in (F.elu, F.selu, F.celu):
        expected = function(wide)
        actual = (torch.compile(function, dynamic=False) if compiled else function)(x)
        assert_units(actual, expected, expected.abs() + UNIT[dtype] * 2.0**-22, dtype, 4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_expm1_of_small_numbers(dtype, compiled):
    torch._dynamo.reset()
    sizes = torch.logspace(-9 if dtype == torch.float32 else -4, 1, 200)
    x, wide = on_card(torch.cat((-sizes, sizes)), dtype)
    expected = torch.expm1(wide)
    actual = (torch.compile(torch.expm1, dynamic=False) if compiled else torch.expm1)(x)
    # A unit of x is x e^x units of the result.
    condition = expected.abs() + (1 + expected) * wide.abs()
    assert_units(actual, expected, condition, dtype, 4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lerp_between_numbers_of_other_sizes(dtype):
    x, wide_x = on_card(torch.tensor([1000.0, -3e4, 0.01, 7.0]), dtype)
    y, wide_y = on_card(torch.tensor([0.1, 1e-3, 2e4, 7.0]), dtype)
    for number in (0.0, 0.25, 0.5, 0.75, 0.96875, 1.0):
        weight, wide_weight = on_card(torch.full((4,), number), dtype)
        expected = torch.lerp(wide_x, wide_y, wide_weight)
        condition = (wide_x * (1 - number)).abs() + (wide_y * number).abs()
        assert_units(torch.lerp(x, y, number), expected, condition, dtype, 3)
        assert_units(torch.lerp(x, y, weight), expected, condition, dtype, 3)


# --- Sums of squares, which leave the range of 16 bits long before their roots do

LENGTHS = {
    "norm": lambda x: x.norm(dim=-1),
    "norm of columns": lambda x: torch.linalg.vector_norm(x, dim=0),
    "norm of all": lambda x: torch.linalg.vector_norm(x),
    "order 3": lambda x: torch.linalg.vector_norm(x, 3, dim=-1),
    "order 0.5": lambda x: torch.linalg.vector_norm(x, 0.5, dim=-1),
    "matrix norm": lambda x: torch.linalg.matrix_norm(x),
    "std": lambda x: x.std(-1),
    "std of columns": lambda x: x.std(0),
    "pairwise": lambda x: F.pairwise_distance(x, -x, eps=0),
    "cdist": lambda x: torch.cdist(x, -x),
    "dist": lambda x: torch.dist(x, -x),
    "several": lambda x: torch.stack(torch._foreach_norm([x, -x])),
}
SIDES = {
    "normalize": lambda x: F.normalize(x, dim=-1),
    "normalized columns": lambda x: F.normalize(x, dim=0),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(0), dim=-1, eps=2.0**-20),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [2.0**-16, 2.0**-12, 1, 2.0**9])
@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_of_small_and_large_values(name, scale, dtype):
    torch._dynamo.reset()
    x, wide = on_card(torch.randn(9, 40, generator=torch.Generator().manual_seed(1)) * scale, dtype)
    expected = LENGTHS[name](wide).clamp(max=torch.finfo(dtype).max)
    for function in (LENGTHS[name], torch.compile(LENGTHS[name], dynamic=False)):
        result = function(x).cpu().double().clamp(max=torch.finfo(dtype).max)
        error = (result - expected).abs()
        assert (error <= 2.0**-6 * expected + scale * 2.0**-8).all(), (error / expected).max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [2.0**-16, 2.0**-12, 1, 2.0**9])
@pytest.mark.parametrize("name", SIDES)
def test_directions_of_small_and_large_values(name, scale, dtype):
    x, wide = on_card(torch.randn(9, 40, generator=torch.Generator().manual_seed(2)) * scale, dtype)
    expected = SIDES[name](wide)
    assert (SIDES[name](x).cpu().double() - expected).abs().max() <= 2.0**-6


def test_clipped_gradients_may_be_small():
    parameters = [torch.nn.Parameter(torch.ones(64, 64).half().to("spyre")) for _ in range(2)]
    for p in parameters:
        p.grad = torch.full_like(p, 1e-5)
    total = torch.nn.utils.clip_grad_norm_(parameters, 1e-4)
    assert abs(total.item() - 1e-5 * 8192**0.5) < 1e-5
    assert abs(parameters[0].grad.norm().item() - 1e-4 / 2**0.5) < 2e-6
