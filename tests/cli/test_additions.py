# SPDX-License-Identifier: Apache-2.0
"""What CONTRIBUTING.md says of adding a reduction, an instruction and a dtype: each is added to a
copy of the sources, in few files, and runs there."""

import pathlib
import re
import shutil
import struct
import subprocess

import pytest
from command import ROOT, Spyre

# File, a line of it, lines that go in front of it.
REDUCTION = [
    (
        "src/tensor/opfunc.def",
        "#undef OPFUNC_ROW",
        'OPFUNC_ROW(ABSMIN, "absmin", REDUCTION, 1, 1, NULL, NULL)',
    ),
    (
        "src/tensor/opfunc.def",
        "#undef OPFUNC_ACCUMULATOR",
        "OPFUNC_ACCUMULATOR(ABSMIN, INFINITY, fminf(fabsf(a), fabsf(b)), MINIMUM, EXACT)",
    ),
    ("src/tensor/opfunc.def", "#undef OPFUNC_ACCUMULATES", "OPFUNC_ACCUMULATES(ABSMIN, ABSMIN)"),
    (
        "src/graph/aten.def",
        'ATEN_NATIVE(SPYRE_SUM, "spyre.sum", REDUCTION, SUM, H|F|I, SAME, "sum over dims")',
        'ATEN_NATIVE(SPYRE_ABSMIN, "spyre.absmin", REDUCTION, ABSMIN, H|F, SAME, "least size")',
    ),
]

INSTRUCTION = [
    (
        "src/isa/isa.def",
        'ISA_ROW(FILL, "fill", SFP, "w", NONE, "operand 0 = constant[0]")',
        'ISA_ROW(NEGATE, "negate", SFP, "wr", NONE, "operand 0 = -operand 1")',
    ),
    (
        "src/card/machine/exec_exact.c",
        "static void fill(const isa_instruction *i, uint8_t *const *address)",
        """static void negate(const isa_instruction *i, uint8_t *const *address)
        {
            walk w = {.i = i};
            do {
                double x = element_load(address[1] + w.offset[1], i->operand[1].format);
                element_store(address[0] + w.offset[0], i->operand[0].format, -x);
            } while (walk_next(&w));
        }
        """,
    ),
    (
        "src/card/machine/exec_exact.c",
        "case ISA_FILL: fill(i, address); return;",
        "case ISA_NEGATE: negate(i, address); return;",
    ),
    (
        "src/back/emit.c",
        "for (uint32_t c = 0; constants && c < OPFUNC_MAX_PARAMETERS; c++)",
        "if (op == OPFUNC_NEG) i = (isa_instruction){.opcode = ISA_NEGATE};",
    ),
]

DTYPE = [
    (
        "include/spyre/dtype.def",
        "#undef SPYRE_FORMAT_ROW",
        "SPYRE_FORMAT_ROW(SENUINT16, 19, 16, INTEGER)",
    ),
    (
        "include/spyre/dtype.def",
        "#undef SPYRE_DTYPE_ROW",
        'SPYRE_DTYPE_ROW(U16, "uint16", "u16", 2, SENUINT16, SENUINT16)',
    ),
    (
        "src/tensor/element.c",
        "LOAD(SENINT16, int16_t, x)",
        "LOAD(SENUINT16, uint16_t, x)",
    ),
    (
        "src/tensor/element.c",
        "STORE(SENINT16, int16_t, integer_from_double(value, INT16_MIN, INT16_MAX))",
        "STORE(SENUINT16, uint16_t, integer_from_double(value, 0, UINT16_MAX))",
    ),
    ("src/graph/native/native_operand.c", "case SPYRE_DTYPE_I32:", "case SPYRE_DTYPE_U16:"),
]

ADDITIONS = {"reduction": (REDUCTION, 6), "instruction": (INSTRUCTION, 5), "dtype": (DTYPE, 6)}


def place_of(text, line):
    """Where the only line of these words begins, however they are spaced."""
    words = r"\s*".join(re.escape(word) for word in re.findall(r"\w+|[^\w\s]", line))
    places = [found.start() for found in re.finditer(rf"^[ ]*{words}", text, re.MULTILINE)]
    assert len(places) == 1, f"{line}: {len(places)} times"
    return places[0]


def add(root, edits):
    for file, line, lines in edits:
        path = root / file
        text = path.read_text()
        at = place_of(text, line)
        path.write_text(f"{text[:at]}{lines}\n{text[at:]}")


@pytest.mark.parametrize("what", ADDITIONS)
def test_an_addition_is_few_files(what):
    edits, most = ADDITIONS[what]
    assert len({file for file, _, _ in edits}) <= most
    for file, line, _ in edits:
        place_of((ROOT / file).read_text(), line)


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """The command, built from a copy of the sources with all additions."""
    copy = tmp_path_factory.mktemp("additions") / "sources"
    for folder in ("src", "include", "cmake", "tools", "tests", "bench"):
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, copy / folder)
    for file in ("CMakeLists.txt", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    for edits, _ in ADDITIONS.values():
        add(copy, edits)
    build = copy / "build"
    configure = ["cmake", "-G", "Ninja", "-S", copy, "-B", build, "-DSPYRE_WERROR=ON"]
    subprocess.run([*configure, "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1"], check=True)
    subprocess.run(["cmake", "--build", build, "-j2", "--target", "spyre_cli"], check=True)
    return Spyre(build / "spyre")


def run_graph(spyre, folder, text, inputs, result_bytes):
    """Compiles a graph of one segment, compares the card with the interpreter, and runs it: the
    bytes of the result."""
    folder.mkdir(exist_ok=True)
    graph, result = folder / "added.graph", folder / "result.bin"
    graph.write_text(text)
    spyre.good("compile", graph, "-o", folder / "out")
    segment, given = folder / "out" / "segment_0", []
    for number, content in enumerate(inputs):
        (folder / f"{number}.bin").write_bytes(content)
        given += [f"--input={number}={folder / f'{number}.bin'}", f"--size={number}={len(content)}"]
    given.append(f"--size={len(inputs)}={result_bytes}")
    spyre.good("bisect", segment / "bundle", *given)
    spyre.good("run", segment / "spyrecode", *given, f"--output={len(inputs)}={result}")
    return result.read_bytes()


@pytest.mark.long
def test_a_reduction_runs(extended, tmp_path):
    text = "input %x: f32[3, 32]\n%y = spyre.absmin(%x, [0], false) -> f32[32]\nreturn %y\n"
    rows = [[float(n * (row + 7) % 11 - 5) for n in range(32)] for row in range(3)]
    content = b"".join(struct.pack("<32f", *row) for row in rows)
    found = struct.unpack("<32f", run_graph(extended, tmp_path, text, [content], 128))
    assert list(found) == [min(map(abs, column)) for column in zip(*rows, strict=True)]
    # Along a stick of which a part is padding, which must not count.
    text = "input %x: f32[3, 20]\n%y = spyre.absmin(%x, [1], true) -> f32[3, 1]\nreturn %y\n"
    row = [-3.0] * 10 + [2.0] * 10 + [0.0] * 12
    content = struct.pack("<32f", *row) * 3
    found = run_graph(extended, tmp_path / "stick", text, [content], 384)
    assert struct.unpack("<f", found[:4]) == (2.0,)


@pytest.mark.long
def test_an_instruction_runs(extended, tmp_path):
    text = "input %x: f32[3, 32]\n%y = spyre.neg(%x) -> f32[3, 32]\nreturn %y\n"
    numbers = [float(n) - 40 for n in range(96)]
    content = struct.pack("<96f", *numbers)
    found = struct.unpack("<96f", run_graph(extended, tmp_path, text, [content], 384))
    assert list(found) == [-x for x in numbers]
    program = tmp_path / "out" / "segment_0" / "spyrecode" / "init.bin"
    assert "negate" in extended.good("inspect", program)


@pytest.mark.long
def test_a_dtype_runs(extended, tmp_path):
    text = (
        "input %x: u16[2, 64]\ninput %y: u16[2, 64]\n"
        "%z = spyre.add(%x, %y) -> u16[2, 64]\nreturn %z\n"
    )
    x, y = [500 * n for n in range(128)], [7 * n + 60000 for n in range(128)]
    inputs = [struct.pack("<128H", *numbers) for numbers in (x, y)]
    found = struct.unpack("<128H", run_graph(extended, tmp_path, text, inputs, 256))
    assert list(found) == [(a + b) % 65536 for a, b in zip(x, y, strict=True)]


def test_paths_of_the_additions_are_the_ones_of_the_page():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    for edits, _ in ADDITIONS.values():
        for file in {file for file, _, _ in edits}:
            assert file in page or str(pathlib.Path(file).parent) in page
