# SPDX-License-Identifier: Apache-2.0
"""tools/check_cycles.py finds modules that import each other."""

import pathlib
import subprocess
import sys

TOOL = pathlib.Path(__file__).parents[2] / "tools/check_cycles.py"


def check(root: pathlib.Path, **modules: str) -> tuple[int, str]:
    for name, text in modules.items():
        (root / f"{name}.py").write_text(text)
    command = [sys.executable, str(TOOL), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_circle_is_named_file_by_file(tmp_path):
    code, text = check(
        tmp_path,
        first="from . import second",
        second="def late():\n    from .third import name",
        third="from .fourth import name",
        fourth="from . import second",
    )
    assert code == 1
    (line,) = [line for line in text.splitlines() if line.startswith("a circle of imports: ")]
    circle = line.removeprefix("a circle of imports: ").split(" -> ")
    assert circle[0] == circle[-1] and len(circle) == 4
    order = ["second.py", "third.py", "fourth.py"] * 2
    at = order.index(circle[0])
    assert circle[:-1] == order[at : at + 3]


def test_imports_for_types_alone_make_no_circle(tmp_path):
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import second\n"
    code, text = check(tmp_path, first=typed, second="from . import first")
    assert (code, text) == (0, "2 files, no circle\n")


def test_a_folder_without_modules_is_an_error(tmp_path):
    assert check(tmp_path)[0] == 2
