# SPDX-License-Identifier: Apache-2.0
"""What the planner decides, under torch-spyre's names. Numbers of single functions are those that
its public pages and tests state (torch-spyre/torch-spyre, docs/source/compiler, tests/tensor
test_coordinates.py, tests/inductor test_scratchpad_solver.py and test_unroll_loop_specs.py); views
of a compiled graph are compared with what the graph computes, or with another stage of it."""

import copy
import dataclasses
import itertools
import json

import pytest
import sympy
import torch
import torch_spyre
from torch.utils._sympy.functions import ModularIndexing
from torch_spyre._C import DataFormats, SpyreTensorLayout, Unsupported
from torch_spyre._inductor import spyre_hint
from torch_spyre._inductor.codegen import unroll
from torch_spyre._inductor.scratchpad import plan_solver
from torch_spyre._inductor.views import compute_coordinates
from torch_spyre._inductor.wsr import propagate_named_dims
from torch_spyre._inductor.wsr.propagate_named_dims import declare_tensor_dim, name_tensor_dims
from torch_spyre.compile.planned import counted_loops, op_spec, planned_layouts
from torch_spyre.compile.planned.loop_info import CoarseTileInfo
from torch_spyre.execution.async_compile import SpyreAsyncCompile

p0, p1, p2, p3 = sympy.symbols("p0 p1 p2 p3", integer=True)


@pytest.fixture
def compiled(compile_observed):
    """compiled(function, *tensors) -> the executable of its graph."""

    def run(function, *tensors):
        _, (executable,) = compile_observed(function, *tensors)
        return executable

    return run


# ---- Coordinates

HOST = ([2, 256, 4096], [1048576, 4096, 1])
DEVICE = ([256, 64, 2, 64], [4096, 64, 1048576, 1])
PARTS = ([9, 15, 384], [5760, 384, 1])
ROWS = {p0: 512, p1: 4096}
COORDINATES = {
    "heads": (
        HOST,
        {p0: 2, p1: 32, p2: 256, p3: 128},
        1048576 * p0 + 128 * p1 + 4096 * p2 + p3,
        [p0, p2, 128 * p1 + p3],
    ),
    "joined dims": (HOST, ROWS, 4096 * p0 + p1, [p0 // 256, p0 % 256, p1]),
    "a remainder": (HOST, ROWS, 4096 * (p0 % 256) + p1, [0, p0 % 256, p1]),
    "Inductor's": (HOST, ROWS, 4096 * ModularIndexing(p0, 1, 256) + p1, [0, p0 % 256, p1]),
    "size 1": (([3, 1, 128], [128, -1, 1]), {p0: 3, p1: 128}, 128 * p0 + p1, [p0, 0, p1]),
    "stride 0": (([3, 42, 128], [128, 0, 1]), {p0: 3, p1: 42}, 128 * p0 + p1, [p0, 0, p1]),
    "a later part": (
        PARTS,
        {p0: 3, p1: 15, p2: 384},
        5760 * p0 + 384 * p1 + p2 + 17280,
        [p0 + 3, p1, p2],
    ),
    "offsets in all dims": (
        ([10, 20, 30], [600, 30, 1]),
        {p0: 10, p1: 20, p2: 30},
        600 * p0 + 30 * p1 + p2 + 1855,
        [p0 + 3, p1 + 1, p2 + 25],
    ),
    "sticks": (
        DEVICE,
        {p0: 2, p1: 32, p2: 256, p3: 128},
        1048576 * p0 + 128 * p1 + 4096 * p2 + p3,
        [p2, 2 * p1 + p3 // 64, p0, p3 % 64],
    ),
    "sticks of joined dims": (
        DEVICE,
        ROWS,
        4096 * p0 + p1,
        [p0 % 256, p1 // 64, p0 // 256, p1 % 64],
    ),
    "sticks of a part": (
        ([15, 6, 9, 64], [384, 64, 5760, 1]),
        {p0: 9, p1: 15, p2: 128},
        5760 * p0 + 384 * p1 + p2 + 128,
        [p1, p2 // 64 + 2, p0, p2 % 64],
    ),
}


@pytest.mark.parametrize("case", COORDINATES)
def test_coordinates(case):
    (size, stride), ranges, index, expected = COORDINATES[case]
    assert compute_coordinates(size, stride, ranges, index) == expected


def test_coordinates_that_are_none():
    for index, rule in (
        (63 - p0, "backwards"),
        (p0 + p1, "p1 is no loop"),
        (p0 * p0, "is no loop"),
    ):
        with pytest.raises(Unsupported, match=rule):
            compute_coordinates([64], [1], {p0: 64}, index)
    with pytest.raises(Unsupported, match="between those"):
        compute_coordinates([4, 4], [8, 2], {p0: 4}, 8 * p0 + 1)


FUNCTIONS = {
    "heads": (lambda x: x.view(4, 8, 3, 64).transpose(1, 2).contiguous() + 1, [(32, 192)]),
    "transposed": (lambda x: x.t().contiguous(), [(128, 192)]),
    "product": (lambda x, y: torch.softmax(x @ y, -1), [(48, 100), (100, 80)]),
    "part": (lambda x: x[3:, 64:].clone() * 2, [(40, 192)]),
}


def operands(executable):
    """(indices of the loops, TensorArg, index of the dense host tensor) of every operand."""
    ops, _buffers = executable.loops(0)
    for spec, (*_names, loops, accesses, _hints, _tiles) in zip(
        planned_layouts.specs_of(executable), ops, strict=True
    ):
        ranges = {symbol: extent for symbol, (extent, _slices) in spec.iteration_space.items()}
        assert [loop[0] for loop in loops] == [int(extent) for extent in ranges.values()]
        for arg, (_buffer, offset, strides) in zip(spec.args, accesses, strict=True):
            index = sum(
                (s * c for s, c in zip(strides, ranges, strict=True)), sympy.Integer(offset)
            )
            yield ranges, arg, index


@pytest.mark.parametrize("case", FUNCTIONS)
def test_coordinates_are_those_of_the_compiler(compiled, case):
    function, shapes = FUNCTIONS[case]
    executable = compiled(function, *(torch.randn(s).half() for s in shapes))
    checked = 0
    for ranges, arg, index in operands(executable):
        if -1 in arg.stride_map:
            continue
        found = compute_coordinates(arg.device_size, arg.stride_map, ranges, index)
        ends = [{0, 1 % int(n), int(n) // 2, int(n) - 1} for n in ranges.values()]
        for at in itertools.product(*ends):
            point = dict(zip(ranges, at, strict=True))
            said = [c.subs(point) for c in arg.device_coordinates]
            assert [sympy.sympify(c).subs(point) for c in found] == said, (arg.name, index)
        checked += 1
    assert checked >= 2


# ---- Places


def buffers(*rows):
    return [plan_solver.LifetimeBoundBuffer(*row) for row in rows]


def addresses(solver, made, size, alignment=1):
    planned = solver(made, size, alignment).plan_layout()
    assert planned == made
    for i, a in enumerate(planned):
        for b in planned[:i]:
            if a.address is None or b.address is None or not a.overlaps_in_time(b):
                continue
            apart = a.address + a.size <= b.address or b.address + b.size <= a.address
            handed_over = a.address == b.address and (
                b.name in a.in_place_parents or a.name in b.in_place_parents
            )
            assert apart or handed_over, (a, b)
    return [b.address for b in planned]


SOLVERS = [
    plan_solver.GreedyLayoutSolver,
    plan_solver.FirstFitLayoutSolver,
    plan_solver.BestFitLayoutSolver,
    plan_solver.SearchLayoutSolver,
    plan_solver.ExactLayoutSolver,
]
HEURISTICS = SOLVERS[:3]


@pytest.mark.parametrize("solver", SOLVERS)
def test_places(solver):
    def check(rows, size, alignment=1):
        return addresses(solver, buffers(*rows), size, alignment)

    assert check([], 10) == []
    assert sorted(check([("a", 3, [0, 1]), ("b", 3, [0, 1]), ("c", 4, [0, 1])], 10)) <= [0, 4, 7]
    assert check([("a", 10, [0, 1]), ("b", 3, [2])], 10) == [0, 0]
    assert check([("a", 11, [0, 4])], 10) == [None]
    assert check([("a", 13, [0, 4]), ("b", 12, [0, 4])], 30, 10).count(None) == 1
    assert sorted(check([("a", 10, [0, 3]), ("b", 10, [0, 3])], 512, 128)) == [0, 128]
    assert check([("a", 512, [0, 3]), ("b", 512, [3])], 512, 128).count(None) == 1


@pytest.mark.parametrize("solver", HEURISTICS)
def test_places_that_are_published(solver):
    def check(rows, size, alignment=1):
        return addresses(solver, buffers(*rows), size, alignment)

    rows = [("a", 3, [0, 1]), ("b", 3, [0, 1]), ("c", 4, [0, 1])]
    assert check(rows, 10) == [0, 3, 6]
    assert check(rows, 512, 128) == [0, 128, 256]
    assert check(rows, 10, 128) == [0, None, None]
    assert check([("a", 7, [0, 1]), ("b", 4, [0, 1]), ("c", 3, [0, 1])], 10) == [0, None, 7]
    assert check([("a", 10, [0, 3]), ("b", 20, [0, 3]), ("c", 30, [0, 3])], 50) == [0, 10, None]
    lives = [("a", 200, [0, 3]), ("b", 100, [1, 2]), ("c", 100, [2, 3]), ("d", 100, [3])]
    greedy = solver is plan_solver.GreedyLayoutSolver
    assert check(lives, 512, 128) == ([0, 256, 384, 256] if greedy else [256, 0, 128, 0])


def test_which_gap():
    """Two gaps of 40 and 20 bytes for a buffer of 10: the lowest, or the tightest."""
    rows = [("mid", 40, [2, 3]), ("left", 30, [1, 4]), ("right", 30, [3, 7]), ("x", 10, [4, 8])]
    assert addresses(plan_solver.FirstFitLayoutSolver, buffers(*rows), 120) == [0, 40, 70, 0]
    assert addresses(plan_solver.BestFitLayoutSolver, buffers(*rows), 120) == [0, 40, 70, 100]


@pytest.mark.parametrize("solver", SOLVERS)
def test_places_that_are_handed_over(solver):
    made = buffers(("a", 512, [0, 3]), ("b", 512, [3]))
    made[1].in_place_parents = ["a"]
    assert addresses(solver, made, 513, 128) == [0, 0]
    made = buffers(("p", 40, [0, 1]), ("c", 20, [1, 3]), ("d", 5, [1]))
    made[1].in_place_parents = made[2].in_place_parents = ["p"]
    assert None not in addresses(solver, made, 120)
    made = buffers(("p", 40, [0]), ("c", 40, [0, 2]))
    made[1].in_place_parents = ["p"]
    with pytest.raises(ValueError, match="computed buffer that is never read"):
        solver(made, 120).plan_layout()


@pytest.mark.parametrize("solver", SOLVERS)
def test_buffers_that_are_to_stay_out(solver):
    made = buffers(("a", 40, [0, 1]), ("b", 40, [0, 1]), ("c", 40, [1, 2]))
    made[0].residency_reason = "read by restickify"
    made[2].in_place_parents = ["a"]
    assert sorted(map(str, addresses(solver, made, 80))) == ["0", "40", "None"]
    assert made[0].spill_reason == "read by restickify" and made[1].spill_reason is None


def test_lives():
    buffer = plan_solver.LifetimeBoundBuffer("carry", 100, [0, 5], lifetime_end_override=7)
    assert (buffer.start_time, buffer.end_time, buffer.read_count) == (0, 7, 1)
    other = plan_solver.LifetimeBoundBuffer("other", 100, [6])
    assert buffer.overlaps_in_time(other)
    for wrong in ({"uses": [1, 1]}, {"uses": [0, 9], "lifetime_end_override": 9}):
        with pytest.raises(AssertionError):
            plan_solver.LifetimeBoundBuffer("bad", 100, **wrong)
    with pytest.raises(ValueError, match="buffer 0 has 0 bytes"):
        plan_solver.GreedyLayoutSolver(buffers(("a", 0, [0])), 10).plan_layout()


def test_the_scratchpad_of_a_softmax(compiled):
    """The page's graph: of 512 x 1024 on one core all four intermediates of a softmax along the
    rows are in LX, the last in the place of the one before."""
    with torch_spyre.config.patch(sencores=1):
        executable = compiled(lambda x: torch.softmax(x, -1), torch.randn(512, 1024).half())
    found = plan_solver.lx_buffers(executable)
    ops = [op.opfunc for op in counted_loops.operations_of(executable)]
    assert ops == ["max", "sub", "exp", "sum", "realdiv"]
    assert [(b.size, b.uses) for b in found] == [
        (512 * 128, [0, 1]),
        (512 * 1024 * 2, [1, 2]),
        (512 * 1024 * 2, [2, 3, 4]),
        (512 * 128, [3, 4]),
    ]
    assert found[2].in_place_parents == [found[1].name]
    assert found[2].address == found[1].address
    size = plan_solver.lx_size(executable)
    assert size == 1677696
    assert all(b.address + b.size <= size for b in found)
    for solver in SOLVERS:  # each has room for all of them, as the compiler has
        assert None not in addresses(solver, plan_solver.lx_buffers(executable), size, 128)


# ---- Layouts


def test_layouts_and_restickifies(compiled):
    x, y = torch.randn(128, 192).half(), torch.randn(192, 128).half()
    executable = compiled(lambda x, y: x.t() + y, x, y)
    layouts = planned_layouts.layouts_of(executable)
    first = layouts["b0"]
    assert (first.size, first.stride) == ([128, 192], [192, 1])
    assert first.dtype is torch.float16 and first.device.type == "spyre"
    assert first.device_layout == SpyreTensorLayout([128, 192], torch.float16)
    assert first.allocation == {"hbm": 0} and first.per_tile_fixed is False
    assert str(first).startswith("FixedTiledLayout('spyre', torch.float16, size=[128, 192]")
    ((consumer, (entry,)),) = planned_layouts.restickify_plan(executable).items()
    (added,) = [spec for spec in planned_layouts.specs_of(executable) if spec.op == "add"]
    assert consumer == added.args[-1].name
    before, after = layouts[entry["arg_name"]], entry["target_layout"]
    assert before.device_layout.stride_map[-1] == 1
    assert after.device_layout.stride_map != before.device_layout.stride_map
    assert sorted(after.size) == [128, 192] and "hbm" not in after.allocation
    plain = compiled(lambda x, y: x + y.t().contiguous().t(), y.t().contiguous(), x)
    assert planned_layouts.restickify_plan(compiled(lambda x: x + 1, x)) == {}
    assert isinstance(planned_layouts.restickify_plan(plain), dict)


# ---- Loops

ROW, COLUMN = sympy.symbols("c_row c_col")
BASE = 0x400000000


def tensor_arg(base=BASE, columns=256, fixed=False, where="hbm"):
    return op_spec.TensorArg(
        is_input=True,
        arg_index=-1 if fixed else 1,
        device_dtype=DataFormats.SEN169_FP16,
        device_size=[columns // 64, 512, 64],
        device_coordinates=[COLUMN // 64, ROW, sympy.Mod(COLUMN, 64)],
        allocation={where: base},
        per_tile_fixed=fixed,
    )


def add_spec(tiled, *args):
    space = {ROW: (sympy.Integer(512), 1), COLUMN: (sympy.Integer(256), 1)}
    return op_spec.OpSpec("add", False, space, list(args), {}, tiled)


def test_tiles_of_torch_spyre():
    """[512, 256] in float16: 512 rows are 65536 bytes, 128 columns two blocks of them."""
    assert unroll._byte_stride_for_arg(tensor_arg(), ROW, 512) == 65536
    assert unroll._byte_stride_for_arg(tensor_arg(), COLUMN, 128) == 131072
    op = add_spec(
        [ROW], tensor_arg(), tensor_arg(0, fixed=True, where="lx"), tensor_arg(BASE * 2, 128)
    )
    assert unroll.unroll_loop_specs([op])[0] is op
    rounds = unroll.unroll_loop_specs([op_spec.LoopSpec(sympy.Integer(3), [op])])
    assert [r.args[0].allocation["hbm"] - BASE for r in rounds] == [0, 65536, 131072]
    assert [r.args[1].allocation["lx"] for r in rounds] == [0, 0, 0]
    assert [r.args[2].allocation["hbm"] - 2 * BASE for r in rounds] == [0, 65536, 131072]
    assert all(r.tiled_symbols == [] and r.args[0].device_size == [4, 512, 64] for r in rounds)
    still = add_spec([], tensor_arg())
    rounds = unroll.unroll_loop_specs([op_spec.LoopSpec(sympy.Integer(4), [still])])
    assert [r.args[0].allocation["hbm"] for r in rounds] == [BASE] * 4
    levels = add_spec([[COLUMN], [ROW]], tensor_arg())
    inner = op_spec.LoopSpec(sympy.Integer(2), [levels])
    rounds = unroll.unroll_loop_specs([op_spec.LoopSpec(sympy.Integer(2), [inner])])
    steps = [r.args[0].allocation["hbm"] - BASE for r in rounds]
    assert steps == [0, 4 * 65536, 65536, 5 * 65536]
    with pytest.raises(ValueError, match="K rounds"):
        unroll.unroll_loop_specs([op_spec.LoopSpec(sympy.Symbol("K"), [op])])


@pytest.fixture
def tiled(compiled):
    """tiled(rows, columns, x) -> executable of three ops on `x`, tiles by `rows` and `columns`."""

    def run(rows, columns, x):
        def function(x):
            with (
                spyre_hint(num_tiles_per_dim={"M": rows}),
                spyre_hint(num_tiles_per_dim={"N": columns}),
            ):
                return torch.tanh(x * 2) + x

        for name, size in zip("MN", x.shape, strict=True):
            declare_tensor_dim(name, size)
        on_card = x.to("spyre")
        name_tensor_dims(on_card, ["M", "N"])
        with torch_spyre.config.patch(unroll_loops=False):
            return compiled(function, on_card)

    yield run
    propagate_named_dims.reset()


def test_the_same_kernel_without_loops(tiled):
    x = torch.randn(64, 256).half()
    executable = tiled(4, 2, x)
    kernel = json.loads(executable.text(0, "opspec"))
    specs = op_spec.from_json(kernel["specs"])
    assert any(isinstance(spec, op_spec.LoopSpec) for spec in specs)
    flat = unroll.unroll_loop_specs(specs)
    assert len(flat) == 8 * len(planned_layouts.specs_of(executable))
    results = []
    for form in (specs, flat):
        runner = SpyreAsyncCompile().sdsc("kernel", form)
        out = torch.zeros(64, 256, dtype=torch.float16, device="spyre")
        constants = [
            torch.tensor([float(a["value"])], dtype=torch.float16).to("spyre")
            for a in kernel["arguments"]
            if a["kind"] == "constant"
        ]
        runner.run(x.to("spyre"), out, *constants)
        results.append(out.cpu())
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], torch.tanh(x * 2) + x, rtol=0.01, atol=0.01)


def test_counted_loops(tiled):
    x = torch.randn(1024, 4096).half()
    executable = tiled(2, 4, x)
    ops = counted_loops.operations_of(executable)
    (outer,) = counted_loops.build_loop_scheduler_nodes(ops)
    (inner,) = outer.get_nodes()
    assert (outer.loop_count, inner.loop_count) == (2, 4)
    assert inner.get_nodes() == ops and outer.unpack() == [outer]
    assert not outer.can_fuse(outer, inner)
    for op in ops:
        assert op.loop_info == CoarseTileInfo((0, 0), [2, 4], [[0], [1]], [[], []])
        assert [loop.extent for loop in op.loops] == [512, 1024]
    assert str(outer) == "for 2: {for 4: {mul; tanh; add}}"
    between = [ops[0], copy.copy(ops[1]), ops[2]]
    between[1].loop_info = None
    with pytest.raises(RuntimeError, match=r"loop group \(0,\) is not contiguous"):
        counted_loops.build_loop_scheduler_nodes(between)
    between[1].loop_info = dataclasses.replace(ops[1].loop_info, loop_count=[2, 8])
    with pytest.raises(RuntimeError, match=r"\(0, 0\) counts 4 and 8"):
        counted_loops.build_loop_scheduler_nodes(between)
