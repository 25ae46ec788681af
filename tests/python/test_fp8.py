# SPDX-License-Identifier: Apache-2.0
"""float8_e4m3fn on the card: every code, conversions and matrix products as PyTorch has them."""

import pytest
import torch

FP8, HALF, BF16, FLOAT = torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float32
CODES = torch.arange(256, dtype=torch.uint8).view(FP8)
FINITE = ~CODES.to(FLOAT).isnan()

pytestmark = pytest.mark.filterwarnings("error::torch_spyre.FallbackWarning")


def bits(x):
    return x.cpu().contiguous().view(torch.uint8)


def test_every_code_is_copied():
    s = CODES.to("spyre")
    square = CODES.view(16, 16).to("spyre")
    assert s.dtype == FP8 and torch.equal(bits(s), bits(CODES))
    assert torch.equal(bits(s.clone()), bits(CODES))
    assert torch.equal(bits(square.t().contiguous()), bits(CODES.view(16, 16).t()))
    assert torch.equal(bits(square[3:9, 2:].clone()), bits(CODES.view(16, 16)[3:9, 2:]))
    joined = torch.compile(lambda x: torch.cat([x, x[:, :5]], 1))(square)
    assert torch.equal(bits(joined), bits(torch.cat([square.cpu(), square.cpu()[:, :5]], 1)))
    rows = torch.tensor([5, 0, 5])
    picked = torch.compile(lambda x, i: torch.index_select(x, 0, i))(square, rows.to("spyre"))
    assert torch.equal(bits(picked), bits(square.cpu()[rows]))


@pytest.mark.parametrize("dtype", [HALF, BF16, FLOAT])
def test_every_code_is_converted(dtype):
    """In 16 bits the card has no NaN of its own: it is infinity there."""
    wide = CODES.to("spyre").to(dtype)
    assert torch.equal(wide.cpu()[FINITE], CODES.to(dtype)[FINITE])
    assert torch.equal(bits(wide.to(FP8))[FINITE], bits(CODES)[FINITE])
    special = wide.cpu()[~FINITE]
    assert bool(special.isnan().all() if dtype == FLOAT else special.isinf().all())


@pytest.mark.parametrize("dtype", [HALF, BF16, FLOAT])
def test_rounding_and_overflow(dtype):
    values = CODES[FINITE].to(torch.float64).unique()
    middle = (values[1:] + values[:-1]) / 2
    around = [values, middle, middle * (1 + 2**-9), middle * (1 - 2**-9)]
    edge = torch.tensor([464.0, 465.0, -464.0, -480.0, 500.0, 1e4, torch.inf, -torch.inf])
    wide = torch.randn(3000) * torch.randn(3000).mul(3).exp()
    x = torch.cat([*around, edge, wide]).to(dtype).to("spyre")
    assert torch.equal(bits(x.to(FP8)), bits(x.cpu().to(FP8)))


def test_integers_and_bools():
    x = torch.randint(-500, 500, (300,), dtype=torch.int32)
    s = x.to("spyre").to(FP8)
    assert torch.equal(bits(s), bits(x.to(FP8)))
    known = CODES[FINITE].to("spyre")
    assert torch.equal(known.to(torch.int32).cpu(), CODES[FINITE].to(torch.int32))
    assert torch.equal(known.to(torch.bool).cpu(), CODES[FINITE].to(torch.bool))


def scaled(x, weight, scale_a, scale_b, bias=None, out_dtype=HALF):
    return torch._scaled_mm(x, weight.t(), scale_a, scale_b, bias, out_dtype=out_dtype)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(16, 64, 32), (6, 300, 129), (1, 16, 1), (130, 128, 256)]
)
def test_scaled_product(m, k, n, rows):
    x, weight = torch.randn(m, k).to(FP8), torch.randn(n, k).to(FP8)
    a = torch.rand(m, 1) + 0.5 if rows else torch.tensor(0.5)
    b = torch.rand(1, n) + 0.5 if rows else torch.tensor(3.0)
    bias = torch.randn(n).to(HALF)
    torch._dynamo.reset()
    compiled = torch.compile(scaled)
    exact = (x.double() @ weight.double().t()) * a.double() * b.double()
    cards = [t.to("spyre") for t in (x, weight, a, b)]
    assert torch.allclose(compiled(*cards, out_dtype=FLOAT).cpu().double(), exact, 1e-5, 1e-5)
    half = compiled(*cards, bias.to("spyre"))
    assert half.dtype == HALF
    assert torch.allclose(half.cpu().double(), exact + bias.double(), 0.002, 0.01)


def test_against_pytorch_and_eager():
    x, weight = torch.randn(32, 64).to(FP8), torch.randn(48, 64).to(FP8)
    a, b = torch.tensor(0.25), torch.tensor(0.5)
    expected = scaled(x, weight, a, b, out_dtype=FLOAT)
    cards = [t.to("spyre") for t in (x, weight, a, b)]
    assert torch.allclose(scaled(*cards, out_dtype=FLOAT).cpu(), expected, 1e-6, 1e-6)


def test_a_quantised_linear_layer():
    """Scales, weights and activations as torch-spyre's documentation has them."""

    def layer(x, weight, scale_b):
        scale_a = x.abs().amax() / 448.0
        q = torch.ops.spyre.quantize_fp8_with_scale(x, scale_a)
        w = torch.ops.spyre.quantize_weight_fp8_with_scale(weight, scale_b)
        return torch._scaled_mm(q, w, scale_a, scale_b, out_dtype=HALF)

    x, weight = torch.randn(20, 96).to(HALF), torch.randn(96, 80).to(HALF)
    scale = (weight.abs().amax() / 448).reshape(1)
    actual = torch.compile(layer)(*[t.to("spyre") for t in (x, weight, scale)])
    error = actual.cpu().float() - x.float() @ weight.float()
    assert error.abs().mean() < 0.04 * (x.float() @ weight.float()).abs().mean()


@pytest.mark.parametrize("dtype", [HALF, BF16, FLOAT])
def test_scaled_products_of_batches(dtype):
    x, y = (torch.randn(4, 5, 64), torch.randn(4, 64, 7))
    x, y = x.to(FP8), y.to(FP8)
    scale_a, scale_b = torch.tensor(0.5), torch.tensor(3.0)
    for right in (y[0], y):
        wide = torch.matmul(x.double(), right.double())
        for a, b in ((scale_a, scale_b), (torch.rand(4, 5, 1) + 0.5, torch.rand(1, 7) + 0.5)):
            operands = (t.to("spyre") for t in (x, right, a, b))
            result = torch._scaled_mm(*operands, out_dtype=dtype)
            assert result.dtype == dtype and result.shape == (4, 5, 7)
            torch.testing.assert_close(result.cpu().double(), wide * a * b, atol=0.05, rtol=0.01)
    with pytest.raises((RuntimeError, ValueError)):
        torch._scaled_mm(x.to("spyre"), y[:3].to("spyre"), scale_a.to("spyre"),
                         scale_b.to("spyre"), out_dtype=dtype)  # fmt: skip
