# SPDX-License-Identifier: Apache-2.0
"""tests/ops finds what is wrong; its quick part holds (the whole is `make test-ops`)."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from host_ops import unknown
from inputs import half

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from ops import bounds, forms, judge, ratchet, reference, rows, run, samples, table, ties  # noqa: E402

QUICK = ("add", "sum", "nn_functional_softmin", "matmul", "cumsum", "where", "argmax", "mul",
         "nn_functional_layer_norm", "clamp", "transpose", "igamma")  # fmt: skip


def sample(*tensors, **kwargs):
    return samples.Sample("small", tensors[0], tensors[1:], kwargs, lambda result: result, False)


# ---- bounds


def bound_of(function, actual, *inputs):
    double = [x.double() for x in inputs]
    unit = bounds.UNIT[torch.float16]
    draws = [function(*reference.moved(double, unit, draw)) for draw in range(reference.DRAWS)]
    return bounds.error(actual, function(*inputs), function(*double), draws)


def test_the_cpu_is_right_and_a_changed_element_is_wrong():
    x, y = half(67), half(67)
    right = x + y
    assert bound_of(torch.add, right, x, y)[1] == ""
    wrong = right.clone()
    wrong[5] += 0.05
    error, fault = bound_of(torch.add, wrong, x, y)
    assert error > 1 and "at [5], 1 of 67 elements" in fault


def test_bounds_follow_the_condition():
    """A sum that cancels may be off by what its inputs' rounding makes; an equal sum of small
    numbers may not."""
    large = torch.tensor([1000.0, -999.0]).half()
    small = torch.tensor([0.5, 0.5]).half()
    assert bound_of(torch.sum, torch.tensor(1.5).half(), large)[1] == ""
    assert bound_of(torch.sum, torch.tensor(1.5).half(), small)[1] != ""


def test_numbers_that_are_none_are_told_apart():
    x = torch.tensor([1.0, 0.0])
    assert bound_of(torch.reciprocal, torch.tensor([1.0, math.nan]).half(), x.half())[1] == ""
    assert bound_of(torch.reciprocal, torch.tensor([math.nan, 1.0]).half(), x.half())[1] != ""
    expected = torch.tensor([1.0, math.inf])
    assert bounds.error(-expected, expected, expected.double(), [])[1] != ""


def test_comparisons_may_be_what_a_moved_input_gives():
    x = torch.tensor([1.0, 2.0]).half()
    y = torch.tensor([1.0, 1.0]).half()
    assert bound_of(torch.ge, torch.tensor([False, True]), x, y)[1] == ""
    assert bound_of(torch.ge, torch.tensor([True, False]), x, y)[1] != ""


def test_reference_of_integers_is_double():
    """Integers become float64 there, as 16- and 32-bit numbers do."""
    op = FakeOperator(lambda x: x / 3)
    expected = judge.expect(op, "eager", sample(torch.tensor([1, 2])))
    assert expected.reference[0].dtype == torch.float64
    assert expected.leaves[0].dtype == torch.float32 == torch.get_default_dtype()


def test_equal_inputs_may_be_ordered_either_way():
    op = FakeOperator(lambda x: (x == x.amax(-1, keepdim=True)) * x)
    expected = judge.expect(op, "eager", sample(torch.ones(3, 40).half()))
    moved = torch.stack([draw[0] for draw in expected.draws]) == 0
    assert bool(moved.any(0).all())


def test_special_values_on_the_way():
    """A NaN is +inf on the card, also where a later operator drops NaN."""
    op = FakeOperator(lambda x: x.masked_fill(x < 2, math.nan).nan_to_num(0.0, 7.0))
    expected = judge.expect(op, "eager", sample(torch.tensor([1.0, 3.0]).half()))
    assert judge._compare("fake", expected, [torch.tensor([7.0, 3.0]).half()])[1] == ""
    assert judge._compare("fake", expected, [torch.tensor([0.0, 3.0]).half()])[1] == ""
    assert judge._compare("fake", expected, [torch.tensor([0.0, 7.0]).half()])[1] != ""


def test_bfloat16_ends_at_its_largest_number_on_the_card():
    expected = torch.tensor([1e30, 1e9]).bfloat16()
    saturated = torch.tensor([8589934592.0, 1e9]).bfloat16()
    assert bounds.error(saturated, expected, expected.double(), [])[1] == ""
    assert bounds.error(-saturated, expected, expected.double(), [])[1] != ""
    assert bounds.error(saturated.flip(0), expected, expected.double(), [])[1] != ""


def test_gradients_that_16_bits_do_not_tell():
    found, wanted = [torch.tensor([300.0, 2.0]).half()], [torch.tensor([1.0, 2.0]).double()]
    assert judge._tells_nothing(found, wanted)
    assert not judge._tells_nothing([t.float() for t in found], wanted)
    assert not judge._tells_nothing([t.half() for t in wanted], wanted)


def test_dtypes_and_shapes_count():
    expected = half(3)
    for actual in (expected.float(), expected[:2], 1.0):
        assert "instead of" in bounds.error(actual, expected, expected.double(), [])[1]


def test_ties():
    """Of equal elements any may be chosen; a sort still gives each index once."""
    given = sample(torch.tensor([[1, 2, 2], [3, 3, 0]]).half())
    assert ties.same_elements(given, torch.tensor([2, 1]), torch.tensor([1, 0]))
    assert not ties.same_elements(given, torch.tensor([2, 2]), torch.tensor([1, 0]))
    order = torch.tensor([[0, 1, 2], [2, 0, 1]])
    assert ties.same_elements(given, torch.tensor([[0, 2, 1], [2, 1, 0]]), order)
    assert not ties.same_elements(given, torch.tensor([[0, 1, 1], [2, 1, 0]]), order)
    assert not ties.same_elements(given, torch.tensor([7, 0]), torch.tensor([1, 0]))


# ---- samples


def test_wide_samples():
    def takes(one):
        return one.input.shape == one.args[0].shape

    x = torch.rand(5, 5).half() + 1
    wide = samples.widened(sample(x, x), "odd", takes)
    assert wide.input.shape == (5, 131) and bool((wide.input >= 1).all())

    def multiplies(one):
        return one.input.shape[1] == one.args[0].shape[0]

    wide = samples.widened(sample(x, x), "sticks", multiplies)
    assert wide.input.shape == (192, 192)
    assert samples.widened(sample(x, x), "sticks", lambda _: False) is None


def test_wide_samples_keep_order_and_permutations():
    def widened(x):
        return samples.widened(sample(x), "odd", lambda _: True).input

    ordered = widened(torch.arange(5.0))
    assert bool((ordered[1:] >= ordered[:-1]).all())
    permutation = widened(torch.tensor([2, 0, 1, 3, 4]))
    assert permutation.sort().values.tolist() == list(range(131))


def test_classes_of_shapes():
    sizes = {"empty": (0, 5), "scalar": (), "small": (5, 5), "odd": (3, 67), "sticks": (3, 128)}
    for shapes, size in sizes.items():
        assert samples.shape_class([torch.empty(size)]) == shapes


# ---- verdicts


class FakeOperator:
    name = formatted_name = "fake"

    def __init__(self, function):
        self.op = function

    def __call__(self, *args, **kwargs):
        return self.op(*args, **kwargs)


def verdict(function, form="eager"):
    op = FakeOperator(function)
    expected = judge.expect(op, form, sample(half(3, 70)))
    if form == "compiled":
        [row] = judge._compiled_cases(op, "float16", form, [expected])
    else:
        row = judge._eager_case(op, "float16", form, expected)
    return row.verdict, row.place


def refuse(x, on):
    if x.device.type == on:
        raise ValueError("no")
    return x + 1


@pytest.mark.parametrize("form", ("eager", "compiled"))
def test_verdicts(form):
    assert verdict(lambda x: x + 1, form) == ("right", "card")
    assert verdict(lambda x: unknown(x).cos(), form) == ("right", "host")
    assert verdict(lambda x: x + (1.5 if x.device.type == "spyre" else 1), form)[0] == "wrong"
    assert verdict(lambda x: refuse(x, "spyre"), form)[0] == "host only"


def test_refused_like_the_cpu():
    assert verdict(lambda x: x.view(7))[0] == "refused"


def test_gradients_are_compared():
    op = FakeOperator(lambda x: (x * x).sum(0))
    given = sample(half(3, 70).requires_grad_())
    row = judge._eager_case(op, "float16", "backward", judge.expect(op, "backward", given))
    assert (row.verdict, row.place) == ("right", "card")


def test_gradients_of_several_samples_by_one_graph(monkeypatch):
    op = FakeOperator(lambda x: (x * x).sum(0))
    given = [sample(half(rows, 70).requires_grad_()) for rows in (3, 5)]
    whole, graphs = forms.compiled, []

    def compiled(op, form, samples):
        graphs.append(len(samples))
        return whole(op, form, samples)

    monkeypatch.setattr(forms, "compiled", compiled)
    form = "compiled_backward"
    found = judge._compiled_cases(op, "float16", form, [judge.expect(op, form, s) for s in given])
    assert [(row.verdict, row.place) for row in found] == [("right", "card")] * 2
    assert graphs == [2]


def test_refused_like_pytorchs_compiler():
    """A shape that the CPU's kernel takes and PyTorch's tracing does not."""
    op = FakeOperator(lambda x: x + (1 if not torch.compiler.is_compiling() else x.view(7)))
    expected = judge.expect(op, "compiled", sample(half(3, 70)))
    [row] = judge._compiled_cases(op, "float16", "compiled", [expected])
    assert row.verdict == "refused"


def test_error_inputs():
    class Case:
        def __init__(self, x):
            from torch.testing._internal.opinfo.core import SampleInput

            self.sample_input = SampleInput(x)

    op = FakeOperator(lambda x: x.view(7) if x.device.type == "cpu" else x.reshape(7))
    assert judge._error_case(op, Case(half(3)), "-").verdict == "right"
    op = FakeOperator(lambda x: x.view(7) if x.device.type == "cpu" else x)
    assert judge._error_case(op, Case(half(3)), "-").verdict == "accepted"


# ---- the process above


FAKE_WORKER = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from ops import rows
store = rows.Store(Path(sys.argv[1]))
for line in sys.stdin:
    op = line.strip()
    for dtype in sys.argv[2].split(","):
        if (dtype, "eager") in store.read(op)[1]:
            continue
        print("case", dtype, "eager", flush=True)
        if dtype == "float16":
            {end}
        store.write([rows.Row(op, dtype, "eager", "small", "right")])
        store.finish(op, dtype, "eager")
    print("done", op, flush=True)
"""


@pytest.mark.parametrize("end, verdict", (("os.abort()", "crashed"), ("time.sleep(600)", "hung")))
def test_an_ended_worker_is_one_row(tmp_path, monkeypatch, end, verdict):
    """It is renewed, and the run goes on behind the case."""
    program = FAKE_WORKER.format(tests=str(ROOT / "tests"), end=end)
    monkeypatch.setattr(run, "COMMAND", [sys.executable, "-c", program])
    monkeypatch.setattr(run, "HANG_S", 3)
    run.run(tmp_path, ["one", "two"], ["float16", "float32"], ["eager"], 1)
    for op in ("one", "two"):
        found = {row.dtype: row.verdict for row in rows.Store(tmp_path).read(op)[0]}
        assert found == {"float16": verdict, "float32": "right"}


def test_rows_are_kept(tmp_path):
    store = rows.Store(tmp_path)
    one = rows.Row("add", "float16", "eager", "odd", "right", "card")
    store.write([one, rows.Row("add", "float16", "eager", "odd", "wrong", "card", detail="x")])
    store.finish("add", "float16", "eager")
    [merged], done = store.read("add")
    assert (merged.verdict, merged.samples, merged.detail) == ("wrong", 2, "x")
    assert done == {("float16", "eager")}


# ---- table, ratchet, page


def row(shapes, place, verdict="right", why=""):
    return rows.Row("add", "float16", "eager", shapes, verdict, place, why)


def test_letters():
    def letter(*given):
        return table.letter(list(given), "eager")

    assert letter() == "-"
    assert letter(row("odd", "card"), row("small", "card")) == "C"
    assert letter(row("odd", "card"), row("small", "host")) == "c"
    assert letter(row("odd", "host")) == "h"
    assert letter(row("odd", "", "refused")) == "R"
    assert letter(row("odd", "", "wrong"), row("small", "card")) == "W"


def test_ratchet_only_grows(tmp_path):
    path = tmp_path / "ratchet.txt"
    both = [row("odd", "card"), row("small", "card")]
    ratchet.write(ratchet.on_card(both), path)
    known = ratchet.read(path)
    assert known == {("add", "eager", "float16", "odd"), ("add", "eager", "float16", "small")}
    ran = {("add", "eager", "float16")}
    assert ratchet.compare(both, ran, known) == ([], [])
    lost = ratchet.compare([row("odd", "card"), row("small", "host")], ran, known)
    assert lost == ([("add", "eager", "float16", "small")], [])
    gained = ratchet.compare([*both, row("sticks", "card")], ran, known)
    assert gained == ([], [("add", "eager", "float16", "sticks")])
    assert ratchet.compare([], set(), known) == ([], [])


def test_page_is_that_of_the_table():
    done = subprocess.run([sys.executable, ROOT / "tools/operators_page.py", "--check"])
    assert done.returncode == 0


def test_table_and_ratchet_agree():
    """What the table shows on the card is in the ratchet."""
    lines, known = table.read(), {entry[:3] for entry in ratchet.read()}
    assert len(lines) > 600
    for op, line in lines.items():
        columns = line.partition(" | ")[0].split()[1:]
        for form, column in zip(rows.FORMS[:-1], columns, strict=False):
            for dtype, sign in zip(rows.DTYPES, column, strict=True):
                assert sign not in "Cc" or (op, form, dtype) in known, f"{op} {form} {dtype}"


# ---- the quick part


def test_quick_part(tmp_path):
    """Some operators in every form and dtype: no fault, nothing of the ratchet lost."""
    command = [sys.executable, "-W", "ignore", "-m", "ops", "--jobs", "2"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path), "--ops", ",".join(QUICK)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert len(list(tmp_path.glob("*.jsonl"))) == len(QUICK)
