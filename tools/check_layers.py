# SPDX-License-Identifier: Apache-2.0
"""Checks the include direction of src/: a module includes itself and the modules below it only, and
its folders, and theirs, include each other in one direction. What lies in a folder itself is for
all of its folders."""

import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# Module -> modules it may include, besides itself and include/spyre.
BELOW = {"base": set()}
BELOW["tensor"] = {"base"}
BELOW["isa"] = BELOW["tensor"] | {"tensor"}
BELOW["mlir"] = {"base"}
BELOW["graph"] = BELOW["isa"] | {"isa"}
BELOW["bundle"] = BELOW["isa"] | {"isa", "mlir"}
BELOW["front"] = BELOW["graph"] | {"graph", "bundle", "mlir"}
BELOW["comm"] = BELOW["tensor"] | {"tensor"}
# Between front and back lies the bundle: neither knows the other.
BELOW["back"] = BELOW["bundle"] | {"bundle"}
BELOW["spyrecode"] = BELOW["isa"] | {"isa"}
# The emulated card knows programs through the ISA only, never the compiler that wrote them.
BELOW["card"] = BELOW["isa"] | {"isa"}
BELOW["runtime"] = BELOW["isa"] | {"isa", "spyrecode", "card"}
BELOW["compile"] = BELOW["front"] | BELOW["runtime"] | {"front", "back", "runtime"}
BELOW["estimate"] = BELOW["compile"] | {"compile"}
BELOW["ktir"] = BELOW["runtime"] | {"mlir", "runtime", "compile"}
BELOW["cli"] = set()

# runtime.h of the public interface takes an executable, so the runtime reads compile's model.
ALLOWED = {("runtime", "compile")}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def violations(root: Path) -> tuple[list[str], int]:
    found, files = [], 0
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".c", ".h", ".def"):
            continue
        files += 1
        module = path.relative_to(root / "src").parts[0]
        if module not in BELOW:
            found.append(f"{path.relative_to(root)}: module '{module}' has no rank")
            continue
        for included in INCLUDE.findall(path.read_text()):
            target = included.split("/")[0]
            if "/" not in included or target in ("spyre", module):
                continue
            if target not in BELOW[module] and (module, target) not in ALLOWED:
                found.append(f"{path.relative_to(root)}: {module} may not include {included}")
    for path in sorted((root / "python").rglob("*")):
        if path.suffix not in (".c", ".h", ".cpp"):
            continue
        files += 1
        for included in INCLUDE.findall(path.read_text()):
            own = (root / "python/core" / included).exists()
            if "/" in included and not own and included.split("/")[0] in BELOW:
                found.append(f"{path.relative_to(root)}: python sees include/spyre only")
    return found, files


def folders_below(folder: Path, src: Path) -> dict[str, set[str]]:
    """Folder in a folder -> the others in it that its files include."""
    below = {path.name: set() for path in folder.iterdir() if path.is_dir()}
    for path in folder.glob("*/**/*.[ch]"):
        own = path.relative_to(folder).parts[0]
        for included in INCLUDE.findall(path.read_text()):
            target = src / included
            if folder in target.parents and target.parent != folder:
                below[own] |= {target.relative_to(folder).parts[0]} - {own}
    return below


def circles(root: Path) -> list[str]:
    found, src = [], root / "src"
    for folder in sorted(path for path in src.rglob("*") if path.is_dir()):
        try:
            TopologicalSorter(folders_below(folder, src)).prepare()
        except CycleError as error:
            name = folder.relative_to(root)
            found.append(f"{name}: folders in a circle: {' -> '.join(error.args[1])}")
    return found


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    found, files = violations(root)
    found += circles(root)
    for line in found:
        print(line, file=sys.stderr)
    print(f"check_layers: {files} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
