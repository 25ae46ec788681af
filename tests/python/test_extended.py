# SPDX-License-Identifier: Apache-2.0
"""The profile `extended`: float32 products and functions on the card, nothing on the host."""

import pytest
import torch
import torch_spyre
from test_functions import BINARY, UNARY
from torch.nn import functional as F

TO_BOOL = {"signbit", "isposinf", "isneginf"}


@pytest.fixture
def extended():
    torch._dynamo.reset()
    with torch_spyre.config.patch(profile="extended", fallback="error"):
        yield


def on_card(x):
    return x.to("spyre") if isinstance(x, torch.Tensor) else x


def check(function, *operands, ulps=2.0, compiled=True):
    """Against float64 on the CPU, in units of the last place of the largest result, or, of one
    element's functions, of each."""
    expected = function(*[x.double() if x.is_floating_point() else x for x in operands])
    given = [on_card(x) for x in operands]
    functions = [function, torch.compile(function, dynamic=False)] if compiled else [function]
    for each in functions:
        actual = each(*given)
        assert actual.device.type == "spyre" and actual.dtype is torch.float32
        size = expected.abs().amax() if ulps > 2 else expected.abs()
        bound = ulps * 2.0**-23 * size + 2.0**-149
        wrong = (actual.cpu().double() - expected).abs() > bound
        assert not wrong.any(), (actual.cpu()[wrong][:3], expected[wrong][:3])


@pytest.mark.parametrize("name", [name for name in UNARY if name not in TO_BOOL])
def test_functions_of_one_operand(extended, name):
    function, values = UNARY[name]
    check(function, values(33, 70), compiled=False)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands(extended, name):
    function, values = BINARY[name]
    check(function, values(33, 70), values(33, 70), compiled=False)


FUNCTIONS = (torch.log, torch.tanh, torch.sin, torch.cos, torch.tan, torch.atan, torch.erf,
             torch.erfc, torch.exp2, torch.expm1, torch.log1p, torch.log2, torch.log10, torch.ceil,
             torch.round, torch.sign, F.gelu, F.silu, F.mish, F.softplus, F.hardswish)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_are_one_kernel(extended, function):
    check(function, torch.rand(33, 70) + 0.05)
    report = torch_spyre.last_report()
    assert report.nodes_on_host == 0
    assert report.kernels == 1


@pytest.mark.parametrize("k", (1, 31, 32, 33, 700))
def test_products(extended, k):
    check(torch.mm, torch.randn(5, k), torch.randn(k, 37), ulps=2 + k)
    check(torch.matmul, torch.randn(3, 2, 9, k), torch.randn(2, k, 65), ulps=2 + k)
    check(F.linear, torch.randn(4, 9, k), torch.randn(35, k), torch.randn(35), ulps=2 + k)


def test_sums_go_along_k_in_fp32():
    """The definition: acc = fma(a, b, acc) with k ascending."""
    x, y = torch.randn(3, 100), torch.randn(100, 2)
    expected = torch.zeros(3, 2, dtype=torch.float64)
    for k in range(100):  # a product of two floats, and its sum with one, is rounded once
        expected = (x[:, k, None].double() * y[None, k].double() + expected).float().double()
    with torch_spyre.config.patch(profile="extended"):
        actual = torch.mm(x.to("spyre"), y.to("spyre")).cpu()
    # float64 rounds before float32 does: once in 2^29.
    assert torch.equal(actual.double(), expected)


def test_convolutions_and_pooling(extended):
    x, w = torch.randn(2, 4, 11, 9), torch.randn(6, 4, 3, 3)
    check(lambda x, w: F.conv2d(x, w, padding=1), x, w, ulps=40)
    check(lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=2), x, w, ulps=40)
    check(lambda x: F.max_pool2d(x, 3, 2), x)
    check(F.conv1d, torch.randn(2, 4, 30), torch.randn(5, 4, 3), ulps=20)


@pytest.mark.parametrize("causal", (False, True))
def test_attention(extended, causal):
    q, k, v = (torch.randn(2, 4, 33, 16) for _ in range(3))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), q, k, v,
          ulps=60)  # fmt: skip


class Encoder(torch.nn.Module):
    """Layers of most kinds."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 64)
        self.layer = torch.nn.TransformerEncoderLayer(
            64, 4, 128, dropout=0.0, activation="gelu", batch_first=True
        )
        self.mix = torch.nn.Conv1d(64, 64, 3, padding=1)
        self.head = torch.nn.Linear(64, 7)

    def forward(self, ids):
        x = self.layer(self.words(ids))
        x = torch.tanh(self.mix(x.mT)).amax(-1)
        return torch.log_softmax(self.head(x), -1)


def losses(device, compiled):
    torch.manual_seed(3)
    model = Encoder()
    ids, classes = torch.randint(0, 50, (4, 10)), torch.randint(0, 7, (4,))
    model, ids, classes = model.to(device), ids.to(device), classes.to(device)
    run = torch.compile(model, dynamic=False) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.nll_loss(run(ids), classes)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("compiled", (False, True))
def test_a_model_as_pytorch_makes_it_learns_on_the_card(extended, compiled):
    """Default dtype, forward, backward and optimizer."""
    assert losses("spyre", compiled) == pytest.approx(losses("cpu", False), rel=2e-4)


def test_reports_name_what_needs_it(extended):
    x = torch.randn(9, 40, device="spyre")
    torch.compile(lambda x: torch.tanh(x @ x.mT) + torch.exp(x[:, :9]), dynamic=False)(x)
    text = torch_spyre.last_report().text
    assert "extended batchmatmul of float32" in text and "extended tanh of float32" in text
    assert "extended exp" not in text


def test_it_is_never_the_default():
    x = torch.randn(9, 40, device="spyre")
    refused = pytest.raises(torch_spyre.FallbackError, match="erf on float32")
    with torch_spyre.config.patch(fallback="error"), refused:
        torch.erf(x)


@pytest.mark.parametrize("function", (torch.tanh, lambda x: x @ x.mT), ids=("tanh", "product"))
def test_published_opfuncs_alone_leave_it_out(extended, function):
    x = torch.randn(9, 40, device="spyre")
    refused = pytest.raises(torch_spyre.FallbackError, match="(tanh|batchmatmul) on float32")
    with torch_spyre.config.patch(published_opfuncs=True), refused:
        torch.compile(function, dynamic=False)(x)


@pytest.mark.parametrize("setting", ({"profile": "extended"}, {"published_opfuncs": True}), ids=str)
def test_a_changed_setting_reaches_operators_that_ran_before(setting):
    """erf is an own opfunc in 16 bits and an extended one in 32."""
    dtype = torch.float32 if "profile" in setting else torch.float16
    x = torch.rand(9, 40).to(dtype).to("spyre")

    def is_refused():
        with torch_spyre.config.patch(fallback="error"):
            try:
                torch.erf(x)
            except torch_spyre.FallbackError:
                return True
        return False

    before = is_refused()
    with torch_spyre.config.patch(setting):
        assert is_refused() is not before
        assert is_refused() is not before
    assert is_refused() is before


def test_profiles_have_names():
    with pytest.raises(ValueError, match="config.profile='wide': expected one of card extended"):
        torch_spyre.config.profile = "wide"
