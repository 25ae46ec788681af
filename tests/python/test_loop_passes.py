# SPDX-License-Identifier: Apache-2.0
"""Passes of users over the loop IR."""

import pathlib

import pytest
import sympy
import torch
from torch_spyre import passes
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims
from torch_spyre.compile.planned import pass_utils

POINTS = (
    passes.CustomPreLayoutPasses,
    passes.CustomPreSchedulingPasses,
    passes.CustomPreFusionPasses,
    passes.CustomPostFusionPasses,
)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    for point in POINTS:
        point.passes.clear()
    torch._dynamo.reset()


def two_branches(x, y):
    return x.exp() + 1, y.neg() * x


@pytest.fixture
def operands():
    torch.manual_seed(3)
    return [torch.randn(64, 128, dtype=torch.float16) for _ in range(2)]


def run(function, operands, tmp_path=None, monkeypatch=None):
    """Results on the CPU, and the final loop IR when a folder is given."""
    if tmp_path:
        monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    results = torch.compile(function, dynamic=False)(*[x.to("spyre") for x in operands])
    text = pathlib.Path(tmp_path, "segment0.loop").read_text() if tmp_path else ""
    return [result.cpu() for result in results], text


def check(results, operands):
    for result, expected in zip(results, two_branches(*operands), strict=True):
        torch.testing.assert_close(result, expected, atol=0.02, rtol=0.01)


def test_passes_see_ops_with_loops_operands_and_division(operands):
    seen = []
    passes.CustomPreSchedulingPasses.passes.append(lambda graph: seen.append(graph.operations))
    for point in POINTS[2:]:
        point.passes.append(lambda ops: seen.append(ops) or ops)
    results, _text = run(two_branches, operands)
    check(results, operands)
    assert len(seen) == 3
    before, divided, last = ({op.opfunc: op for op in ops} for ops in seen)
    exp = before["exp"]
    assert [loop.extent for loop in exp.loops] == [64, 128]
    assert [loop.stick for loop in exp.loops] == [False, True]
    assert exp.inputs[0].buffer.kind == "input" and exp.inputs[0].strides == (128, 1)
    assert "test_loop_passes.py" in exp.location
    assert exp.slices == [1, 1]
    assert divided["exp"].slices != [1, 1]
    assert any(op.result.buffer.in_lx for op in last.values())
    assert last["mul"].result.buffer.leaves


def test_a_legal_order_is_taken(operands, tmp_path, monkeypatch):
    def last_branch_first(ops):
        return sorted(ops, key=lambda op: op.opfunc not in ("neg", "mul"))

    passes.CustomPreFusionPasses.passes.append(last_branch_first)
    results, text = run(two_branches, operands, tmp_path, monkeypatch)
    check(results, operands)
    ops = [line.split()[2] for line in text.splitlines() if line.startswith("op ")]
    assert ops == ["neg", "mul", "exp", "add"]


def test_an_order_that_reads_too_early_is_refused(operands):
    def backwards(ops):
        return ops[::-1]

    passes.CustomPreFusionPasses.passes.append(backwards)
    with pytest.raises(Exception, match=r"pass backwards, op \d+ \w+.*before it is written"):
        run(two_branches, operands)


def test_an_op_whose_result_is_needed_stays(operands):
    def without_exp(graph):
        graph.operations = [op for op in graph.operations if op.opfunc != "exp"]

    passes.CustomPreSchedulingPasses.passes.append(without_exp)
    with pytest.raises(Exception, match=r"pass without_exp, .* exp .*result is needed"):
        run(two_branches, operands)


def test_divisions_of_a_pass_stay(operands, tmp_path, monkeypatch):
    def eight_rows(graph):
        for op in graph.operations:
            if op.opfunc == "exp":
                op.slices = [8, 1]
                op.note = "in eight"

    passes.CustomPreSchedulingPasses.passes.append(eight_rows)
    results, text = run(two_branches, operands, tmp_path, monkeypatch)
    check(results, operands)
    (line,) = (line for line in text.splitlines() if " exp for(" in line)
    assert "split(c0/8)" in line and line.endswith("; in eight")


@pytest.mark.parametrize(
    ("slices", "rule"),
    [([7, 1], "do not divide"), ([64, 1], "more slices than cores"), ([0, 1], "from 1 on"),
     ([2], "1 slices for 2 loops")],
)  # fmt: skip
def test_bad_slices_are_refused(operands, slices, rule):
    def divide(ops):
        ops[0].slices = slices
        return ops

    passes.CustomPreFusionPasses.passes.append(divide)
    with pytest.raises(Exception, match=rule):
        run(two_branches, operands)


def test_passes_choose_sticks(operands, tmp_path, monkeypatch):
    layouts = []

    def by_rows(graph):
        assert all(op.result.buffer.layout is None for op in graph.operations)
        for op in graph.operations:
            if op.opfunc == "exp":
                op.stick_along(0)

    passes.CustomPreLayoutPasses.passes.append(by_rows)
    passes.CustomPreSchedulingPasses.passes.append(
        lambda graph: layouts.extend((op.opfunc, op.result.buffer) for op in graph.operations)
    )
    results, text = run(two_branches, operands, tmp_path, monkeypatch)
    check(results, operands)
    (line,) = (line for line in text.splitlines() if " exp for(" in line)
    assert "c0<64 stick" in line and " wants(c0)" in line
    exp = dict(layouts)["exp"]
    assert exp.extents == (128, 64) and exp.strides == (1, 128) and exp.layout.stick == 1


def test_sticks_that_cannot_be_are_refused(operands):
    def rows(graph):
        for op in graph.operations:
            if op.opfunc == "batchmatmul":
                op.stick_along(0)

    passes.CustomPreLayoutPasses.passes.append(rows)
    with pytest.raises(Exception, match=r"pass rows, .*cannot have its stick there.* along: c1"):
        run(lambda x, y: (x @ y.t(),), operands)
    passes.CustomPreLayoutPasses.passes[:] = []

    def late(graph):
        graph.operations[0].stick_along(0)

    passes.CustomPreSchedulingPasses.passes.append(late)
    with pytest.raises(Exception, match="pass late, .*sticks are chosen already"):
        run(lambda x, y: (x.exp() + y,), operands)
    with pytest.raises(Exception, match="has no loop 9"):
        passes.CustomPreSchedulingPasses.passes[:] = [lambda g: g.operations[0].stick_along(9)]
        run(lambda x, y: (x.exp() - y,), operands)


def test_ops_know_their_tiles_and_hints(operands):
    from torch_spyre.compile.hints.dim_hints import DimHint
    from torch_spyre.compile.hints.hint_scopes import spyre_hint
    from torch_spyre.compile.planned.loop_info import CoarseTileInfo

    declare_tensor_dim("R", 64)
    x, y = (t.to("spyre") for t in operands)
    name_tensor_dims(x, ["R", None])
    seen = []
    passes.CustomPreSchedulingPasses.passes.append(lambda graph: seen.extend(graph.operations))

    def tiled(x, y):
        with spyre_hint(num_tiles_per_dim={"R": 4}):
            z = (x.exp() + y).sum(-1)
        with spyre_hint(num_tiles_per_dim={"R": 2}), spyre_hint(num_tiles_per_dim={"R": 8}):
            w = x.tanh()
        return z, w, y.neg()

    torch.compile(tiled, dynamic=False)(x, y)
    by_name = {op.opfunc: op for op in seen}
    hint = by_name["exp"].dim_hints[0]
    assert hint == DimHint(["R"], 4, "c0", False, hint.hint_id) and hint.hint_id > 0
    assert by_name["exp"].loop_info == CoarseTileInfo((0,), [4], [[0]], [[]])
    assert by_name["sum"].loop_info.loop_group_id == (0,)
    assert by_name["tanh"].loop_info == CoarseTileInfo((1, 0), [2, 8], [[0], [0]], [[], []])
    assert by_name["neg"].loop_info is None and by_name["neg"].dim_hints == []


def test_dims_with_names_divide_by_name(operands, tmp_path, monkeypatch):
    declare_tensor_dim("R", 64)
    x = operands[0].to("spyre")
    name_tensor_dims(x, ["R", None])

    def by_rows(graph):
        graph.operations[0].divide(R=4)
        with pytest.raises(ValueError, match="no loop over Q"):
            graph.operations[0].divide(Q=2)

    passes.CustomPreSchedulingPasses.passes.append(by_rows)
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    torch.compile(lambda x: x.exp(), dynamic=False)(x)
    assert "split(c0/4)" in (tmp_path / "segment0.loop").read_text()


def test_nothing_moves_once_buffers_have_places(operands):
    passes.CustomPostFusionPasses.passes.append(lambda ops: [*ops[2:], *ops[:2]])
    with pytest.raises(Exception, match="buffers have their places already"):
        run(two_branches, operands)


def test_notes_of_the_last_point_are_shown(operands, tmp_path, monkeypatch):
    def mark(ops):
        for op in ops:
            op.note = f"seen {op.opfunc}"
        return ops

    passes.CustomPostFusionPasses.passes.append(mark)
    _results, text = run(two_branches, operands, tmp_path, monkeypatch)
    assert text.count("; seen ") == text.count("\nop ") + text.startswith("op ")


def test_an_exception_of_a_pass_is_the_users(operands):
    class Stop(Exception):
        pass

    def stop(_ops):
        raise Stop("no further")

    passes.CustomPreFusionPasses.passes.append(stop)
    with pytest.raises(Exception, match="no further"):
        run(two_branches, operands)


@pytest.mark.parametrize(
    "wrong, rule",
    [
        (3, "CustomPreFusionPasses.passes: expected a function, got 3"),
        (lambda ops: None, "of CustomPreFusionPasses returned None: expected the ops in a list"),
    ],
    ids=["number", "nothing"],
)
def test_what_is_no_pass_is_refused(operands, wrong, rule):
    passes.CustomPreFusionPasses.passes.append(wrong)
    with pytest.raises(TypeError, match=rule):
        run(two_branches, operands)


def test_the_call_is_over_when_it_is_over(operands):
    from torch_spyre import _C

    kept = []
    original = passes.loops.read
    passes.CustomPreFusionPasses.passes.append(lambda ops: ops)

    def read(handle):
        kept.append(handle)
        return original(handle)

    passes.loops.read, restore = read, original
    try:
        run(two_branches, operands)
    finally:
        passes.loops.read = restore
    with pytest.raises(ValueError):
        _C.read_loops(kept[0])


def test_the_source_of_passes_is_part_of_their_id():
    before = passes.CustomPreFusionPasses().uuid()
    passes.CustomPreFusionPasses.passes.append(lambda ops: ops)
    assert passes.CustomPreFusionPasses().uuid() != before


def test_divisions_by_coefficients_of_an_index():
    i, j, r, s, t, q = sympy.symbols("i j r s t q")
    stored = pass_utils.splits_by_index_coeff({i: 4, j: 1, r: 8}, 64 * i + j, 16 * i + r)
    assert stored == ({64: 4}, {1: 8})
    ranges = {s: 8, t: 64, q: 16}
    found = pass_utils.apply_splits_from_index_coeff(stored, 64 * s + t, 16 * s + q, ranges)
    assert found == {s: 4, t: 1, q: 8}


def test_a_loop_of_one_step_takes_no_slices_of_another():
    s, t = sympy.symbols("s t")
    index = 8 * s + 8 * t
    found = pass_utils.apply_splits_from_index_coeff(({8: 4}, {}), index, index, {s: 4, t: 1})
    assert found == {s: 4, t: 1}


def test_slices_are_read_and_set_by_coefficients(operands):
    seen = []

    def look(ops):
        seen.extend((op.opfunc, op.op_it_space_splits) for op in ops)
        return ops

    def spread(graph):
        for op in graph.operations:
            op.op_it_space_splits = ({128: 16, 1: 2}, {})
            assert op.slices == [16, 2]

    passes.CustomPreSchedulingPasses.passes.append(spread)
    passes.CustomPreFusionPasses.passes.append(look)
    run(lambda x, y: x.exp(), operands)
    assert seen == [("exp", ({128: 16, 1: 2}, {}))]
