# SPDX-License-Identifier: Apache-2.0
"""Checks that no C files of a build call each other in a circle, so that they can be read in order,
and that no modules of a Python package import each other in one.

check_cycles.py DIRECTORY reads the symbols of all object files below it with nm, or else the
imports of all Python files, those inside of functions too.
"""

import ast
import graphlib
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DEFINED = set("TDBRVW")


def read_symbols(objects: list[Path]) -> tuple[dict[str, Path], dict[Path, set[str]]]:
    """Who defines each symbol, and what each file wants from elsewhere."""
    owner, wanted = {}, {path: set() for path in objects}
    for path in objects:
        text = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            *_, kind, name = line.split()
            if kind in DEFINED:
                owner[name] = path
            elif kind == "U":
                wanted[path].add(name)
    return owner, wanted


def find_circle(uses: dict[Path, set[Path]]) -> list[Path]:
    """Files of which each uses the next one and the last is the first; [] when there are none."""
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return []


def run_statements(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree but those under `if TYPE_CHECKING`, which are never run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        yield child
        yield from run_statements(child)


def imports_of(file: Path) -> set[Path]:
    """The files of the same package that a module imports relatively. A package's own __init__ is
    none: it is imported before its modules, whatever they say."""
    found = set()
    for node in run_statements(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        for name in [base, *(base / alias.name for alias in node.names)]:
            found.add(name.with_suffix(".py"))
    return {path for path in found if path.is_file()} - {file}


def check_modules(root: Path) -> int:
    uses = {path: imports_of(path) for path in sorted(root.rglob("*.py"))}
    circle = find_circle(uses)
    if circle:
        names = " -> ".join(str(path.relative_to(root)) for path in circle)
        print(f"a circle of imports: {names}")
    print(f"{len(uses)} files, {'a circle' if circle else 'no circle'}")
    return 1 if circle else 0 if uses else 2


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    objects = sorted(root.rglob("*.c.o"))
    return check_objects(objects) if objects else check_modules(root)


def check_objects(objects: list[Path]) -> int:
    owner, wanted = read_symbols(objects)
    uses = {
        path: {owner[name] for name in names if name in owner} - {path}
        for path, names in wanted.items()
    }
    circle = find_circle(uses)
    if circle:
        print("a circle of calls: " + " -> ".join(path.stem for path in circle))
        for path, used in itertools.pairwise(circle):
            for name in sorted(n for n in wanted[path] if owner.get(n) == used):
                print(f"    {path.stem} -> {used.stem}: {name}")
    print(f"{len(objects)} files, {'a circle' if circle else 'no circle'}")
    return 1 if circle else 0


if __name__ == "__main__":
    sys.exit(main())
