# SPDX-License-Identifier: Apache-2.0
"""Python numbers that change from call to call of a compiled function."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree
from torch_spyre.compile import backend
from torch_spyre.compile.integers import integer_watch

CALLS = 12


def numbers(count):
    draw = random.Random(1)
    return [[draw.uniform(0.5, 3) for _ in range(count)] for _ in range(CALLS)]


@pytest.fixture
def x():
    torch._dynamo.reset()
    torch.spyre.empty_cache()
    return torch.randn(4, 100).half().to("spyre")


def check(function, x, calls):
    """Every call gives the bits of the eager operators; the number of programs."""
    compiled = torch.compile(function)
    for values in calls:
        assert torch.equal(compiled(x, *values).cpu(), function(x, *values).cpu()), values
    return len(backend.programs)


ONE_PROGRAM = {
    "factor": lambda x, s: x * s + 1,
    "several": lambda x, s, t, u: (x * s - t) / u,
    "equal operators": lambda x, s, t, u: x * s + x * t + x * u,
    "one in two places": lambda x, s, t: (x * s - t) * s,
    "arithmetic": lambda x, s, t: x * (2 * s) + (t - 1) / 4,
    "in front": lambda x, s: s + x,
    "composed": lambda x, s, t: F.gelu(x / s) * torch.sigmoid(x * t),
    "reduced": lambda x, s: x.softmax(-1) * s + x.sum(-1, keepdim=True) * s,
    "returned": lambda x, s: (x * s, s)[0],
}


@pytest.mark.parametrize("name", ONE_PROGRAM)
def test_one_program_serves_all_floats(name, x):
    function = ONE_PROGRAM[name]
    calls = numbers(function.__code__.co_argcount - 1)
    assert check(function, x, calls) == 2  # Dynamo makes constants of the first ones


def test_one_program_serves_all_integers(x):
    assert check(lambda x, n: x * n, x, [[n] for n in range(2, 20)]) == 2


def test_numbers_of_the_host_are_equal_to_no_tensor(x):
    """A float in several dtypes and signs, numbers that float16 has and has not."""
    values = [[v] for v in (0.1, -0.1, 0.0, 1.0, 2.0, 1e-3, 3.0, 65504.0)]
    assert check(lambda x, s: x * s, x, values) <= 4
    assert check(lambda x, s: x.float() * s, x, values) <= 8


def test_what_has_no_class_is_a_program_per_value(x):
    values = [[v] for v in (2.5, 1e30, float("inf"), float("nan"), 3.5)]
    compiled = torch.compile(lambda x, s: x * s)
    for (value,) in [[1.5], *values]:
        torch.testing.assert_close(compiled(x, value).cpu(), (x * value).cpu(), equal_nan=True)


def test_bounds_are_a_program_per_value(x):
    assert check(lambda x, s: x.clamp(-s, s), x, numbers(1)[:5]) == 5


@pytest.mark.host("aten.cumsum")
def test_parts_on_the_host_get_the_number_of_the_call(x):
    check(lambda x, s: (x * s).cumsum(-1) + torch.cumsum(x, 0) * s, x, numbers(1)[:5])


def test_gradients(x):
    def step(x, s, t):
        with torch.enable_grad():
            w = x.detach().clone().requires_grad_()
            ((w * s + t) ** 2).sum().backward()
        return w.grad

    compiled = torch.compile(step)
    for s, t in numbers(2)[:4]:
        torch.testing.assert_close(compiled(x, s, t), step(x, s, t), rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_scalars_computed_on_the_host_meet_the_card_there(x, dtype):
    """As an optimizer's step, counted on the host; a fallback would fail."""

    def corrected(x, step):
        return x / (1 - 0.9**step).sqrt(), torch._foreach_mul([x, x + 1], [step + 1, step * 2])

    compiled = torch.compile(corrected)
    for number in (1, 2, 7):
        step = torch.tensor(number, dtype=dtype)
        found, wanted = compiled(x, step), corrected(x.cpu(), step)
        for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=2e-3, atol=2e-3)


@pytest.mark.host("aten.mul.Tensor")
def test_a_number_that_becomes_int64(x):
    compiled = torch.compile(lambda x, n: x.long() * n)
    for n in (3, 2**20, 2**33, 5):
        assert torch.equal(compiled(x, n).cpu(), x.cpu().long() * n)


STORED = """
import torch
x = torch.ones(4, 64).half().to("spyre")
compiled = torch.compile(lambda x, s, t: torch.sigmoid(x / s) * (x * t))
for s, t in ((1.5, 2.5), (1.25, 0.75), (3.0, 1.1)):
    assert torch.equal(compiled(x, s, t).cpu(), (torch.sigmoid(x / s) * (x * t)).cpu())
"""


def test_programs_of_several_numbers_are_read_from_the_disk(run_python, tmp_path):
    for _ in range(2):
        done = run_python(STORED, SPYRE_CACHE_DIR=str(tmp_path))
        assert "removed" not in done.stderr


def test_ranges_of_integers_that_depend_on_no_input_are_found_once(monkeypatch, x):
    asked = []
    found = integer_watch.Watch._overflowing
    monkeypatch.setattr(
        integer_watch.Watch, "_overflowing", lambda self, *ids: asked.append(1) or found(self, *ids)
    )
    torch._dynamo.reset()
    function = torch.compile(lambda x: x + torch.arange(x.shape[-1], device=x.device) * 3)
    function(x)
    first = len(asked)
    assert first > 0
    function(x)
    assert len(asked) == first
