# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: the old content or all of the new."""

import os
import pathlib
import stat
import subprocess

import numpy as np
import pytest
from command import GRAPHS, ROOT

MODEL = ROOT / "examples" / "models" / "llama-3-70b.json"
SCALE = ROOT / "tests" / "golden" / "ktir" / "scale.mlir"
# No file may be longer than a block of 512 bytes (or 1024); the signal that tells so is ignored.
SHORT = ["sh", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]


@pytest.fixture
def code(spyre, bundle):
    directory = bundle("loops")
    spyre.good("dxp", "--bundle", "-d", directory)
    return directory / "spyreCodeDir"


@pytest.fixture(params=["estimate", "run", "ktir", "lx"])
def writes(request):
    """(arguments of a command that writes a file, its path) -> a list."""

    def arguments(target):
        match request.param:
            case "estimate":
                return ["estimate", MODEL, "--cards", 8, "-o", target]
            case "lx":
                return ["lx", sorted(GRAPHS.rglob("*.graph"))[0], "-o", target]
            case "run":
                code = request.getfixturevalue("code")
                return ["run", code, f"--output=1={target}", "--size=0=4096", "--size=1=4096"]
        source = target.with_name("x.npy")
        np.save(source, np.ones((16, 256), dtype=np.float16))
        numbers = ["--number=rows=16", "--number=factor=2"]
        return ["ktir", "run", SCALE, f"--input=x={source}", f"--output=y={target}", *numbers]

    return arguments


def refused(spyre, arguments):
    """The diagnostic of a call that cannot write its file."""
    done = subprocess.run(
        [*SHORT, spyre.path, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    return done.stderr


def test_a_write_that_fails_leaves_the_old_file(spyre, writes, tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    assert "out: " in refused(spyre, writes(target))
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == ["out"]


def test_a_write_replaces_the_file_and_keeps_its_rights(spyre, code, tmp_path):
    target, link = tmp_path / "out", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("out")
    spyre.good("run", code, f"--output=1={link}", "--size=0=4096", "--size=1=4096")
    assert target.stat().st_size == 4096
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert link.is_symlink()


def test_a_device_is_written_in_place(spyre, code):
    sizes = ("--size=0=4096", "--size=1=4096")
    spyre.good("run", code, "--output=1=/dev/null", *sizes)
    assert "/dev/full: No space left" in spyre.bad("run", code, "--output=1=/dev/full", *sizes)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_folder_that_is_missing_is_named(spyre, code, tmp_path):
    target = pathlib.Path(tmp_path) / "missing" / "out"
    line = spyre.bad("run", code, f"--output=1={target}", "--size=0=4096", "--size=1=4096")
    assert f"{target}: No such file or directory" in line
