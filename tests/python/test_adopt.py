# SPDX-License-Identifier: Apache-2.0
"""`spyre adopt`: another project's torch_spyre package on this stack's binding."""

import pathlib
import shutil
import subprocess
import sys

import torch
from test_program import compiled_sum

CHECKOUT = pathlib.Path(__file__).parent / "foreign_checkout"
SPYRE = pathlib.Path(sys.executable).parent / "spyre"


def run(*arguments):
    return subprocess.run([SPYRE, "adopt", *arguments], capture_output=True, text=True)


def test_a_foreign_package_runs_on_the_binding(tmp_path):
    x, y = (torch.zeros(3, 70, dtype=torch.float16, device="spyre") for _ in range(2))
    bundle = tmp_path / "sdsc_add_x1"
    compiled_sum(x, y).write(0, "bundle", str(bundle))
    shutil.copytree(CHECKOUT, tmp_path / "foreign_checkout")
    checkout = tmp_path / "foreign_checkout"
    before = sorted(checkout.rglob("*.py"))
    done = run(checkout, "--", "python", checkout / "program.py", bundle)
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr
    assert done.stderr == ""
    assert sorted(checkout.rglob("*.py")) == before


def test_wrong_arguments_are_one_line(tmp_path):
    for arguments, said in [
        ((), "the directory of a checkout is missing"),
        ((tmp_path,), "expected DIR -- COMMAND"),
        ((tmp_path, "--", "python"), "no torch_spyre/__init__.py"),
        ((CHECKOUT, "--", "no-such-command"), "no-such-command: no such command"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and done.stdout == ""
        assert said in done.stderr and done.stderr.count("\n") == 1
