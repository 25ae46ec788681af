# SPDX-License-Identifier: Apache-2.0
"""torch_spyre.debug.capture: a file a kernel, which runs by itself."""

import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch

def f(x, t, i):
    return torch.softmax(x * 1.5, -1) + t[i]

x = torch.randn(4, 100, dtype=torch.half).to("spyre")
table = torch.randn(10, 100, dtype=torch.half).to("spyre")
rows = torch.tensor([1, 9, 3, 3]).to("spyre")
g = torch.compile(f)
print(g(x, table, rows).sum().item() == g(x, table, rows).sum().item(), sys.argv[1:])
"""


def run(*command, directory):
    return subprocess.run(
        [sys.executable, *command], cwd=directory, env=dict(os.environ), capture_output=True,
        text=True, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    directory = tmp_path_factory.mktemp("capture")
    (directory / "program.py").write_text(PROGRAM)
    done = run(
        "-m", "torch_spyre.debug.capture", "-o", "out", "program.py", "first", directory=directory
    )
    assert done.returncode == 0, done.stderr
    return directory, done.stdout


def test_the_program_runs_as_it_would(captured):
    _directory, output = captured
    assert output.splitlines()[0] == "True ['first']"


def test_every_kernel_is_a_file_once(captured):
    directory, output = captured
    files = sorted((directory / "out").iterdir())
    assert [f"out/{file.name}" for file in files] == sorted(output.splitlines()[1:])
    assert len(files) == 2  # the compiled function, the eager sum
    assert "softmax" not in files[0].name and "max" in files[0].name


def test_the_explanation(captured):
    directory, _output = captured
    (file,) = (directory / "out").glob("*_max*.py")
    text = file.read_text().split('"""')[1]
    assert re.search(r"b\d+ = exp\(b\d+\)", text)
    assert re.search(r"for c0<4, c1<100 R; on \d+ cores: c0 into \d", text)
    assert "program.py:6 in f" in text
    assert "LX from byte" in text and "argument a0" in text
    assert "constant 1.5 float16" in text
    assert re.search(r"SEN169_FP16 \[2, 4, 64\]", text)
    assert "us roofline" in text


def test_files_run_anywhere(captured, tmp_path):
    directory, _output = captured
    for file in (directory / "out").glob("*.py"):
        done = run(str(file), directory=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "tensor(" in done.stdout


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"f(x))\n", "line 1: unmatched"),
        (b"\x00\x01\x02", "source code string cannot contain null bytes"),
        (b"x = '\xff'\n", "line 1: (unicode error)"),
    ],
)
def test_a_file_that_is_no_program(tmp_path, content, rule):
    (tmp_path / "file.py").write_bytes(content)
    done = run("-m", "torch_spyre.debug.capture", "file.py", directory=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"spyre capture: file.py: {rule}")


@pytest.mark.parametrize("command", ["debug.capture", "debug.bisect", "profiler.merge"])
def test_wrong_arguments_are_refused_in_a_line(tmp_path, command):
    done = run("-m", f"torch_spyre.{command}", "--nonsense", directory=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "the following arguments are required" in done.stderr


def test_a_missing_script(tmp_path):
    done = run("-m", "torch_spyre.debug.capture", "nothing.py", directory=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "spyre capture: nothing.py: no such file\n"
    done = run("-m", "torch_spyre.debug.capture", ".", directory=tmp_path)
    assert (done.returncode, done.stderr) == (2, "spyre capture: .: not a file\n")
