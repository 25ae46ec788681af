# SPDX-License-Identifier: Apache-2.0
import json
import re

import numpy as np
import pytest
from command import ROOT
from damage import damaged

KERNELS = ROOT / "tests" / "golden" / "ktir"
SCALE = KERNELS / "scale.mlir"
NUMBERS = ("--number", "rows=16", "--number", "factor=1.5")


@pytest.fixture
def x(tmp_path):
    array = np.arange(16 * 256, dtype=np.float16).reshape(16, 256) / 512
    path = tmp_path / "x.npy"
    np.save(path, array.astype(np.float16))
    return path


@pytest.mark.parametrize("how", [(), ("--interpret",)])
def test_run(spyre, x, tmp_path, how):
    y = tmp_path / "y.npy"
    out = spyre.good(
        "ktir", "run", SCALE, "--input", f"x={x}", "--output", f"y={y}", *NUMBERS, *how
    )
    assert out == ""
    found = np.load(y)
    assert found.dtype == np.float16 and found.shape == (16, 256)
    np.testing.assert_allclose(found, np.load(x) * 1.5, rtol=2e-3)


def test_counters(spyre, x, tmp_path):
    y = tmp_path / "y.npy"
    arguments = ("--input", f"x={x}", "--output", f"y={y}", *NUMBERS)
    assert "0_scale" in spyre.good("ktir", "run", SCALE, *arguments, "--counters")
    told = json.loads(spyre.good("ktir", "run", SCALE, *arguments, "--json"))
    assert told["kernels"][0]["memory_read_bytes"] == 16 * 256 * 2


def test_print_why_lower(spyre):
    printed = spyre.good("ktir", "print", SCALE)
    assert printed == (KERNELS / "scale.printed").read_text()
    assert "us roofline, of memory" in spyre.good("ktir", "why", SCALE, *NUMBERS)
    assert "vector mul [256]" in spyre.good("ktir", "lower", SCALE, *NUMBERS)
    assert "pass choose_stages" in spyre.good("ktir", "plan", SCALE, *NUMBERS)


def test_errors(spyre, x, tmp_path):
    given = ("--input", f"x={x}", "--output", f"y={tmp_path / 'y.npy'}")
    assert "print, run, why, lower or plan is missing" in spyre.bad("ktir")
    assert "expected print, run, why, lower or plan" in spyre.bad("ktir", "walk", SCALE)
    assert "a file is missing" in spyre.bad("ktir", "print")
    assert "No such file" in spyre.bad("ktir", "print", tmp_path / "none.mlir")
    assert "'z': the function has no such array" in spyre.bad(
        "ktir", "run", SCALE, "--input", f"z={x}"
    )
    assert "rows: a number is wanted" in spyre.bad("ktir", "run", SCALE, *given)
    assert "no number of type int64" in spyre.bad("ktir", "why", SCALE, "--number", "rows=many")
    assert "--grid '0'" in spyre.bad("ktir", "why", SCALE, *NUMBERS, "--grid", "0")
    assert "parts.mlir has 2 functions" in spyre.bad("ktir", "why", KERNELS / "parts.mlir")
    assert "no file of NumPy" in spyre.bad("ktir", "run", SCALE, "--input", f"x={SCALE}", *NUMBERS)
    rows = spyre("ktir", "run", SCALE, *given, "--number", "rows=20", "--number", "factor=1")
    assert rows.returncode == 1 and "scale.mlir:11:13: ktdp.construct_access_tile" in rows.stderr
    assert rows.stderr.count("\n") == 1


def test_other_arrays(spyre, tmp_path):
    wrong = tmp_path / "wrong.npy"
    np.save(wrong, np.zeros((16, 256), np.float32))
    assert "float32, x wants float16" in spyre.bad(
        "ktir", "run", SCALE, "--input", f"x={wrong}", *NUMBERS
    )
    np.save(wrong, np.asfortranarray(np.zeros((16, 256), np.float16)))
    assert "Fortran order" in spyre.bad("ktir", "run", SCALE, "--input", f"x={wrong}", *NUMBERS)


CASES = 60
WANTED = re.compile(r"spyre ktir: (\w+): an? (number|array) is wanted")


def given(spyre, source, folder):
    """Options that call the kernel in full: numbers of 2, arrays of zeros."""
    options = []
    if "2 functions" in spyre("ktir", "lower", source).stderr:
        options = ["--function", re.search(r"func.func @(\w+)", source.read_text())[1]]
    while found := WANTED.match(spyre("ktir", "run", source, *options).stderr):
        name, kind = found.groups()
        array = ("--output", f"{name}={folder / name}.npy")
        options += array if kind == "array" else ("--number", f"{name}=2")
    return options


SAMPLES = sorted(KERNELS.glob("*.mlir"))


@pytest.mark.parametrize("source", SAMPLES, ids=lambda path: path.stem)
def test_damaged(spyre, tmp_path, source):
    """Each command on damage: one line and exit code 2, or 1 for a fault of what is left."""
    options, path = given(spyre, source, tmp_path), tmp_path / "damaged.mlir"
    numbers = [x for n, x in enumerate(options) if "--output" not in options[max(0, n - 1) : n + 1]]
    ran = ("--steps", "20000", *options)
    commands = (
        ("print",), ("lower", *numbers), ("run", *ran), ("run", "--interpret", *ran),
        ("plan", *numbers), ("why", *numbers),
    )  # fmt: skip
    whole, other = source.read_bytes(), SAMPLES[SAMPLES.index(source) - 1].read_bytes()
    codes = []
    for seed in range(CASES):
        command, *arguments = commands[seed % len(commands)]
        path.write_bytes(damaged(whole, other, seed))
        done = spyre("ktir", command, path, *arguments)
        codes.append(done.returncode)
        where = f"seed {seed} {command}: {done.stderr}"
        assert done.stderr.count("\n") == (done.returncode != 0), where
        assert done.returncode != 1 or "damaged.mlir:" in done.stderr, where
    assert codes.count(2) > CASES // 3
