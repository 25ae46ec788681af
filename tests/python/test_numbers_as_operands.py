# SPDX-License-Identifier: Apache-2.0
"""Parameters of opfuncs that each launch gives, against programs that hold them: the same bits, and
one program for all of them."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch_spyre.compile import call_compiler
from torch_spyre.eager import operator_program

FUNCTIONS = {
    "softplus": lambda x, a, b: F.softplus(x, a + 2.5, 8 * b),
    "threshold": lambda x, a, b: F.threshold(x, a, b),
    "hardshrink": lambda x, a, _b: F.hardshrink(x, a),
    "softshrink": lambda x, a, _b: F.softshrink(x, abs(a)),
    "power": lambda x, a, _b: x.abs() ** a,
    "power of a negative number": lambda x, a, _b: x ** int(a * 4),
    "logit": lambda x, a, _b: torch.logit(x, min(abs(a) / 8, 0.4)),
    "threshold in place": lambda x, a, b: F.threshold_(x.clone(), a, b),
}
SHAPES = [(1,), (3,), (64,), (65,), (3, 70), (2, 3, 64), (5, 129), (40, 1), (1, 7, 1), (300, 260)]


def _views(x, r):
    """What an operand may be: all, turned, a part that begins inside of a stick, repeated."""
    yield x
    if x.dim() > 1:
        yield x.transpose(0, -1)
        yield x[..., x.shape[-1] // 3 :]
        yield x[:1].expand(x.shape)
    if x.shape[0] > 2:
        yield x[1:-1]
        yield x[::2]


def _numbers(r, count):
    specials = [3.0, -2.0, 0.1, 65504.0, 1e-7, -1.5, 2, 5]
    drawn = (torch.randn(count, generator=r) * 2).tolist()
    return [
        specials[i % len(specials)] if torch.rand((), generator=r) < 0.3 else x
        for i, x in enumerate(drawn)
    ]


@pytest.mark.parametrize("trials", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_programs_that_hold_numbers_give_the_same_bits(trials, monkeypatch):
    r = torch.Generator().manual_seed(trials)
    pick = lambda of: of[int(torch.randint(len(of), (), generator=r))]  # noqa: E731
    for trial in range(trials):
        name = pick(list(FUNCTIONS))
        x = torch.randn(pick(SHAPES), generator=r) * pick([0.3, 1, 20])
        flat = x.view(-1)
        flat[torch.randint(flat.numel(), (), generator=r)] = pick([float("inf"), float("nan"), 0.0])
        x = x.to(pick([torch.float16, torch.bfloat16])).to("spyre")
        x = pick(list(_views(x, r)))
        numbers = list(zip(_numbers(r, 4), _numbers(r, 4), strict=True))
        made = []
        for takes in (True, False):
            operator_program.programs.clear()
            monkeypatch.setattr(call_compiler, "takes_scalars", lambda takes=takes: takes)
            made.append([FUNCTIONS[name](x, a, b).cpu() for a, b in numbers])
        for ours, theirs, number in zip(*made, numbers, strict=True):
            ours, theirs = ours.view(torch.int16), theirs.view(torch.int16)
            assert torch.equal(ours, theirs), (trial, name, tuple(x.shape), x.stride(), number)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_program_for_all_numbers(name, counted):
    operator_program.programs.clear()
    x = torch.randn(6, 70).half().to("spyre")
    function = FUNCTIONS[name]
    function(x, 0.8, 0.7)
    before = len(counted)
    for a, b in [(0.81, 0.9), (1.7, 2.5), (2.8, 0.3), (3.25, 7.0)]:
        expected = function(x.cpu().float(), a, b)
        got = function(x, a, b).cpu().float()
        # A power of x.abs() may leave float16, and in logit 0 and 1 are infinite.
        finite = expected.isfinite() & got.isfinite()
        torch.testing.assert_close(got[finite], expected[finite], rtol=4e-3, atol=4e-3)
    assert len(counted) == before


def test_a_compiled_graph_takes_exponents():
    """Whole ones: PyTorch traces a float there as a constant."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, n: (x.abs() + 0.5) ** n, dynamic=True)
    x = torch.rand(5, 130).half()
    compiled(x.to("spyre"), 3)
    before = len(torch_spyre.compile_reports())
    for n in (5, 6, 7, 9):
        got = compiled(x.to("spyre"), n).cpu().float()
        torch.testing.assert_close(got, (x.float() + 0.5) ** n, rtol=2e-2, atol=1e-2)
    assert len(torch_spyre.compile_reports()) == before
