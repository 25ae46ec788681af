# SPDX-License-Identifier: Apache-2.0
"""Checks that no C files of a build call each other in a circle, so that they can be read in order,
and that no modules of a Python package import each other in one.

check_cycles.py DIRECTORY reads the symbols of all object files below it with nm, or else the
imports of all Python files, those inside of functions too.
"""

import ast
import subprocess
import sys
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


def find_circles(uses: dict[Path, set[Path]]) -> list[list[Path]]:
    """Strongly connected components of more than one file (Tarjan, SIAM J. Comput. 1972)."""
    index, low, stack, circles = {}, {}, [], []

    def visit(file: Path):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in uses[file]:
            if other not in index:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == index[file]:
            circle = stack[stack.index(file) :]
            del stack[-len(circle) :]
            if len(circle) > 1:
                circles.append(circle)

    for file in uses:
        if file not in index:
            visit(file)
    return circles


def imports_of(file: Path) -> set[Path]:
    """The files of the same package that a module imports relatively. A package's own __init__ is
    none: it is imported before its modules, whatever they say."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        for name in [base, *(base / alias.name for alias in node.names)]:
            found.add(name.with_suffix(".py"))
    return {path for path in found if path.is_file()} - {file}


def check_modules(root: Path) -> int:
    uses = {path: imports_of(path) for path in sorted(root.rglob("*.py"))}
    circles = find_circles(uses)
    for circle in circles:
        names = sorted(str(path.relative_to(root)) for path in circle)
        print("a circle of imports: " + ", ".join(names))
    print(f"{len(uses)} files, {len(circles)} circles")
    return 1 if circles else 0 if uses else 2


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
    circles = find_circles(uses)
    for circle in circles:
        print("a circle of calls: " + ", ".join(sorted(path.stem for path in circle)))
        for path in sorted(circle):
            for name in sorted(wanted[path]):
                if owner.get(name) in circle and owner[name] != path:
                    print(f"    {path.stem} -> {owner[name].stem}: {name}")
    print(f"{len(objects)} files, {len(circles)} circles")
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main())
