# SPDX-License-Identifier: Apache-2.0
"""Calls that find the program of an equal call, without Python."""

import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch_spyre import registry
from torch_spyre.eager.operator_program import Operator


@pytest.fixture
def calls(monkeypatch):
    """The operators whose Python kernel runs."""
    seen = []
    original = Operator.find

    def find(self, args, kwargs):
        seen.append(str(self.op))
        return original(self, args, kwargs)

    monkeypatch.setattr(Operator, "find", find)
    return seen


def card(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to("spyre")


def test_equal_call_needs_no_python(calls):
    x, y = card(1.0, 2.0, 3.0), card(10.0, 20.0, 30.0)
    first = torch.sub(x, y, alpha=3)
    python = len(calls)
    assert python > 0
    again = torch.sub(y, x, alpha=3)
    assert len(calls) == python
    assert first.tolist() == [-29.0, -58.0, -87.0]
    assert again.tolist() == [7.0, 14.0, 21.0]


def test_texts_are_part_of_a_call(calls):
    x = torch.arange(-7, 8, dtype=torch.float16)
    for _ in range(3):
        calls.clear()
        for rounding in ("floor", "trunc", "floor"):
            actual = torch.div(x.to("spyre"), 2, rounding_mode=rounding)
            assert torch.equal(actual.cpu(), torch.div(x, 2, rounding_mode=rounding))
    assert not calls


COMPOSED = {  # by PyTorch, of an allocation and the out= form, or of several operators
    "logsumexp": lambda x, y: torch.logsumexp(x, 1),
    "kthvalue": lambda x, y: torch.kthvalue(x, 2, 1).values,
    "median": lambda x, y: torch.median(x, 1).values,
    "nan_to_num": lambda x, y: torch.nan_to_num(x),
    "addr": lambda x, y: torch.addr(x, x[0], y[1]),
    "with logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y),
    "weighted logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y, x, pos_weight=y),
    "many": lambda x, y: torch.cat([x[n % 5] + n for n in range(20)]),
    "steps": lambda x, y: torch.stack([x, y] * 16),
    "smooth": lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_are_one_call(calls, name):
    x, y = (torch.randn(5, 5, generator=torch.Generator().manual_seed(n)) for n in range(2))
    own, other = x.to("spyre"), y.to("spyre")
    for _ in range(2):
        calls.clear()
        found = COMPOSED[name](own, other)
    assert not calls
    torch.testing.assert_close(found.cpu(), COMPOSED[name](x, y), atol=1e-5, rtol=1e-4)


def test_training_asks_python_once(calls):
    """Gradients that nobody wants, of a first layer and of biases, are no results; statistics are
    written by a composition, whose parts are found."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4),
              torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.GroupNorm(2, 4), torch.nn.GELU(),
              torch.nn.Flatten(), torch.nn.Linear(144, 3)]  # fmt: skip
    model = torch.nn.Sequential(*layers).half().to("spyre")
    x = torch.randn(2, 3, 8, 8, dtype=torch.float16).to("spyre")
    for _ in range(3):
        calls.clear()
        model.zero_grad()
        model(x).square().mean().backward()
    assert set(calls) <= {"aten.native_batch_norm.default"}
    assert x.grad is None and model[0].weight.grad is not None


NESTED = """
import torch
from torch_spyre import registry

library = torch.library.Library("test_nested", "DEF")
library.define("inner(Tensor x) -> Tensor")
torch.library.register_fake("test_nested::inner")(torch.empty_like)
registry.register_spyre_decomposition(torch.ops.test_nested.inner.default)(lambda x: x + 1)

@registry.register_spyre_decomposition(torch.ops.aten.igammac.default)
def outer(x, y):
    inner = torch.ops.test_nested.inner(x)
    return inner * 10 if x.sum().item() > 0 else inner  # a number is read: no program

x, y = (torch.ones(70, dtype=torch.float16).to("spyre") for _ in range(2))
for _ in range(3):
    assert torch.igammac(x, y).eq(20).all()
    assert torch.ops.test_nested.inner(x).eq(2).all()
"""


def test_what_an_operator_calls_is_not_taken_for_it():
    """A kernel of Python's, called by the composition of an operator that core/eager knows, with
    the same tensor."""
    ran = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True)
    assert ran.returncode == 0 and "Overriding" not in ran.stderr, ran.stderr


def test_importing_says_nothing():
    """Such as that a kernel takes the place of another."""
    code = "import torch; torch.ones(1, device='spyre')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: torch.sub(x, y, alpha=4),
        lambda x, y: torch.sub(x, x, alpha=3),
        lambda x, y: torch.sub(x, y[:1], alpha=3),
        lambda x, y: torch.sub(x.view(3, 1), y, alpha=3),
        lambda x, y: torch.sub(x.half(), y.half(), alpha=3),
        lambda x, y: torch.sub(x, 2.0, alpha=3),
        lambda x, y: torch.sub(x, -0.0, alpha=3),
        lambda x, y: torch.sub(x, torch.tensor(5.0), alpha=3),
        lambda x, y: torch.rsub(x, y, alpha=3),
    ],
)
def test_other_calls_are_told_apart(change):
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])
    torch.sub(x.to("spyre"), y.to("spyre"), alpha=3)
    for _ in range(2):
        result = change(x.to("spyre"), y.to("spyre"))
        assert torch.equal(result.cpu(), change(x, y))


@pytest.mark.parametrize("default", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_default_dtype_is_part_of_the_call(default):
    """Integers give floats of it."""
    x = torch.arange(1, 6).to("spyre")
    for _ in range(2):
        assert (x / x).dtype == (x + 1.5).dtype == x.sqrt().dtype == torch.float32
    torch.set_default_dtype(default)
    try:
        with torch_spyre.fallback("silent"):  # float64 is the host's
            for _ in range(2):
                assert (x / x).dtype == (x + 1.5).dtype == x.sqrt().dtype == default
    finally:
        torch.set_default_dtype(torch.float32)
    assert (x / x).dtype == torch.float32


def test_layout_is_part_of_the_call():
    x = torch.arange(64 * 128, dtype=torch.float16).reshape(64, 128).fmod(17)
    for source in (x, x.t().contiguous().t()):
        for _ in range(2):
            assert torch.equal((source.to("spyre") + 1).cpu(), source + 1)


def test_in_place_forms_write_what_views_see(calls):
    x, y = card(1.0, 2.0, 3.0, 4.0), card(1.0, 1.0, 2.0, 2.0)
    view = x[1:3]
    for _ in range(3):
        x.mul_(y)
    assert x.tolist() == [1.0, 2.0, 24.0, 32.0]
    assert view.tolist() == [2.0, 24.0]
    for value in (5.0, 6.0, 5.0, 6.0):
        view.fill_(value)
        assert x.tolist() == [1.0, value, value, 32.0]
    assert calls.count("aten.mul.Tensor") == 1


def test_in_place_on_itself():
    x = card(1.0, 2.0)
    for _ in range(3):
        x.add_(x)
    assert x.tolist() == [8.0, 16.0]


def test_in_place_of_a_broadcast_operand():
    x, row = torch.ones(3, 4), torch.arange(4.0)
    result = x.to("spyre")
    for _ in range(3):
        result.add_(row.to("spyre"))
    assert torch.equal(result.cpu(), x + 3 * row)


def test_out_forms(calls):
    x, y = card(1.0, 2.0, 3.0), card(4.0, 5.0, 6.0)
    out = torch.empty(3, device="spyre")
    for _ in range(3):
        assert torch.add(x, y, out=out) is out
        assert out.tolist() == [5.0, 7.0, 9.0]
    assert calls.count("aten.add.Tensor") == 1
    small = torch.empty(0, device="spyre")
    for _ in range(2):
        torch.add(x, y, out=small)
        assert small.tolist() == [5.0, 7.0, 9.0]
        small = torch.empty(0, device="spyre")
    for _ in range(3):
        torch.add(x, out, out=x)
    assert x.tolist() == [16.0, 23.0, 30.0]


def test_autograd_sees_every_call():
    x = card(1.0, 2.0, 3.0).requires_grad_()
    for _ in range(3):
        x.grad = None
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_version_counter_moves_in_place():
    x = card(1.0, 2.0)
    before = x._version
    for _ in range(3):
        x.add_(1.0)
    assert x._version == before + 3


def test_several_results():
    x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
    for _ in range(2):
        for ours, theirs in zip(torch.aminmax(x.to("spyre")), torch.aminmax(x), strict=True):
            assert torch.equal(ours.cpu(), theirs)


def test_mixed_devices_are_refused_each_time():
    x, host = card(1.0, 2.0), torch.tensor([1.0, 2.0])
    for _ in range(2):
        assert (x + x).tolist() == [2.0, 4.0]
        with pytest.raises(RuntimeError, match="same device"):
            torch.add(x, host)


def test_a_fallback_registered_later_is_obeyed():
    x = card(1.0, 2.0)
    host = []
    for _ in range(2):
        assert torch.mul(x, x).tolist() == [1.0, 4.0]
    registry.register_fallback(torch.ops.aten.mul.Tensor)(lambda *a: host.append(1) or a[0] * a[1])
    try:
        assert torch.mul(x, x).tolist() == [1.0, 4.0]
    finally:
        del registry.fallback_ops[torch.ops.aten.mul.Tensor]
    assert host == [1]


def test_threads_share_the_table():
    failures = []

    def work(seed):
        x = card(*range(seed + 2))
        for n in range(100):
            if (x + n % 7).tolist() != [value + n % 7 for value in range(seed + 2)]:
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
