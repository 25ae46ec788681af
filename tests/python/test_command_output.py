# SPDX-License-Identifier: Apache-2.0
"""Commands written in Python whose output goes nowhere, or whose script fails: one line and exit
code 2, or what Python itself says of the script."""

import json
import os
import subprocess
import sys

import pytest

CAPTURE = ["torch_spyre.debug.capture", "script.py"]
BISECT = ["torch_spyre.debug.bisect", "script.py"]
MERGE = ["torch_spyre.profiler.merge", "trace.json", "-o", "merged.json"]


@pytest.fixture
def run(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint('ran', file=sys.stderr)\n")
    (tmp_path / "wrong.py").write_text("def f():\n    return prin\n\n\nf()\n")
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": []}))

    def run(command, output=subprocess.DEVNULL):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, stdout=output, stderr=subprocess.PIPE,
            text=True, timeout=600, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr.removeprefix("ran\n")

    return run


@pytest.mark.parametrize("command", [BISECT, MERGE])
def test_nobody_reads_the_output(run, command):
    reads, writes = os.pipe()
    os.close(reads)
    code, said = run(command, writes)
    os.close(writes)
    assert code == 2 and said.count("\n") == 1, said
    assert said.endswith(": standard output: Broken pipe\n")


@pytest.mark.parametrize("command", [CAPTURE, ["torch_spyre.debug.bug_report", "script.py"], MERGE])
def test_output_that_cannot_be_written(run, command):
    code, said = run([command[0], "-o", "script.py/there", *command[1:2]])
    assert code == 2 and said.count("\n") == 1, said
    assert "script.py/there" in said


def test_a_script_that_fails(run):
    code, said = run(["torch_spyre.debug.capture", "wrong.py"])
    assert code == 1
    assert said.splitlines()[1].startswith('  File "wrong.py", line 5')
    assert said.splitlines()[-1].startswith("NameError")
