# SPDX-License-Identifier: Apache-2.0
"""Graph texts in which the type of a value contradicts the operation that makes or takes it: each
compiles (the value may be the host's, or unused) or is refused as the caller's mistake, never by an
internal error."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from command import ROOT

TYPE = re.compile(r"\b(f16|f32|i64|bool)\[([^\]]*)\]")
PREPARE = sorted((ROOT / "tests" / "golden" / "prepare").glob("*.graph"))
OF_THE_CALLER = {"invalid argument", "invalid format", "unsupported", "out of memory"}


def other_types(dtype, sizes):
    dims = [size.strip() for size in sizes.split(",")] if sizes.strip() else []
    yield from (f"{other}[{sizes}]" for other in ("f16", "f32", "i64", "bool") if other != dtype)
    for changed in ([], dims[1:], dims[:-1], dims[::-1], ["1", *dims], [*dims[:-1], "65"]):
        yield f"{dtype}[{', '.join(changed)}]"


def variants(text):
    for found in TYPE.finditer(text):
        for other in other_types(*found.groups()):
            yield text[: found.start()] + other + text[found.end() :]


def compile_all(spyre, texts, folder):
    done = subprocess.run(
        [sys.executable, ROOT / "tests/cli/library.py", spyre.path.parent / "libspyre.so"],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (folder / "last.graph").read_text()
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("source", PREPARE, ids=lambda path: path.stem)
def test_types(spyre, tmp_path, source):
    spyre.path = pathlib.Path(spyre.path)
    texts = list(variants(source.read_text()))
    results = compile_all(spyre, texts, tmp_path)
    assert len(results) == len(texts) > 10
    refused = [result for result in results if result]
    assert refused
    for code, message in refused:
        assert code in OF_THE_CALLER, message


def test_contiguous_of_another_dtype(spyre, tmp_path):
    """Which became a view of another dtype behind the verifier's back."""
    source = tmp_path / "a.graph"
    source.write_text(
        "input %x: f16[4, 64]\n%a = aten.relu.default(%x) -> f16[4, 64]\n"
        "%y = aten.contiguous.default(%a) -> f32[4, 64]\nreturn %y\n"
    )
    message = spyre.bad("compile", source)
    assert "node 1 aten.contiguous.default" in message
    assert "the result is float32, the operation gives float16" in message


@pytest.mark.parametrize(
    "operands, result",
    [
        (("mm", "f16[4, 64]", "f32[64, 8]"), "[4, 8]"),
        (("bmm", "f16[2, 4, 64]", "bf16[2, 64, 8]"), "[2, 4, 8]"),
        (("mv", "bf16[4, 64]", "f16[64]"), "[4]"),
        (("linear", "f16[4, 64]", "f32[8, 64]"), "[4, 8]"),
        (("linear", "f16[4, 64]", "f16[8, 64]", "f32[8]"), "[4, 8]"),
        (("addmm", "f32[8]", "f16[4, 64]", "f16[64, 8]"), "[4, 8]"),
        (
            ("scaled_dot_product_attention", *["f16[1, 2, 4, 64]"] * 2, "f32[1, 2, 4, 64]"),
            "[1, 2, 4, 64]",
        ),
    ],
)
def test_products_do_not_promote(spyre, tmp_path, operands, result):
    """A saved program whose operands have several dtypes is the host's, whose kernel raises; what
    is element-wise promotes."""
    (op, *types), source = operands, tmp_path / "product.graph"
    inputs = "".join(f"input %x{i}: {type}\n" for i, type in enumerate(types))
    names = ", ".join(f"%x{i}" for i in range(len(types)))
    source.write_text(f"{inputs}%y = aten.{op}.default({names}) -> f16{result}\nreturn %y\n")
    assert re.search(r"host, operand \d: \w+, operand 0 has \w+", spyre("compile", source).stdout)
    assert f"aten.{op}" in spyre.bad("compile", source, "--strict")
    source.write_text(
        "input %x: f16[4, 64]\ninput %y: f32[4, 64]\n"
        "%z = aten.add.Tensor(%x, %y) -> f32[4, 64]\nreturn %z\n"
    )
    spyre("compile", source, "--strict")


def test_one_line_beside_a_warning(spyre, tmp_path):
    """A command that fails says one line, whatever the library has to say on the way."""
    source = tmp_path / "neg.graph"
    source.write_text(
        "input %x: f16[512, 1024]\n%p = aten.neg.default(%x) -> f16[512, 1024]\nreturn %p\n"
    )
    warns = ("--cores", "4", "--set", "max_span_bytes=1024", "--skip", "coarse_tile")
    assert spyre("compile", source, *warns).stderr.startswith("spyre critical: ")
    (tmp_path / "file").write_text("")
    spyre.bad("compile", source, *warns, "-o", tmp_path / "file" / "out")
