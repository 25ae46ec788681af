# SPDX-License-Identifier: Apache-2.0
"""The backend `sendnn`: the card computes for tensors of the CPU, the CPU for those of the card."""

import pytest
import torch
import torch_spyre

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


def test_parameters_are_kept_until_they_change(monkeypatch):
    model = torch.nn.Linear(64, 32).half().requires_grad_(False)
    x = torch.randn(4, 64).half()
    compiled = torch.compile(model, backend=BACKEND)
    torch.testing.assert_close(compiled(x), model(x), rtol=0.02, atol=0.02)
    moved = []
    original = torch.Tensor.to

    def to(self, *args, **kwargs):
        if self.device.type == "cpu" and args[:1] == ("spyre",):
            moved.append(tuple(self.shape))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", to)
    compiled(x)
    assert moved == [(4, 64)]
    model.weight.mul_(2)
    torch.testing.assert_close(compiled(x), model(x), rtol=0.02, atol=0.02)
    assert moved[1:] == [(32, 64), (4, 64)] or moved[1:] == [(4, 64), (32, 64)]


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
