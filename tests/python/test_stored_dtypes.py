# SPDX-License-Identifier: Apache-2.0
"""Dtypes and integers that the card only stores: bytes on the device, operators on the host."""

import copy
import io
import pickle

import pytest
import torch
import torch_spyre

STORED = [
    torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.uint16, torch.uint32,
    torch.uint64, torch.float8_e5m2, torch.float8_e4m3fnuz,
]  # fmt: skip
HELD = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.float32]


def same(card, host):
    """Equal in device, dtype, sizes and every bit."""
    assert card.device.type == "spyre" and card.dtype == host.dtype and card.shape == host.shape
    card, host = card.cpu().contiguous().flatten(), host.contiguous().flatten()
    assert card.view(torch.uint8).equal(host.view(torch.uint8))


def numbers(dtype, *shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count).reshape(shape) % 23).to(dtype)


@pytest.mark.host("aten.fill_")
@pytest.mark.parametrize("dtype", STORED + HELD, ids=str)
def test_storing_copying_and_viewing(dtype):
    host = numbers(dtype, 5, 70)
    card = host.to("spyre")
    same(card, host)
    same(card.clone(), host)
    same(card.t(), host.t())
    same(card.t().contiguous(), host.t().contiguous())
    same(card[1:4, 3:67:2], host[1:4, 3:67:2])
    same(torch.empty_like(card).copy_(card), host)
    same(torch.zeros(5, 70, dtype=dtype, device="spyre"), torch.zeros(5, 70, dtype=dtype))
    assert card[2, 3].item() == host[2, 3].item()
    assert card[1].tolist() == host[1].tolist()
    host[1:3, 5:9], card[1:3, 5:9] = host[3:5, 5:9].clone(), card[3:5, 5:9].clone()
    host[4], card[4] = host[0].clone(), host[0]
    host[:, 2], card[:, 2] = 3, 3
    same(card, host)
    if dtype is not torch.bool:
        same(card.view(torch.uint8), host.view(torch.uint8))
    shown = repr(card).split("device=")[0].split("dtype=")[0].rstrip(" ,\n")
    assert shown == repr(host).split("dtype=")[0].removesuffix(")").rstrip(" ,\n")


@pytest.mark.parametrize("dtype", [*STORED, torch.int64], ids=str)
def test_casts_between_dtypes(dtype):
    host = numbers(dtype, 3, 70)
    card = host.to("spyre")
    for other in (torch.float32, torch.int64, torch.float64, torch.complex64):
        same(card.to(other), host.to(other))
        same(card.to(other).to(dtype), host.to(other).to(dtype))


def test_files_of_every_dtype():
    for dtype in STORED + HELD:
        host = numbers(dtype, 4, 9)
        card = host.to("spyre")
        same(copy.deepcopy(card), host)
        legacy = dtype not in torch.storage._new_dtypes()
        if legacy:  # PyTorch pickles no others
            same(pickle.loads(pickle.dumps(card)), host)
        for zipped in {True, not legacy}:
            file = io.BytesIO()
            torch.save({"x": card, "part": card[1:3]}, file, _use_new_zipfile_serialization=zipped)
            file.seek(0)
            loaded = torch.load(file, weights_only=True)
            same(loaded["x"], host)
            same(loaded["part"], host[1:3])


@torch_spyre.fallback("warn")
def test_operators_run_on_the_host():
    host = torch.linspace(-2, 2, 210, dtype=torch.float64).reshape(3, 70)
    card = host.to("spyre")
    with pytest.warns(torch_spyre.FallbackWarning, match="has no format for float64"):
        same(torch.erfc(card), torch.erfc(host))
    same(card @ card.t(), host @ host.t())
    same(card.sum(0), host.sum(0))
    same(torch.cat([card, card * 2]), torch.cat([host, host * 2]))
    same(card.add_(1).mul_(card), (host + 1) * (host + 1))
    out = torch.empty(0, dtype=torch.float64, device="spyre")
    same(torch.exp(host.to("spyre"), out=out), torch.exp(host))


@pytest.mark.host("aten._fft_r2c", "aten.mm")
def test_complex_numbers():
    host = torch.randn(4, 6, dtype=torch.complex64)
    card = host.to("spyre")
    same(card.conj().resolve_conj(), host.conj().resolve_conj())
    same(card.conj().imag.clone(), host.conj().imag.clone())
    assert card.conj().cpu().resolve_conj().equal(host.conj().resolve_conj())
    same(card.real, host.real)
    same(torch.view_as_complex(torch.view_as_real(card)), host)
    target = torch.zeros_like(card)
    target.conj().copy_(host)
    same(target, host.conj().resolve_conj())
    target.real.copy_(torch.ones(4, 6))
    assert target.cpu().real.eq(1).all() and target.cpu().imag.equal(-host.imag)
    torch.testing.assert_close((card @ card.mH).cpu(), host @ host.mH)
    torch.testing.assert_close(torch.fft.fft(card.real).cpu(), torch.fft.fft(host.real))


@pytest.mark.host(
    "aten._amp_foreach_non_finite_check_and_unscale_",
    "aten._amp_update_scale_",
    "aten.addmm",
    "aten.mm",
    "aten.reciprocal",
    "aten.sum",
)
def test_autocast_with_a_gradient_scaler():
    model = torch.nn.Linear(4, 4).to("spyre")
    before = model.weight.detach().cpu().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("spyre", init_scale=2.0**10, growth_interval=1)
    x = torch.ones(2, 4, device="spyre")
    for step in (1, 2):
        optimizer.zero_grad()
        with torch.autocast("spyre"):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        assert model.weight.grad.cpu().allclose(torch.full((4, 4), 2.0))
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 2.0 ** (10 + step)
    assert (before - model.weight.detach().cpu()).allclose(torch.full((4, 4), 0.4), atol=1e-4)
    scaler.scale(torch.full((), float("inf"), device="spyre") * model(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**11


@pytest.mark.host("aten.quantize_per_tensor")
def test_quantized_tensors_are_refused():
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    for attempt in (
        lambda: quantized.to("spyre"),
        lambda: torch.quantize_per_tensor(torch.ones(3, device="spyre"), 0.1, 0, torch.qint8),
    ):
        with pytest.raises(RuntimeError, match="[qQ]uantized tensors.* cannot lie on the spyre"):
            attempt()


# ---- int64 beyond 32 bits

WIDE = [2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**40, 7, -1, 0]


@pytest.mark.host("aten._to_copy", "aten.fill_", "aten.floor_divide", "aten.gt")
def test_wide_integers_are_exact():
    host = torch.tensor(WIDE)
    card = host.to("spyre")
    same(card, host)
    same(card[2:], host[2:])
    same(card.clone(), host)
    same(card // 3, host // 3)
    same(card > 5, host > 5)
    same(card.to(torch.float32), host.to(torch.float32))
    same(torch.full((70,), 2**40, device="spyre"), torch.full((70,), 2**40))
    same(torch.zeros(3, dtype=torch.int64, device="spyre").fill_(-(2**33)),
         torch.full((3,), -(2**33)))  # fmt: skip
    same(torch.arange(2**40, 2**40 + 70, device="spyre"), torch.arange(2**40, 2**40 + 70))
    assert [value.item() for value in card] == WIDE


@pytest.mark.host("aten.add")
def test_wide_integers_in_a_part_of_a_tensor():
    host = torch.arange(210).reshape(3, 70)
    card = host.to("spyre")
    row, column = card[1], card[:, 5]
    card[1, 3:6] = torch.tensor([2**40, -(2**40), 5])
    host[1, 3:6] = torch.tensor([2**40, -(2**40), 5])
    same(card, host)
    same(row, host[1])
    same(column, host[:, 5])
    column.add_(1)
    host[:, 5].add_(1)
    same(card, host)
    card[2] = torch.full((70,), 1e12, dtype=torch.float64)
    host[2] = 10**12
    same(card, host)
    card.t()[4:6].copy_(torch.full((2, 3), 2**50))
    host.t()[4:6] = 2**50
    same(card, host)
    halves = torch.zeros(4, dtype=torch.int64, device="spyre")
    halves.view(torch.int32)[3] = 1
    same(halves, torch.tensor([0, 2**32, 0, 0]))


def test_wide_integers_of_host_views_replace_what_was_there():
    for wide in (2**31, -(2**31) - 1):
        target = torch.zeros(300, 400, dtype=torch.int64, device="spyre")
        view = target[10:20]
        source = torch.arange(120000).reshape(400, 300).t()
        same(target.copy_(source), source)
        source[299, 399] = wide
        same(target.copy_(source), source)
        same(view, source[10:20])
        source[299, 399] = -1
        same(target.copy_(source), source)


def test_strided_sources_and_other_dtypes():
    target = torch.zeros(6, 4, dtype=torch.int64, device="spyre")
    source = torch.arange(24).reshape(4, 6).t() + 2**33
    same(target.copy_(source), source.contiguous())
    target = torch.zeros(3, dtype=torch.int64, device="spyre")
    same(target.copy_(torch.tensor([4e9, -4e9, 1])), torch.tensor([4000000000, -4000000000, 1]))
    same(torch.zeros(2, dtype=torch.int64, device="spyre").copy_(
        torch.tensor([2**40, 1]).to("spyre")), torch.tensor([2**40, 1]))  # fmt: skip


@pytest.mark.host("aten.__lshift__", "aten.fill_", "aten.prod", "aten.where")
def test_operators_that_leave_32_bits_on_the_host():
    host = torch.tensor([2**31 - 1, 5, -(2**31)])
    card = host.to("spyre")
    same(card << 4, host << 4)
    same(card.prod(), host.prod())
    same(card.where(card > 5, 2**40), host.where(host > 5, 2**40))


@pytest.mark.host("graph", "aten.floor_divide", "aten.remainder")
def test_graphs_take_and_return_wide_integers():
    host = torch.tensor(WIDE)
    half = torch.arange(70, dtype=torch.float16)
    function = torch.compile(lambda a, b: (a % 1000, b * 2, a // 7))
    for integers in (torch.tensor([5, 7, 2**20]), host, torch.tensor([1, 2, 3])):
        results = function(integers.to("spyre"), half.to("spyre"))
        for result, expected in zip(
            results, (integers % 1000, half * 2, integers // 7), strict=True
        ):
            same(result, expected)


@pytest.mark.host("graph", "aten._fft_r2c", "aten.abs", "aten.add")
def test_a_graph_with_stored_dtypes():
    def function(x, y):
        z = torch.fft.fft(y).abs()
        return x * 2, z, y.to(torch.float64) + 0.1

    x, y = torch.arange(70, dtype=torch.float16), torch.arange(8, dtype=torch.float32)
    results = torch.compile(function)(x.to("spyre"), y.to("spyre"))
    for result, expected in zip(results, function(x, y), strict=True):
        assert result.device.type == "spyre" and result.dtype == expected.dtype
        torch.testing.assert_close(result.cpu(), expected)


VIEWS_OF_BYTES = {
    "arithmetic": lambda x: x.view(torch.int16).mul(2),
    "of shorter elements": lambda x: x.view(torch.int16) & 0x7FF,
    "of longer elements": lambda x: x.view(torch.int32) - 5,
    "of a part": lambda x: x[:, 4:12].view(torch.int32) + 1,
    "back": lambda x: (x.view(torch.int32) | 0x400).view(x.dtype),
    "with the view itself": lambda x: (x.view(torch.int32), x.view(torch.int32) + 1),
    "written": lambda x: x.view(torch.int16).add_(2),
}


@pytest.mark.host("aten.add")  # of a view that is not dense
@pytest.mark.parametrize("view", VIEWS_OF_BYTES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_graphs_compute_with_views_of_the_bytes(dtype, view):
    torch._dynamo.reset()
    x = (torch.arange(32 * 16) / 64).view(32, 16).to(dtype)
    card = x.to("spyre")
    found = torch.compile(VIEWS_OF_BYTES[view])(card)
    wanted = VIEWS_OF_BYTES[view](x)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for got, right in (*pairs, (card, x)):
        assert torch.equal(got.cpu(), right)


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "add a number": lambda a, b: a + 1,
    "add with alpha": lambda a, b: torch.add(a, b, alpha=2**30),
    "sub": lambda a, b: b - a,
    "rsub": lambda a, b: 1 - a,
    "mul": lambda a, b: a * b,
    "mul by a number": lambda a, b: a * 2**20,
    "neg": lambda a, b: -a,
    "abs": lambda a, b: a.abs(),
    "square": lambda a, b: a.square(),
    "pow": lambda a, b: a**3,
    "cumsum": lambda a, b: a.cumsum(0),
    "int32 among them": lambda a, b: a + b.int(),
    "int32 alone wraps": lambda a, b: a.int() * b.int(),
    "a chain": lambda a, b: ((a * 3 + b)[1:].clone() - 7) * 1000,
    "of a comparison": lambda a, b: (a > 0).cumsum(0) * a,
    "of a view": lambda a, b: a.flip(0)[1:].reshape(-1) * b[1:],
}


@pytest.mark.host(
    "graph",
    "aten._to_copy",
    "aten.abs",
    "aten.add",
    "aten.clone",
    "aten.cumsum",
    "aten.flip",
    "aten.gt",
    "aten.mul",
    "aten.neg",
    "aten.pow",
    "aten.rsub",
    "aten.sub",
)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.filterwarnings("ignore::torch_spyre.FallbackWarning")
def test_arithmetic_beyond_32_bits(name, mode):
    function = ARITHMETIC[name]
    form = torch.compile(function) if mode == "compiled" else function
    other = torch.tensor([1, 2**16, 3, -4])
    for first in ([1, 2, 3, 4], [2**31 - 1, 5, -(2**31), 70000], [4, 3, 2, 1], [2**40, 1, 2, 3]):
        host = torch.tensor(first)
        same(form(host.to("spyre"), other.to("spyre")), function(host, other))


@pytest.mark.filterwarnings("error::torch_spyre.FallbackWarning")
def test_arithmetic_within_32_bits_stays_on_the_card():
    host = torch.arange(70)
    for form in (ARITHMETIC["a chain"], torch.compile(ARITHMETIC["a chain"])):
        same(form(host.to("spyre"), host.to("spyre")), ARITHMETIC["a chain"](host, host))
    counter = torch.zeros(1, dtype=torch.int64, device="spyre")
    for _ in range(5):
        counter += 1
    assert counter.item() == 5
    assert not torch_spyre.last_report().host_ops


@pytest.mark.host("graph", "aten._to_copy", "aten.add", "aten.mul", "aten.sub")
@pytest.mark.filterwarnings("ignore::torch_spyre.FallbackWarning")
def test_in_place_arithmetic_beyond_32_bits():
    grow = torch.compile(lambda x: x.add_(2**31 - 1))
    host, card = torch.tensor([5, 6]), torch.tensor([5, 6]).to("spyre")
    part = card[1:]
    for form in (grow, lambda x: x.mul_(2**20), lambda x: x.sub_(2**33), grow):
        form(card)
        form(host)
        same(card, host)
        same(part, host[1:])
    same(torch.tensor([1e10, -3e9, 2.5]).to("spyre").to(torch.int64),
         torch.tensor([10000000000, -3000000000, 2]))  # fmt: skip
    out = torch.zeros(2, dtype=torch.int64, device="spyre")
    same(
        torch.mul(torch.tensor([2**20, 1]).to("spyre"), 2**20, out=out),
        torch.tensor([2**40, 2**20]),
    )


@pytest.mark.host("aten.add", "aten.mul", "aten.remainder")
@pytest.mark.parametrize("factor", (1, 10**6))
def test_the_host_takes_over_a_part_of_a_graph(factor):
    """It computes nodes anew of which the card had computed a part in an earlier segment."""
    x = torch.randint(-5, 5, (5, 3, 5)) * factor

    def function(x):
        return torch.cross(x, x + 1, dim=1)

    assert torch.equal(torch.compile(function)(x.to("spyre")).cpu(), function(x))


@pytest.mark.host(
    "aten.ceil", "aten.gather", "aten.isnan", "aten.lerp", "aten.logical_not", "aten.lt",
    "aten.masked_fill", "aten.sort", "aten.sub", "aten.sum",
)  # fmt: skip
def test_a_part_that_the_host_does_not_make():
    """A segment that reads a part of a node of one that has left the card leaves it, too."""
    x = torch.randn(3, 131)

    def function(x):
        return torch.nanquantile(x, 0.5, dim=0)

    actual = torch.compile(function)(x.to("spyre")).cpu()
    torch.testing.assert_close(actual, function(x), rtol=1e-6, atol=1e-6)


POSITIONS = {
    "counted": lambda x: torch.arange(7, device=x.device).float(),
    "clamped": lambda x: x.clamp(0, 100),
    "clamped below, counted": lambda x: (
        (torch.arange(7, device=x.device).float() + 0.5) * 2.0 - 0.5
    ).clamp(min=0.0),
    "clamped after": lambda x: x.to(torch.int64).clamp(0, 6),
    "clamped halves": lambda x: x.half().clamp(-3, 3),
    "negative": lambda x: -x.clamp(0, 5).abs(),
    "chosen": lambda x: torch.where(x.half() > 0, 3.0, x.clamp(-2, 2)),
    "viewed": lambda x: x.clamp(0, 9).view(7, 1).expand(7, 2).contiguous(),
}


@pytest.mark.parametrize("position", POSITIONS)
def test_positions_made_of_floating_numbers_stay_on_the_card(position):
    """Their bounds are known from the graph."""

    def function(x):
        return POSITIONS[position](x).to(torch.int64) * 3 + 1

    torch._dynamo.reset()
    x = torch.linspace(-9, 9, 7)
    assert torch.equal(torch.compile(function)(x.to("spyre")).cpu(), function(x))
    assert not torch_spyre.last_report().host_ops


@pytest.mark.host("aten.add", "aten.mul", "aten._to_copy")
@pytest.mark.filterwarnings("ignore::torch_spyre.FallbackWarning")
@pytest.mark.parametrize("most", (2.0**20, 2.0**31, 2.0**40, float("inf")))
def test_positions_beyond_32_bits(most):
    def function(x):
        return x.clamp(0, most).to(torch.int64) * 2 + 1

    torch._dynamo.reset()
    x = torch.tensor([1.0, 2.0**30, -5.0, 2.0**39])
    assert torch.equal(torch.compile(function)(x.to("spyre")).cpu(), function(x))


SCALED = {
    "small": lambda x: x * 1e-9,
    "of unknown size": lambda x: x * (x * 0 + 1e-9),
    "added up": lambda x: (x * 1e-9) + 5.0 - 5.0,
    "kept in part": lambda x: torch.where(x.half() > 0, x * 1e-9, 0.0),
    "rooted": lambda x: (x * 1e-9).sqrt() * (x * 1e-9).sqrt(),
}


@pytest.mark.host("aten.mul", "aten.add", "aten._to_copy")
@pytest.mark.filterwarnings("ignore::torch_spyre.FallbackWarning")
@pytest.mark.parametrize("scaled", SCALED)
def test_positions_of_floating_inputs_without_bounds(scaled):
    """The numbers of an input may be of any size: 1e16 here, of which 1e10 is left."""

    def function(x):
        return SCALED[scaled](x).to(torch.int64) * 1000

    torch._dynamo.reset()
    x = torch.tensor([1e16, 3e12, 2.0])
    with torch_spyre.fallback("silent"):
        actual = torch.compile(function)(x.to("spyre")).cpu()
    torch.testing.assert_close(actual, function(x), rtol=1e-5, atol=1000)


@pytest.mark.host("aten.mul")
@pytest.mark.filterwarnings("ignore::torch_spyre.FallbackWarning")
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_statistics_of_16_bits_on_the_host(dtype):
    """The graph has them in float32; PyTorch's own kernel for 16 bits would round them."""

    def function(x, n):
        rows, _mean, scale = torch.native_layer_norm(x, [64], None, None, 1e-12)
        return rows, scale, n * 2**20

    torch._dynamo.reset()
    x, n = torch.randn(3, 64).to(dtype), torch.tensor([2**20, 1])
    x[1] = 0
    rows, scale, wide = torch.compile(function)(x.to("spyre"), n.to("spyre"))
    expected_rows, expected_scale, expected_wide = function(x.float(), n)
    assert torch.equal(wide.cpu(), expected_wide)
    assert scale.dtype is torch.float32 and rows.dtype is dtype
    torch.testing.assert_close(scale.cpu(), expected_scale, rtol=1e-3, atol=0)
    torch.testing.assert_close(rows.cpu().float(), expected_rows, rtol=0.01, atol=0.01)


def test_ranges_of_a_long_chain_need_no_recursion():
    def f(x):
        for _ in range(1200):
            x = x + 1
        return x

    x = torch.tensor([1, 2**31 - 2000], device="spyre")
    compiled = torch.compile(f, dynamic=False)
    assert compiled(x).cpu().tolist() == [1201, 2**31 - 800]


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_of_float64_is_the_hosts(training):
    x, *others = (numbers(torch.float64, *shape) / 3 for shape in ((4, 5, 6), *[(5,)] * 4))
    others[1] = others[1].abs() + 1
    results = []
    for device in ("cpu", "spyre"):
        inputs = [value.to(device, copy=True) for value in (x, *others)]
        inputs[0].requires_grad_()
        with torch_spyre.fallback("silent"):
            made = torch.nn.functional.batch_norm(*inputs, training=training)
            (made * made).sum().backward()
        results.append([made.detach(), inputs[0].grad, *inputs[1:3]])
    for found, expected in zip(results[1], results[0], strict=True):
        same(found, expected)
