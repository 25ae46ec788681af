# SPDX-License-Identifier: Apache-2.0
"""Checks that lines of code have at most 100 columns: sources, scripts, and the Python, C and shell
code of pages. Tables (`.def`) are as wide as their columns; pragmas at the end do not count, as for
ruff."""

import re
import sys
from pathlib import Path

MOST_COLUMNS = 100
FOLDERS = (
    "bench cmake docs examples include packages python src tests/cabi tests/cli tests/fuzz "
    "tests/install tests/models tests/ops tests/python tests/serving tests/support tests/unit "
    "tests/upstream tools"
).split()
SUFFIXES = {".c", ".h", ".cpp", ".py", ".pyi", ".cmake", ".sh", ".md"}
NAMES = {"CMakeLists.txt", "Makefile"}
LANGUAGES = {"python", "c", "sh", "bash"}
PRAGMA = re.compile(r"\s+# (?:type: ignore|noqa).*$")


def is_script(path: Path) -> bool:
    """A program without a suffix that names its interpreter."""
    if path.suffix:
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def sources(root: Path) -> list[Path]:
    found = [path for path in root.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [path for path in (root / folder).rglob("*") if path.is_file()]
    return sorted(
        path
        for path in found
        if "corpus" not in path.parts
        and (path.suffix in SUFFIXES or path.name in NAMES or is_script(path))
    )


def long_lines(path: Path) -> list[int]:
    """Numbers of the lines that are too long; of a page those of its code only."""
    found, in_code = [], path.suffix != ".md"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            in_code = line.strip("` ") in LANGUAGES
        elif in_code and len(PRAGMA.sub("", line)) > MOST_COLUMNS:
            found.append(number)
    return found


def main() -> int:
    root = Path(__file__).parents[1]
    found = [
        f"{path.relative_to(root)}:{number}: more than {MOST_COLUMNS} columns"
        for path in sources(root)
        for number in long_lines(path)
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
