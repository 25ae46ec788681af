# SPDX-License-Identifier: Apache-2.0
"""The backend `sendnn`: the card computes for tensors of the CPU, the CPU for those of the card."""

import pytest
import torch
import torch_spyre
from torch_spyre.model_utils import load_model_to_spyre
from torch_spyre.sendnn import backend, resident

BACKEND = "sendnn"


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def test_it_is_listed():
    assert BACKEND in torch._dynamo.list_backends()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.softmax(x, -1),
        lambda x: x @ x.t(),
        lambda x: x.max(-1),
        lambda x: (x.exp().sum(0), torch.nn.functional.gelu(x)),
    ],
)
def test_the_host_gets_what_the_card_computes(f):
    x = torch.randn(67, 256).half()
    of_host = torch.compile(f, backend=BACKEND)(x)
    torch._dynamo.reset()
    of_card = torch.compile(f)(x.to("spyre"))
    for host, card in zip(_listed(of_host), _listed(of_card), strict=True):
        assert host.device.type == "cpu"
        assert torch.equal(host, card.cpu())


def test_tensors_that_the_graph_makes():
    def f(x):
        return x + torch.ones(3, 1, dtype=x.dtype, device="cpu")

    assert torch.compile(f, backend=BACKEND)(torch.zeros(3, 5)).tolist() == [[1.0] * 5] * 3


def _listed(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


@pytest.fixture
def moved(monkeypatch):
    """Shapes of the copies that are made of resident tensors."""
    shapes = []
    original = resident._move

    def move(tensor, multiplied):
        shapes.append(tuple(tensor.shape))
        return original(tensor, multiplied)

    monkeypatch.setattr(resident, "_move", move)
    return shapes


def _agrees(compiled, model, x):
    torch.testing.assert_close(compiled(x), model(x), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("place", [0, 2])
def test_arguments_are_the_same_until_one_changes_or_is_another(place):
    def changed(change):
        args = [torch.zeros(4), 7, torch.zeros(4)]
        same = resident.Same(args, [0, 2])
        assert same.holds(args) and same.holds([args[0], 8, args[2]])
        change(args)
        return not same.holds(args)

    def assign(args):
        args[place].data = torch.ones(4)

    assert changed(lambda args: args[place].add_(1)) and changed(assign)
    assert changed(lambda args: args.__setitem__(place, args[place].view(4)))
    assert changed(lambda args: args.__setitem__(place, torch.zeros(4)))


def test_parameters_are_kept_until_they_change(moved):
    model = torch.nn.Linear(64, 32).half().requires_grad_(False)
    x = torch.randn(4, 64).half()
    compiled = torch.compile(model, backend=BACKEND)
    _agrees(compiled, model, x)
    assert sorted(moved) == [(32,), (32, 64)]
    model.weight.mul_(2)
    _agrees(compiled, model, x)
    assert moved[2:] == [(32, 64)]
    model.weight.data = torch.randn(32, 64).half()
    _agrees(compiled, model, x)
    _agrees(compiled, model, x)
    assert moved[3:] == [(32, 64)]


def test_graphs_of_a_model_share_its_parameters(moved):
    model = torch.nn.Linear(64, 32).half().requires_grad_(False)
    compiled = torch.compile(model, backend=BACKEND, dynamic=False)
    for rows in (4, 5, 6):
        _agrees(compiled, model, torch.randn(rows, 64).half())
    assert sorted(moved) == [(32,), (32, 64)]


def test_weights_of_linear_lie_as_a_matmul_reads_them():
    model = torch.nn.Linear(64, 128, bias=False).half().requires_grad_(False)
    _agrees(torch.compile(model, backend=BACKEND), model, torch.randn(4, 64).half())
    assert "restickify" not in torch_spyre.last_report().text
    assert resident.on_card(model.weight, multiplied=True).device_tensor_layout() == (
        load_model_to_spyre(torch.nn.Linear(64, 128).half()).weight.device_tensor_layout()
    )


def test_a_graph_of_symbolic_sizes_is_traced_once(monkeypatch):
    traced = []
    original = backend.driver.compile_graph_of_user

    def compile_graph(*args):
        traced.append(args)
        return original(*args)

    monkeypatch.setattr(backend.driver, "compile_graph_of_user", compile_graph)

    def f(x):
        return torch.softmax(x, -1) * x.shape[0]

    compiled = torch.compile(f, backend=BACKEND, options={"sendnn.dynamic": True})
    for rows in (3, 5, 9):
        x = torch.randn(rows, 64).half()
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), f(x), rtol=0.02, atol=0.02)
    assert len(traced) == 1


def test_tensors_that_the_graph_makes_without_a_device():
    def f(x):
        return x + torch.arange(5) + torch.zeros(3, 1)

    x = torch.ones(3, 5)
    assert torch.equal(torch.compile(f, backend=BACKEND)(x), f(x))


def test_options_of_the_backend():
    x = torch.ones(3).half()
    with pytest.raises(Exception, match="sendnn.dynamik.*known: .*sendnn.dynamic"):
        torch.compile(torch.neg, backend=BACKEND, options={"sendnn.dynamik": True})(x)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="sendnn.dynamic='yes'.*expected a bool"):
        torch.compile(torch.neg, backend=BACKEND, options={"sendnn.dynamic": "yes"})(x)
    torch._dynamo.reset()
    torch._dynamo.reset()
    compiled = torch.compile(torch.neg, backend=BACKEND, mode="max-autotune-no-cudagraphs")
    assert compiled(x).tolist() == [-1.0] * 3
    torch._dynamo.reset()
    settings = {"sencores": 2, "sendnn.dynamic": False}
    assert torch.compile(torch.neg, backend=BACKEND, options=settings)(x).tolist() == [-1.0] * 3


def test_compile_only_launches_nothing():
    x = torch.ones(3, 64).half()
    compiled = torch.compile(lambda x: (x + 1, x.sum(-1)), backend="sendnn_compile_only")
    reports = len(torch_spyre.compile_reports())
    result, total = compiled(x)
    assert len(torch_spyre.compile_reports()) == reports + 1
    assert torch.equal(result, torch.zeros(3, 64).half()) and total.tolist() == [0.0] * 3


def test_decoders_have_a_name_of_their_own():
    x = torch.ones(3).half()
    assert torch.compile(torch.neg, backend="sendnn_decoder")(x).tolist() == [-1.0] * 3


def test_inputs_that_the_graph_changes():
    def f(x):
        x.add_(1)
        return x * 2

    x = torch.zeros(5).half()
    assert torch.compile(f, backend=BACKEND)(x).tolist() == [2.0] * 5
    assert x.tolist() == [1.0] * 5


def test_gradients_come_back():
    model = torch.nn.Linear(8, 4).half()
    x = torch.randn(3, 8).half()
    compiled = torch.compile(model, backend=BACKEND)
    for _ in range(2):
        compiled(x).sum().backward()
    expected = 2 * x.sum(0).expand(4, 8)
    torch.testing.assert_close(model.weight.grad, expected, rtol=0.02, atol=0.02)


def test_the_reference_touches_no_compiler():
    def f(x, y):
        return torch.softmax(x @ y, -1), torch.ones(3, device=x.device) + 1

    x, y = torch.randn(4, 8).half(), torch.randn(8, 5).half()
    before = len(torch_spyre.compile_reports())
    compiled = torch.compile(f, backend=BACKEND, dynamic=False)
    result, ones = compiled(x.to("spyre"), y.to("spyre"))
    assert result.device.type == ones.device.type == "spyre"
    assert len(torch_spyre.compile_reports()) == before
    on_card = [t.to("spyre").cpu() for t in (x, y)]  # rounded to the card's format
    torch.testing.assert_close(result.cpu(), f(*on_card)[0], rtol=2e-3, atol=2e-3)
    assert ones.cpu().tolist() == [2.0, 2.0, 2.0]


def test_inference_mode_sees_what_changes(moved):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(64, 64).half()
            self.register_buffer("calls", torch.zeros(1, dtype=torch.float16))

        def forward(self, x):
            self.calls += 1
            return self.linear(x) + self.calls

    model = Counter()
    compiled = torch.compile(model, backend="sendnn")
    x = torch.randn(3, 64).half()
    with torch.inference_mode():
        expected = model.linear(x)
        for calls in (1, 2):
            torch.testing.assert_close(compiled(x), expected + calls, atol=2e-2, rtol=1e-2)
            assert model.calls.item() == calls


def test_parameters_of_inference_mode_follow_changes():
    with torch.inference_mode():
        model = torch.nn.Linear(64, 64, bias=False).half()
        compiled = torch.compile(model, backend="sendnn")
        x = torch.randn(3, 64).half()
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), atol=2e-2, rtol=1e-2)
            model.weight.mul_(2)
