# SPDX-License-Identifier: Apache-2.0
"""Operators outside torch.compile, against the CPU."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from host_ops import HOST, on_host
from torch_spyre.compile import call_compiler

HALF = torch.float16


def both(*shapes, dtype=HALF):
    """Tensors on the CPU in float32, of values that the card's format holds, and on the card."""
    host = [(torch.randint(-64, 65, shape) / 32).to(dtype) for shape in shapes]
    return [x.float() for x in host], [x.to("spyre") for x in host]


def close(actual, expected, tolerance=1e-2):
    assert actual.device.type == "spyre"
    torch.testing.assert_close(
        actual.cpu().float(), expected.float(), atol=tolerance, rtol=tolerance
    )


UNARY = [
    "abs", "neg", "exp", "sqrt", "rsqrt", "reciprocal", "tanh", "floor", "ceil", "sign", "log",
    "relu", "sigmoid", "logical_not", "square",
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "gt", "lt", "ge", "le"]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    (x,), (y,) = both((5, 100))
    if name in ("sqrt", "rsqrt", "log", "reciprocal"):
        x, y = x.abs() + 1, (x.abs() + 1).half().to("spyre")
    close(getattr(torch, name)(y), getattr(torch, name)(x))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    (a, b), (x, y) = both((5, 100), (5, 100))
    if name == "div":
        b, y = b.abs() + 1, (b.abs() + 1).half().to("spyre")
    function = getattr(torch, name)
    close(function(x, y), function(a, b))
    if name not in ("maximum", "minimum"):
        close(function(x, 0.5), function(a, 0.5))
    close(function(x, y[:1]), function(a, b[:1]))


CALLS = {
    "softmax": lambda x: F.softmax(x, -1),
    "softmax_dim0": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "mish": F.mish,
    "clamp": lambda x: x.clamp(-0.5, 0.75),
    "pow": lambda x: x**2,
    "sum": lambda x: x.sum(),
    "sum_dim": lambda x: x.sum(0),
    "sum_last": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "cat": lambda x: torch.cat([x, x + 1], 1),
    "stack": lambda x: torch.stack([x, x], 0),
    "where": lambda x: torch.where(x > 0, x, -x),
    "masked_fill": lambda x: x.masked_fill(x < 0, 3.0),
    "transposed": lambda x: x.t() + x.t(),
    "sliced": lambda x: x[1:, 32:96] * 2,
    "expanded": lambda x: x[:1].expand(4, -1) + 1,
    "alpha": lambda x: torch.add(x, x, alpha=2),
    "rsub": lambda x: 1 - x,
    "max_dim": lambda x: x.max(1).values,
    "norm": lambda x: x.norm(dim=-1) / 8,
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=0),
    "to_float": lambda x: x.float(),
    "any": lambda x: (x > 1).any(),
    "cumprod": lambda x: x.cumprod(-1),
    "sort": lambda x: x.sort(-1).values,
    "full_like": lambda x: torch.full_like(x, 2.0),
    "trunc": torch.trunc,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "prelu": lambda x: F.prelu(x, x[0, :1]),
    "elu": lambda x: F.elu(x, 1.5),
    "selu": F.selu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "glu": F.glu,
    "addcmul": lambda x: torch.addcmul(x, x, x[0], value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5),
    "lerp": lambda x: torch.lerp(x, x[0], 0.25),
    "std": lambda x: x.std(-1),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    (x,), (y,) = both((5, 128))
    close(CALLS[name](y), CALLS[name](x), 3e-2)


@pytest.mark.parametrize("shape", [(5, 64, 96), (1, 100, 3), (130, 7, 65)])
def test_matmul(shape):
    m, k, n = shape
    (a, b, c), (x, y, z) = both((m, k), (k, n), (n,))
    scale = k**0.5
    close(x @ y / scale, a @ b / scale)
    close(torch.addmm(z, x, y) / scale, torch.addmm(c, a, b) / scale)
    close(F.linear(x, y.t().contiguous(), z) / scale, F.linear(a, b.t(), c) / scale)


def test_batches_of_matrices():
    (a, b), (x, y) = both((3, 2, 5, 64), (3, 2, 64, 32))
    close(torch.matmul(x, y) / 8, torch.matmul(a, b) / 8)
    close(torch.bmm(x[:, 0], y[:, 1]) / 8, torch.bmm(a[:, 0], b[:, 1]) / 8)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    (q, k, v), (a, b, c) = both((2, 4, 9, 32), (2, 4, 9, 32), (2, 4, 9, 32))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    close(F.scaled_dot_product_attention(a, b, c, is_causal=causal), expected, 2e-2)


@pytest.fixture
def only_on_card():
    """A fallback is an error."""
    with torch_spyre.fallback("error"):
        yield


@pytest.mark.usefixtures("only_on_card")
def test_layers_stay_on_the_card():
    (a, w), (x, y) = both((2, 4, 9, 32), (32,))
    close(F.scaled_dot_product_attention(x, x, x), F.scaled_dot_product_attention(a, a, a), 2e-2)
    close(F.layer_norm(x, (32,), y, y), F.layer_norm(a, (32,), w, w), 3e-2)
    close(F.rms_norm(x, (32,), y), F.rms_norm(a, (32,), w), 3e-2)
    for name in ("elu", "hardswish", "leaky_relu", "glu"):
        close(getattr(F, name)(x), getattr(F, name)(a), 3e-2)


def test_rms_norm_without_gradients_is_one_program_in_float32():
    x = torch.randn(8, 768, generator=torch.Generator().manual_seed(1)).half()
    w = torch.linspace(-2, 2, 768, dtype=torch.float16)
    calls = [(w, 1e-6), (None, 1e-6), (w, None)]
    for weight, eps in calls:
        expected = F.rms_norm(x.float(), (768,), None if weight is None else weight.float(), eps)
        on_card = None if weight is None else weight.to("spyre")
        F.rms_norm(x.to("spyre"), (768,), on_card, eps)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            actual = F.rms_norm(x.to("spyre"), (768,), on_card, eps)
        names = {event.key for event in profile.key_averages()}
        assert "aten::rms_norm" in names and not names & {"aten::rsqrt", "aten::mul", "aten::pow"}
        if eps is not None:  # by default that of the operand's dtype
            torch.testing.assert_close(actual.cpu().float(), expected, rtol=3e-3, atol=1e-3)
    grad = torch.ones(8, 768, dtype=torch.float16, device="spyre", requires_grad=True)
    F.rms_norm(grad, (768,)).sum().backward()
    assert grad.grad.abs().max() < 0.01


def test_layer_norm_is_differentiable():
    (a,), (x,) = both((3, 64))
    a.requires_grad_()
    x.requires_grad_()
    (F.layer_norm(a, (64,)) ** 3).mean().backward()
    (F.layer_norm(x, (64,)) ** 3).mean().backward()
    torch.testing.assert_close(x.grad.cpu().float(), a.grad, atol=2e-2, rtol=5e-2)


@pytest.mark.host("aten.remainder")
def test_numbers_leave_the_dtype_of_tensors_without_dims():
    for dtype in (HALF, torch.bfloat16, torch.float32):
        x = torch.tensor(1.5, dtype=dtype, device="spyre")
        for function in (lambda x: x + 0.25, lambda x: 2.0 / x, lambda x: x.remainder(0.5)):
            assert function(x).dtype == dtype
        assert (x + 0.25).item() == 1.75


@pytest.mark.usefixtures("only_on_card")
def test_cat_leaves_out_what_is_empty():
    (a,), (x,) = both((2, 70))
    empty = torch.empty(0, dtype=HALF, device="spyre")
    close(torch.cat([empty, x, x], -1), torch.cat([a, a], -1))
    assert torch.cat([torch.empty(0, device="spyre"), x]).dtype == torch.float32


POSITIONS = {
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(0, keepdim=True),
    "argmax of all": lambda x: x.argmax(),
    "max": lambda x: tuple(x.max(1)),
    "min": lambda x: tuple(x.min(-1, keepdim=True)),
}


@pytest.mark.usefixtures("only_on_card")
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_of_extremes_are_the_first(name):
    (_,), (y,) = both((3, 5, 130))
    for x in (y, y[:, :, :7].transpose(0, 2)):
        expected, actual = POSITIONS[name](x.cpu()), POSITIONS[name](x)
        for e, a in zip(_tuple(expected), _tuple(actual), strict=True):
            assert a.dtype == e.dtype and torch.equal(a.cpu(), e)


def test_position_of_nan():
    x = torch.ones(3, 70, dtype=HALF)
    x[1, 9] = x[2, 3] = float("nan")
    assert x.to("spyre").argmax(-1).cpu().tolist() == [0, 9, 3]


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


SLIDING = {
    "rows": lambda x: x.unfold(0, 2, 1) + 1,
    "steps": lambda x: x.unfold(1, 5, 3).clone(),
    "sum": lambda x: x.unfold(1, 4, 1).sum(-1),
    "both": lambda x: x.unfold(0, 2, 1).unfold(1, 3, 1).reshape(-1),
    "any": lambda x: x.as_strided((4, 10), (5, 1), 3) * 2,
}


@pytest.mark.usefixtures("only_on_card")
@pytest.mark.parametrize("name", SLIDING)
def test_windows_that_overlap(name):
    (a,), (x,) = both((3, 70))
    close(SLIDING[name](x), SLIDING[name](a))


INDEXED = {
    "rows": lambda x, i, j: x[i],
    "middle": lambda x, i, j: x[:, j],
    "broadcast": lambda x, i, j: x[i, j],
    "apart": lambda x, i, j: x[j, :, j],
    "number": lambda x, i, j: x[:, :, j[0]],
    "index_select": lambda x, i, j: x.index_select(1, i[1]),
}


@pytest.mark.usefixtures("only_on_card")
@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("dtype", [HALF, torch.int64, torch.bool])
def test_indices(name, dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 60, (4, 5, 3, 66)).to(dtype)
    i, j = torch.tensor([[0, 3, -1], [1, 1, 2]]), torch.tensor([2, -3, 0])
    actual = INDEXED[name](x.to("spyre"), i.to("spyre"), j.to("spyre"))
    assert torch.equal(actual.cpu(), INDEXED[name](x, i, j))


@pytest.mark.parametrize("pair", [(0, 5), (0, -6), (4, 0), (-5, 0), (0, 2**31 - 1), (0, -(2**31))])
def test_an_index_beyond_its_dim_is_an_error(pair):
    (_,), (x,) = both((4, 5, 64))
    i, j = (torch.tensor([0, number]).to("spyre") for number in pair)
    with pytest.raises(RuntimeError, match="gather of row"):
        x[i, j].cpu()
    with pytest.raises(RuntimeError, match="gather of row"):
        x.index_select(1, torch.tensor([-1]).to("spyre")).cpu()


def test_embedding():
    (table,), (y,) = both((50, 128))
    index = torch.tensor([[3, 0, 49], [7, 7, 1]])
    close(F.embedding(index.to("spyre"), y), F.embedding(index, table))


def test_in_place_and_out_forms():
    (a, b), (x, y) = both((4, 70), (4, 70))
    x.add_(y)
    close(x, a.add_(b))
    x[1:3].mul_(2)
    a[1:3].mul_(2)
    close(x, a)
    out = torch.empty(0, dtype=HALF, device="spyre")
    torch.mul(x, y, out=out)
    close(out, a * b)
    x.zero_()
    assert x.cpu().count_nonzero() == 0


@pytest.mark.host("aten.remainder")
def test_numbers_stand_for_tensors_and_defaults_are_kept():
    x = torch.tensor([5, -3, 7]).to("spyre")
    assert torch.remainder(x, 4).tolist() == [1, 1, 3]
    assert x.remainder_(4).tolist() == [1, 1, 3]
    assert torch.full((3,), 1.0).to("spyre").bernoulli_().cpu().unique().numel() <= 2


@pytest.mark.host("aten.equal", "aten.lt")
def test_numbers_leave_the_card():
    x = torch.tensor([2.5, -1.0]).to("spyre")
    assert x[0].item() == 2.5 and x.sum().item() == 1.5
    assert bool(x[1] < 0) and x.tolist() == [2.5, -1.0]
    assert x.equal(x) and not x.equal(x + 1)


@pytest.mark.host("aten.gelu_backward")
def test_autograd():
    (a, b), (x, y) = both((6, 64), (64, 32))
    w = y.requires_grad_()
    v = b.requires_grad_()
    (F.gelu(x @ w / 8)).sum().backward()
    (F.gelu(a @ v / 8)).sum().backward()
    close(w.grad, v.grad, 3e-2)


def test_a_program_is_compiled_once(monkeypatch):
    (_a,), (x,) = both((3, 37))
    calls = []
    compile_graph = call_compiler.compile_graph
    monkeypatch.setattr(
        call_compiler,
        "compile_graph",
        lambda *args, **kwargs: calls.append(1) or compile_graph(*args, **kwargs),
    )
    for _ in range(3):
        torch.maximum(x, x + 0)
    first = len(calls)
    torch.maximum(x, x)
    assert first == 2  # maximum and add
    y, z = x.cpu().to("spyre"), x.cpu().to("spyre")
    torch.maximum(y, z)
    assert len(calls) == 3  # the same tensor twice is another program than two tensors


def test_what_the_card_lacks_runs_on_the_cpu_with_one_warning():
    x = torch.tensor([3.0, 1.0, 2.0]).to("spyre")
    torch_spyre.reset_fallback_report()
    with torch_spyre.fallback("warn"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            assert on_host(x).cpu().allclose(on_host(x.cpu()))
    texts = [str(w.message) for w in seen if w.category is torch_spyre.FallbackWarning]
    assert len(texts) == 1 and f"{HOST}.default" in texts[0]
    assert seen[0].filename == __file__


def test_native_operators_do_not_fall_back():
    (_a, _b), (x, y) = both((4, 128), (128, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch_spyre.FallbackWarning)
        F.softmax(F.gelu(x @ y), -1).sum(-1)
        F.layer_norm(x, (128,), torch.ones(128, dtype=HALF).to("spyre"))


def test_modules_move_and_run():
    module = torch.nn.Sequential(
        torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.LayerNorm(96), torch.nn.Linear(96, 8)
    ).half()
    x = torch.randn(5, 64, dtype=HALF)
    expected = module.float()(x.float())
    actual = module.half().to("spyre")(x.to("spyre"))
    close(actual, expected.detach(), 3e-2)


@pytest.mark.host("aten.addmm")
@pytest.mark.parametrize("compiled", [False, True])
def test_inference_mode_takes_tensors_made_outside(compiled):
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Softmax(-1))
    x = torch.randn(5, 64)
    expected = module(x).detach()
    card, y = module.to("spyre"), x.to("spyre")
    with torch.inference_mode():
        close((torch.compile(card) if compiled else card)(y), expected)
        close(y.t()[1:].view(63, 5), x.t()[1:])
        assert not y.t().is_inference() and (y + 1).is_inference()


def test_batch_norm_updates_its_statistics():
    host = torch.nn.BatchNorm1d(6)
    card = copy.deepcopy(host).to("spyre")
    x = torch.randn(32, 6) * 3 + 1
    for _ in range(2):
        close(card(x.to("spyre")).detach(), host(x).detach())
    close(card.running_mean, host.running_mean)
    close(card.running_var, host.running_var)
    assert card.num_batches_tracked.item() == 2
    close(card.eval()(x.to("spyre")).detach(), host.eval()(x).detach())


@pytest.mark.host(
    "aten.addmm", "aten.mm", "aten.sigmoid_backward", "aten.tanh", "aten.tanh_backward"
)
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_modules_run_and_learn(kind):
    host = kind(6, 8, num_layers=2)
    card = copy.deepcopy(host).to("spyre")
    x = torch.randn(3, 4, 6)
    expected, actual = host(x)[0], card(x.to("spyre"))[0]
    close(actual.detach(), expected.detach())
    expected.sum().backward()
    actual.sum().backward()
    for one, other in zip(card.parameters(), host.parameters(), strict=True):
        close(one.grad, other.grad, 3e-2)
    with torch.inference_mode():
        close(card(x.to("spyre"))[0], expected.detach())


def test_casts_and_copies_stay_on_the_card():
    (_a,), (x,) = both((6, 70))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch_spyre.FallbackWarning)
        for y in (x.float(), x.bool(), x.t().contiguous(), x[1:3, 5:40].clone(), x.to(torch.int32)):
            assert y.device.type == "spyre"
    assert x.float().half().cpu().equal(x.cpu())
    assert x.bool().cpu().equal(x.cpu().bool())
    assert x.to(torch.int32).cpu().equal(x.cpu().to(torch.int32))
    assert x.t().contiguous().stride() == (6, 1)
    assert x[1:3, 5:40].clone().cpu().equal(x.cpu()[1:3, 5:40])


def test_autocast_chooses_the_dtype():
    (_a, _b), (x, y) = both((4, 64), (64, 32), dtype=torch.float32)
    with torch.autocast("spyre"):
        assert (x @ y).dtype == torch.float16
        assert F.linear(x, y.t()).dtype == torch.float16
        assert (x @ y).exp().dtype == torch.float32
        assert (x.half() + 1).dtype == torch.float16
    with torch.autocast("spyre", dtype=torch.bfloat16):
        assert (x @ y).dtype == torch.bfloat16
    assert (x + x).dtype == torch.float32


def test_errors_are_pytorchs():
    x = torch.ones(3, 4, dtype=HALF).to("spyre")
    with pytest.raises(RuntimeError, match="must match|size"):
        x + torch.ones(3, 5, dtype=HALF).to("spyre")
    with pytest.raises(RuntimeError, match="shapes|size"):
        x @ x
