# SPDX-License-Identifier: Apache-2.0
"""torch.compile, against the CPU."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from host_ops import HOST, REASON, on_host
from inputs import HALF, numbers
from torch_spyre import _C


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def check(function, *tensors, tolerance=2e-2, **options):
    """Compiles for the card and compares with float32 on the CPU; returns the report."""
    compiled = torch.compile(function, **options)
    with torch.no_grad():
        actual = compiled(*[t.to("spyre") for t in tensors])
        floats = [t.float() if t.is_floating_point() else t for t in tensors]
        expected = function(*floats)
    for a, e in zip(_leaves(actual), _leaves(expected), strict=True):
        assert a.device.type == "spyre" and a.stride() == e.stride()
        torch.testing.assert_close(a.cpu().float(), e.float(), atol=tolerance, rtol=tolerance)
    return torch_spyre.last_report()


def _leaves(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


@pytest.mark.parametrize("backend", ["inductor", "spyre"])
def test_both_backend_names_reach_the_card(backend):
    report = check(lambda x, y: F.gelu(x @ y / 8) + 1, numbers(5, 64), numbers(64, 96),
                   backend=backend)  # fmt: skip
    assert report.nodes_on_host == 0 and report.segments == 1
    assert report.macs >= 5 * 64 * 96 and report.kernels > 0 and report.card_us > 0
    assert "aten.mm.default" in report.text
    assert len(report.counters) == report.kernels
    assert math.isclose(sum(k["us"] for k in report.counters), report.card_us)
    matmul = next(k for k in report.counters if k["name"].endswith("batchmatmul"))
    assert matmul["macs"] == report.macs and 0 < matmul["pt_busy_us"] <= matmul["us"]


def test_graphs_of_the_cpu_stay_with_inductor():
    before = len(torch_spyre.compile_reports())
    compiled = torch.compile(lambda x: x + 1, backend="spyre")
    assert compiled(torch.ones(3)).tolist() == [2, 2, 2]
    assert len(torch_spyre.compile_reports()) == before


def test_a_block_of_a_transformer():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(128, 384)
            self.out = torch.nn.Linear(128, 128)
            self.norm = torch.nn.LayerNorm(128)
            self.up = torch.nn.Linear(128, 256)
            self.down = torch.nn.Linear(256, 128)

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = self.qkv(x).view(b, s, 3, 4, 32).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, 128)
            x = self.norm(x + self.out(y))
            return x + self.down(F.gelu(self.up(x)))

    torch.compiler.reset()  # the report counts the graph breaks since then
    module = Block().eval()
    x = torch.randn(2, 9, 128)
    with torch.no_grad():
        expected = module(x)
        actual = torch.compile(module.half().to("spyre"))(x.half().to("spyre"))
    torch.testing.assert_close(actual.cpu().float(), expected, atol=3e-2, rtol=3e-2)
    report = torch_spyre.last_report()
    assert report.nodes_on_host == 0 and report.segments == 1 and report.graph_breaks == 0
    assert report.text.count("scaled_dot_product_attention") == 1


def test_graph_breaks_are_counted_since_the_last_reset():
    def broken(x):
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    for _ in range(2):
        torch.compiler.reset()
        torch.compile(broken)(numbers(4, 64).to("spyre"))
        assert torch_spyre.last_report().graph_breaks == 1
    torch.compiler.reset()
    assert check(lambda x: x * 3, numbers(4, 64)).graph_breaks == 0


@pytest.mark.host(HOST)
def test_nodes_of_the_host_run_between_segments():
    def function(x):
        y = on_host(x * 2)
        return y + 1, x.exp()

    report = check(function, numbers(4, 8) / 8)
    assert report.nodes_on_host == 1 and report.host_ops == [f"{HOST}.default"]
    assert report.segments >= 3 and report.nodes_on_card == 3


def test_a_node_of_the_host_is_named_once():
    torch_spyre.reset_fallback_report()
    x = numbers(3, 64).to("spyre")
    match = rf"{HOST}.default of float\d+\[3, 64\] .*test_compile.py:\d+ .*{REASON}"
    with (
        torch_spyre.fallback("warn"),
        pytest.warns(torch_spyre.FallbackWarning, match=match) as seen,
    ):
        torch.compile(lambda x: on_host(x).t() + on_host(x).t())(x)
    assert len([w for w in seen if w.category is torch_spyre.FallbackWarning]) == 1


@pytest.mark.host(HOST)
def test_host_nodes_at_both_ends():
    check(lambda x: on_host(on_host(x).t().contiguous() + 1), numbers(4, 8))
    check(lambda x: (on_host(x).transpose(0, 1) * 2).sum(0), numbers(4, 8))


def test_views_numbers_and_several_results():
    check(lambda x: (x[1:], x.t(), x.view(2, -1), x.sum(), x), numbers(4, 66))
    check(lambda x, y: torch.cat([x, y[:, :3]], 1).relu(), numbers(4, 66), numbers(4, 70))


def test_inputs_are_updated_in_place():
    def function(x, y):
        x.mul_(2)
        y[0].copy_(x[1])
        return x + y

    x, y = numbers(3, 64), numbers(3, 64)
    a, b = x.to("spyre"), y.to("spyre")
    with torch.no_grad():
        result = torch.compile(function)(a, b)
    expected = function(x, y)
    assert result.cpu().equal(expected) and a.cpu().equal(x) and b.cpu().equal(y)


def test_tensors_made_inside():
    def function(x):
        mask = torch.arange(6, device=x.device) < 4
        return torch.where(mask, x, torch.zeros(6, dtype=x.dtype, device=x.device)) + torch.tensor(
            0.5
        )

    check(function, numbers(5, 6))


def test_numbers_of_the_host_are_arguments():
    compiled = torch.compile(lambda x, s: x * s)
    x = numbers(3, 64)
    for value in (2.0, -0.5):
        actual = compiled(x.to("spyre"), torch.tensor(value, dtype=HALF))
        assert actual.cpu().equal(x * value)


def test_other_sizes_and_layouts_compile_anew():
    compiled = torch.compile(lambda x, n: (x * 2).sum(0) + n)
    for rows in (3, 5, 9, 17):
        x = numbers(rows, 64)
        torch.testing.assert_close(
            compiled(x.to("spyre"), rows).cpu(), (x * 2).sum(0) + rows, atol=0.5, rtol=1e-2
        )
    x = numbers(4, 70)
    layout = torch_spyre.SpyreTensorLayout([4, 70], [70, 1], HALF, [1, 0])
    double = torch.compile(lambda x: x + x)
    assert double(x.to("spyre")).cpu().equal(x + x)
    assert double(x.to("spyre", device_layout=layout)).cpu().equal(x + x)


def test_symbolic_sizes_take_their_value():
    compiled = torch.compile(lambda x: x.view(x.shape[0] * 2, -1) + x.shape[0], dynamic=True)
    for rows in (3, 6):
        x = numbers(rows, 64)
        assert compiled(x.to("spyre")).cpu().equal(x.view(rows * 2, -1) + rows)


@pytest.mark.host("aten.addmm", "aten.le", "aten.mm")
def test_training():
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    x = torch.randn(8, 64)
    module(x).square().mean().backward()
    expected = [p.grad.clone() for p in module.parameters()]
    module.zero_grad(set_to_none=True)
    module.to("spyre")
    torch.compile(module)(x.to("spyre")).square().mean().backward()
    for parameter, gradient in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), gradient, atol=2e-2, rtol=2e-2)


@pytest.mark.host(HOST)
def test_the_report_names_the_users_line():
    def function(x):
        return on_host(x)

    report = check(function, numbers(3, 8))
    assert "test_compile.py" in report.text and "in function" in report.text


def test_launch_arguments_are_checked():
    x = torch.ones(4, 64, dtype=torch.float16, device="spyre")
    graph = _C.Graph()
    value = graph.add_input("x", x)
    result = (torch.float16, True, [4, 64], [64, 1], 0)
    _node, (total,) = graph.add_node("t", "aten.add.Tensor", [(value,), (value,), 1], [result], "")
    graph.add_output(total)
    executable = _C.compile(graph, {}, None, False)
    (twice,) = executable.launch(0, [x], 0)
    assert twice.cpu().eq(2).all()
    with pytest.raises(ValueError, match="has 1 inputs, 2 were given"):
        executable.launch(0, [x, x], 0)
    with pytest.raises(TypeError, match="expected a tensor"):
        executable.launch(0, [1], 0)
    with pytest.raises(ValueError, match="input 0 of a launch is not on the card"):
        executable.launch(0, [x.cpu()], 0)
    with pytest.raises(ValueError, match="other sizes or strides"):
        executable.launch(0, [torch.ones(8, 64, dtype=torch.float16, device="spyre")], 0)
    with pytest.raises(ValueError, match="on card 7"):
        executable.launch(0, [x], 7)
    with pytest.raises(IndexError, match="segment 1 of 1"):
        executable.launch(1, [x], 0)


def test_key_of_tensors_tells_them_apart():
    a = torch.ones(4, 64, dtype=torch.float16, device="spyre")
    b = torch.ones(64, 4, dtype=torch.float16, device="spyre")
    host = torch.ones(4, 64)
    lists = [(), (a,), (b,), (a, b), (b, a), (a, host), (host, a)]
    lists += [(a, a), (a, a, a), (a, a, b), (a, b, b), (b, a, a), (a, b, a)]
    keys = [_C.tensors_key(list(tensors)) for tensors in lists]
    assert len(set(keys)) == len(keys)
    assert _C.tensors_key([a, b]) == _C.tensors_key([a.clone(), b])
    with pytest.raises(TypeError):
        _C.tensors_key([a, 1])


def test_report_tells_what_each_stage_took():
    report = check(lambda x: (x * 3 + 0.5).sum(-1), numbers(37, 83), tolerance=0.5)
    assert {"build", "propagate_layouts", "memory_planning", "emit"} <= set(report.stage_us)
    assert all(us >= 0 for us in report.stage_us.values()) and sum(report.stage_us.values()) > 0
    assert report.bytes_per_op > 0
    assert torch_spyre.compile_statistics()["pass_memory_planning_us"] >= 0


def stays_on_card(function, *operands, tolerance=0.0, wide=False):
    """The same as on the CPU; wide: as what the CPU computes in float32."""
    torch._dynamo.reset()
    actual = torch.compile(function, dynamic=False)(*[x.to("spyre") for x in operands])
    assert ": host" not in torch_spyre.last_report().text
    expected = function(*[x.float() if wide else x for x in operands]).to(actual.dtype)
    torch.testing.assert_close(
        actual.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [1, 2, 7, 64, 129])
def test_products(dtype, size):
    x = (torch.randint(32, 97, (3, size, 2)) / 64).to(dtype)
    near = {"tolerance": 1e-5 if dtype == torch.float32 else 1e-2, "wide": True}
    stays_on_card(lambda x: x.prod(1), x, **near)
    stays_on_card(lambda x: x[0].prod(), x, **near)
    stays_on_card(lambda x: x.prod(-1, keepdim=True) * x, x, **near)


def test_powers_of_a_number():
    x = (torch.arange(-70, 70) / 16).half()
    stays_on_card(lambda x: 2**x, x, tolerance=4e-3)
    stays_on_card(lambda x: torch.exp2(x) + 0.25**x, x, tolerance=4e-3)
    # The base is rounded, as PyTorch rounds it.
    x = torch.arange(1, 18).bfloat16()
    stays_on_card(lambda x: 3.3**x, x, tolerance=8e-3)


def test_float32_is_chosen_by_a_mask():
    inf, nan = float("inf"), float("nan")
    x, y = torch.arange(140.0).view(2, 70) - 70, torch.tensor([1.5, nan, inf, -inf, 3e38]).tile(14)
    mask = torch.arange(140).view(2, 70) % 3 == 0
    stays_on_card(lambda c, x, y: torch.where(c, x, y), mask, x, y)
    stays_on_card(lambda c, x, y: torch.where(c, y, x), mask, x, y)
    stays_on_card(lambda c, x: x.masked_fill(c, -inf).softmax(-1), mask, x, tolerance=1e-6)
    stays_on_card(lambda c, x: torch.where(c.t(), x.t(), 2.5), mask[:1], x)


_EMPTY_USES = [
    lambda e, x: e[::2] + 1,
    lambda e, x: (e.t() * 2, e.flatten()),
    lambda e, x: torch.cat([e, x])[1:] * 2,
    lambda e, x: e.view(0, 7, 10) @ x[:, :10].t(),
    lambda e, x: (e.sum(0, keepdim=True) + x[:1], torch.relu(x)),
]


@pytest.mark.host("aten.bmm", "aten.mm", "aten.matmul")  # products of no rows
@pytest.mark.parametrize("use", _EMPTY_USES)
@pytest.mark.parametrize("whole", [True, False])
def test_views_of_inputs_without_elements(use, whole):
    x = torch.arange(560.0).view(8, 70)[:, :70].half()
    on_card = x.to("spyre")
    empty = torch.empty(0, 70, dtype=torch.float16, device="spyre") if whole else on_card[5:5]
    expected, result = use(empty.cpu(), x), torch.compile(use)(empty, on_card)
    if not isinstance(expected, tuple):
        expected, result = (expected,), (result,)
    for a, b in zip(result, expected, strict=True):
        assert a.device.type == "spyre" and a.dtype == b.dtype and torch.equal(a.cpu(), b)


_SCALAR_USES = [
    lambda x, c: c.to("spyre"),
    lambda x, c: x * c.to("spyre", torch.float16),
    lambda x, c: c.to("spyre") + c.to("spyre").to(torch.int32),
    lambda x, c: x + c.expand(3).to("spyre"),
    lambda x, c: x + torch.stack([c, c + 1, -c]).to("spyre"),
    lambda x, c: x.clone().fill_(c),
    lambda x, c: x.masked_fill(x > 1, c),
    lambda x, c: torch.where(x > 1, c, torch.tensor(5.0)),
    lambda x, c: x * c * c.to("spyre"),
    lambda x, c: x[c.to(torch.int64)],
]


@pytest.mark.host("aten.fill_", "aten.gt", "aten.masked_fill")
@pytest.mark.parametrize("use", _SCALAR_USES)
def test_scalar_tensors_made_inside(use):
    def made_inside(x):
        return use(x, torch.tensor(2.5))

    x = torch.arange(3.0).to("spyre")
    expected, result = made_inside(x), torch.compile(made_inside)(x)
    assert result.device == expected.device and result.dtype == expected.dtype
    assert torch.equal(result.cpu(), expected.cpu())


def test_a_scalar_tensor_that_is_returned_is_a_new_one():
    compiled = torch.compile(lambda x: (x + 1, torch.tensor(3.0)))
    x = torch.ones(3, device="spyre")
    for _ in range(2):
        scalar = compiled(x)[1]
        assert scalar.device.type == "cpu" and scalar.item() == 3
        scalar += 1


def test_a_call_fetches_no_stream_that_its_function_does_not_look_at(monkeypatch):
    x, compiled = numbers(4, 64).to("spyre"), torch.compile(lambda x: x + 1)
    compiled(x)
    fetched = []
    current = torch.accelerator.current_stream
    monkeypatch.setattr(
        torch.accelerator, "current_stream", lambda *a: fetched.append(a) or current(*a)
    )
    assert torch.equal(compiled(x).cpu(), (x + 1).cpu())
    assert not fetched


def test_functions_that_look_at_streams_find_them():
    x, own = numbers(4, 64).to("spyre"), torch.Stream(device="spyre")

    @torch.compile
    def with_stream(x):
        return x + 1, torch.accelerator.current_stream()

    @torch.compile
    def on_own(x):
        with own:
            y = x + 1
        return y * 2

    assert with_stream(x)[1] == torch.accelerator.current_stream()
    with own:
        assert with_stream(x)[1] == own
    assert torch.equal(on_own(x).cpu(), ((x + 1) * 2).cpu())
