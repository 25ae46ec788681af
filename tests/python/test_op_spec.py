# SPDX-License-Identifier: Apache-2.0
"""OpSpecs: as data, and as the kernels of a generated program."""

import json

import inputs
import pytest
import sympy
import torch
import torch.nn.functional as F  # noqa: N812
from host_ops import UNKNOWN, unknown
from inputs import HALF
from torch_spyre import _C
from torch_spyre.compile import call_compiler
from torch_spyre.compile.planned import op_spec
from torch_spyre.compile.planned.op_spec import LoopSpec, OpSpec, TensorArg, UnimplementedOp
from torch_spyre.compile.program import Program
from torch_spyre.debug import output_code
from torch_spyre.execution.async_compile import SpyreAsyncCompile


@pytest.fixture
def compile_program(monkeypatch):
    """compile_program(function, tensors) -> (results, the compiled program)."""
    made = []
    original = Program.__init__

    def record(self, *args):
        original(self, *args)
        made.append(self)

    monkeypatch.setattr(Program, "__init__", record)

    def run(function, tensors):
        torch._dynamo.reset()
        with torch.no_grad():
            results = torch.compile(function, dynamic=False)(*tensors)
        return ([results] if isinstance(results, torch.Tensor) else list(results)), made[-1]

    return run


def numbers(*shape, dtype=HALF):
    return inputs.numbers(*shape, dtype=dtype).to("spyre")


FUNCTIONS = {
    "softmax": (lambda x, y: torch.softmax(x @ y, -1) * 1.5 + 1, [(64, 100), (100, 80)]),
    "views": (lambda x: x.t()[3:, ::2].contiguous() + 1, [(64, 100)]),
    "norm": (lambda x, w: F.layer_norm(x, [96], w), [(3, 5, 96), (96,)]),
    "several": (lambda x: (x.sum(0), x.max(-1).values, torch.cat([x, x.neg()])), [(33, 70)]),
    "clamp": (lambda x: x.clamp(min=0.25).masked_fill(x > 1, float("-inf")), [(10, 10)]),
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        [(2, 4, 40, 32), (2, 4, 40, 32)],
    ),
    "host": (lambda x: unknown(x + 1) * 2, [(4, 64)]),
    "single": (lambda x: x + x.sum(), [(70,)]),
}


@pytest.mark.host(UNKNOWN)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_generated_program_gives_the_same_bits(compile_program, name):
    function, shapes = FUNCTIONS[name]
    inputs = [numbers(*shape) for shape in shapes]
    expected, program = compile_program(function, inputs)
    source = output_code.of_program(program)
    assert "async_compile.sdsc(" in source and ".run(" in source
    scope = {"__name__": "generated"}
    exec(source, scope)
    results = scope["call"](list(inputs))
    for is_, should in zip(results, expected, strict=True):
        assert torch.equal(is_.cpu(), should.cpu()) and is_.stride() == should.stride()


def test_rows_of_a_table(compile_program):
    table, index = numbers(50, 96), torch.randint(0, 50, (7,)).to("spyre")
    expected, program = compile_program(lambda i, t: F.embedding(i, t) * 2, [index, table])
    specs = op_spec.from_json(json.loads(program.executable.text(0, "opspec"))["specs"])
    gather = next(spec for spec in specs if "rows" in spec.op_info)
    assert gather.op_info["rows"] == 50
    assert any(c.has(op_spec.IndirectAccess) for c in gather.args[1].device_coordinates)
    scope = {"__name__": "generated"}
    exec(output_code.of_program(program), scope)
    (result,) = scope["call"]([index, table])
    assert torch.equal(result.cpu(), expected[0].cpu())


def specs_of_add(compile_program, rows=4, columns=128):
    tensors = [numbers(rows, columns), numbers(rows, columns)]
    _results, program = compile_program(lambda x, y: x + y, tensors)
    return op_spec.from_json(json.loads(program.executable.text(0, "opspec"))["specs"])


def test_fields(compile_program):
    (spec,) = specs_of_add(compile_program)
    c0, c1 = sympy.symbols("c0 c1")
    assert spec.op == "add" and not spec.is_reduction and spec.tiled_symbols == []
    assert list(spec.iteration_space) == [c0, c1]
    assert [extent for extent, _slices in spec.iteration_space.values()] == [4, 128]
    left, right, result = spec.args
    assert (left.is_input, right.is_input, result.is_input) == (True, True, False)
    assert [arg.arg_index for arg in spec.args] == [0, 1, 2]
    assert left.device_dtype is _C.DataFormats.SEN169_FP16
    assert left.device_size == [2, 4, 64] and left.stride_map == [64, 128, 1]
    assert left.device_coordinates == [sympy.floor(c1 / 64), c0, sympy.Mod(c1, 64)]
    assert left.allocation == {"hbm": 0} and not left.per_tile_fixed and left.name


def test_specs_can_be_changed(compile_program):
    (spec,) = specs_of_add(compile_program)
    spec.op = "mul"
    kernel = SpyreAsyncCompile().sdsc("changed", [spec])
    x, y = numbers(4, 128), numbers(4, 128)
    out = torch.empty_like(x)
    kernel.run(x, y, out)
    assert torch.equal(out.cpu(), (x * y).cpu())


def test_a_loop_over_tiles(compile_program):
    (spec,) = specs_of_add(compile_program)
    i = sympy.Symbol("i_0")
    c0 = sympy.Symbol("c0")
    spec.iteration_space[c0] = (sympy.Integer(2), 1)
    spec.tiled_symbols = [c0]
    for arg in spec.args:
        arg.device_coordinates = [c.subs(c0, c0 + 2 * i) for c in arg.device_coordinates]
    loop = LoopSpec(sympy.Integer(2), [spec], [c0])
    kernel = SpyreAsyncCompile().sdsc("tiled", [loop])
    x, y = numbers(4, 128), numbers(4, 128)
    out = torch.empty_like(x)
    kernel.run(x, y, out)
    assert torch.equal(out.cpu(), (x + y).cpu())
    assert op_spec.from_json(op_spec.to_json([loop])) == [loop]


# Per symbol the tile, tiled_symbols of two loops of two, innermost first, and the tiles' starts.
TILED = [
    ((2, 64), ["c1"], ["c0"], [(0, 0), (0, 64), (2, 0), (2, 64)]),
    ((2, 256), ["c0"], ["c0"], [(0, 0), (2, 0), (4, 0), (6, 0)]),
    ((8, 64), ["c1"], ["c1"], [(0, 0), (0, 64), (0, 128), (0, 192)]),
]


@pytest.mark.parametrize("tile, inner, outer, starts", TILED)
def test_tiles_in_the_form_of_torch_spyre(compile_program, tile, inner, outer, starts):
    """Its coordinates leave the loops out."""
    (spec,) = specs_of_add(compile_program, 8, 256)
    c0, c1 = sympy.symbols("c0 c1")
    spec.iteration_space = {c0: (sympy.Integer(tile[0]), 1), c1: (sympy.Integer(tile[1]), 1)}
    spec.tiled_symbols = [[sympy.Symbol(name) for name in level] for level in (inner, outer)]
    two = sympy.Integer(2)
    kernel = SpyreAsyncCompile().sdsc("tiled", [LoopSpec(two, [LoopSpec(two, [spec])])])
    x, y, out = numbers(8, 256), numbers(8, 256), torch.zeros(8, 256, dtype=HALF).to("spyre")
    kernel.run(x, y, out)
    whole, expected = (x + y).cpu(), torch.zeros(8, 256, dtype=HALF)
    for row, column in starts:
        part = slice(row, row + tile[0]), slice(column, column + tile[1])
        expected[part] = whole[part]
    assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize(
    "tiled, message",
    [
        ([["c7"]], "c7 is no loop of the op"),
        ([["c0"], ["c0"]], "is inside of 1 counted loops"),
        ([["c0", "c1"]], "i_0 does not move along one device dim of b0"),
    ],
)
def test_tiles_of_what_is_not_there_are_refused(compile_program, tiled, message):
    (spec,) = specs_of_add(compile_program, 8, 256)
    spec.tiled_symbols = tiled
    with pytest.raises(RuntimeError, match=message):
        SpyreAsyncCompile().sdsc("tiled", [LoopSpec(sympy.Integer(2), [spec])])


def test_unimplemented_operations_fail_when_they_are_run(compile_program):
    (spec,) = specs_of_add(compile_program)
    kernel = SpyreAsyncCompile().sdsc("k", [spec, UnimplementedOp("aten.frobnicate")])
    with pytest.raises(RuntimeError, match="Invoked k which contains unimplemented operation aten"):
        kernel.run()


def test_wrong_tensors_are_refused(compile_program):
    (spec,) = specs_of_add(compile_program)
    kernel = SpyreAsyncCompile().sdsc("k", [spec])
    x = numbers(4, 128)
    with pytest.raises((RuntimeError, ValueError), match="takes 3 tensors"):
        kernel.run(x, x)
    with pytest.raises((RuntimeError, ValueError), match="argument 1 has 512 bytes"):
        kernel.run(x, numbers(4, 10), x)
    with pytest.raises((RuntimeError, ValueError), match="argument 2 is not on the card"):
        kernel.run(x, x, torch.empty(4, 128, dtype=HALF))
    halved = numbers(4, 64, dtype=torch.float32)  # as many bytes on the card
    for tensors in ((halved, x, x), (x, x, halved)):
        with pytest.raises(ValueError, match="is IEEE_FP32 on the card, the kernel was compiled"):
            kernel.run(*tensors)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "k: line 1"),
        ("{}", "expected an array"),
        ('[{"op": "frob"}]', "no opfunc is named 'frob'"),
        ('[{"count": 1, "body": []}]', "count"),
    ],
)
def test_bad_json_names_the_place(text, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        _C.compile_op_specs(text, "k", call_compiler.settings())


def test_equal_in_every_process(run_python, tmp_path):
    source = (
        "import os, torch, pathlib\n"
        "f = torch.compile(lambda x, y: torch.softmax(x @ y, -1) * 1.5)\n"
        "f(torch.ones(64, 100, dtype=torch.half).to('spyre'),"
        " torch.ones(100, 80, dtype=torch.half).to('spyre'))\n"
        "root = pathlib.Path(os.environ['TORCH_COMPILE_DEBUG_DIR'])\n"
        "print(next(root.glob('**/output_code.py')).read_text())\n"
    )
    texts = [
        run_python(
            source, TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=str(tmp_path / number)
        ).stdout
        for number in ("1", "2")
    ]
    assert texts[0] == texts[1] and "async_compile.sdsc(" in texts[0]


def test_dataclasses_have_the_published_fields():
    fields = lambda kind: list(kind.__dataclass_fields__)  # noqa: E731
    assert fields(TensorArg) == [
        "is_input", "arg_index", "device_dtype", "device_size", "device_coordinates", "allocation",
        "stride_map", "per_tile_fixed", "name",
        "counted_from",  # of this project
    ]  # fmt: skip
    assert fields(OpSpec) == [
        "op", "is_reduction", "iteration_space", "args", "op_info", "tiled_symbols",
    ]  # fmt: skip
    assert fields(LoopSpec) == ["count", "body", "tiled_symbols"]
    assert fields(UnimplementedOp) == ["op"]
