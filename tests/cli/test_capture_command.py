# SPDX-License-Identifier: Apache-2.0
"""`spyre capture` hands over to the Python of the environment that it is installed in."""

import pathlib
import shutil

from command import Spyre


def test_python_beside_the_command(spyre, tmp_path):
    shutil.copy(spyre.path, tmp_path / "spyre")
    for library in pathlib.Path(spyre.path).parent.glob("libspyre.so.*"):
        (tmp_path / library.name).symlink_to(library)
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\necho beside "$@"\n')
    python.chmod(0o755)
    said = Spyre(tmp_path / "spyre").good("capture", "-o", "there", "script.py")
    assert said == "beside -m torch_spyre.debug.capture -o there script.py\n"


def test_a_script_is_needed(spyre):
    assert "a script is missing" in spyre.bad("capture")
