# SPDX-License-Identifier: Apache-2.0
"""Random wrong programs end on the card as on the CPU: in an error of the same family of classes,
without a signal, a hang or a silent result."""

import itertools

import pytest
import torch
import wrong_programs


def found(count, first):
    ran, faults = wrong_programs.judge(itertools.count(first), count)
    assert ran == count
    return [f"program {fault.number}: {fault.what}" for fault in faults]


def test_some_wrong_programs():
    assert found(60, 0) == []


@pytest.mark.long
def test_three_hundred_wrong_programs():
    assert found(300, 100_000) == []


class Ending:
    """A worker whose process ends, or hangs, while the card has its turn."""

    words = ("ended", "hangs", "done")

    def __init__(self):
        self.ended = 0

    def run(self, number):
        word = self.words[number]
        return word, "aten.add" if word != "done" else ""

    def end(self):
        self.ended += 1


def test_ends_and_hangs_are_faults(monkeypatch):
    monkeypatch.setattr(wrong_programs, "_Worker", Ending)
    count, faults = wrong_programs.judge(range(3), 3)
    assert count == 3
    assert [(fault.number, fault.what) for fault in faults] == [
        (0, "aten.add: the process ended"), (1, "aten.add: the process hangs"),
    ]  # fmt: skip


def test_the_worker_tells_results_and_other_classes(monkeypatch):
    made = wrong_programs.Program(torch.ops.aten.add.Tensor, [], [torch.ones(2), torch.ones(3)], {})
    refused = wrong_programs._run(made, "cpu")
    assert refused[0] == "raises" and wrong_programs.verdict(made, refused) == ""
    right = made._replace(args=[torch.ones(2), torch.ones(2)])
    assert wrong_programs.verdict(right, refused).startswith("a result; the CPU: RuntimeError")
    other = ("raises", IndexError, "no")
    assert wrong_programs.verdict(made, other).startswith("RuntimeError: ")


# ---- what they found


def raises(function, *sizes, dtype=torch.float16):
    """The class and the first words of the error on each device."""
    seen = []
    for device in ("cpu", "spyre"):
        with pytest.raises(Exception) as caught:
            function(torch.ones(*sizes, dtype=dtype).to(device))
        seen.append((caught.type, str(caught.value)[:25]))
    return seen


WRONG = {
    "unfold": lambda x: x.unfold(2, 1, 1),
    "fill_": lambda x: x.fill_(1e30),
    "full_like": lambda x: torch.full_like(x, 1e5),
    "celu": lambda x: torch.celu(x.float(), 1e300),
    "alpha": lambda x: torch.sub(x, x, alpha=1e300),
    "clamp_min": lambda x: torch.clamp_min(x > 0, 2, out=torch.empty_like(x)),
    "all": lambda x: torch.ops.aten.all.dims_out(x, None, False, out=x),
    "any": lambda x: torch.ops.aten.any.dims_out(x, [0], False, out=x),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_as_by_the_cpu(name):
    torch.celu(torch.ones(5).to("spyre"), 2.0)  # a program of the operator with another number
    on_cpu, on_card = raises(WRONG[name], 5)
    assert on_card == on_cpu


@pytest.mark.host("aten.mul.Tensor")
def test_numbers_beyond_the_range_that_operators_take():
    for dtype, number in ((torch.float16, 1e5), (torch.float32, 1e300)):
        x = torch.tensor([1.0, -1.0]).to(dtype)
        assert (x.to("spyre") * number).cpu().tolist() == (x * number).tolist()
    assert torch.full((1,), 1e5, dtype=torch.float16, device="spyre").cpu().isinf().all()
