# SPDX-License-Identifier: Apache-2.0
"""Checks that private names of PyTorch are used in python/torch_spyre/_pytorch only, so that an
upgrade of PyTorch edits one folder.

Private is a name of torch with a leading underscore: in an import, in a chain of attributes that
begins with `torch`, or as an attribute that the package does not define itself. Operators
(torch.ops) are known by their schemas, underscore or not.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Attributes with an underscore that are no private names of PyTorch: of namedtuples, of Dynamo's
# contract for compiled functions, and one that torch-spyre gives to torch.Tensor.
PUBLIC = {"_replace", "_asdict", "_fields", "_boxed_call", "_spyre_tensor_patched"}
ELSEWHERE = (["torch", "ops"], ["_aten"], ["sys"])


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def chain(node: ast.AST) -> list[str]:
    """["torch", "_C", "Graph"] of the expression torch._C.Graph; [] of other ones."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*reversed([*names, node.id])] if isinstance(node, ast.Name) else []


def defined(tree: ast.AST) -> Iterator[str]:
    """Names that a module gives to anything: functions, classes, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value  # setattr(.., "_name", ..), slots


def private_uses(tree: ast.AST, own: set[str]) -> Iterator[tuple[int, str]]:
    """(line, name) of every private name of PyTorch."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            prefix = f"{module}." if module else ""
            for alias in node.names if not getattr(node, "level", 0) else ():
                parts = f"{prefix}{alias.name}".split(".")
                if parts[0] == "torch" and any(map(is_private, parts)):
                    yield node.lineno, ".".join(parts)
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            names = chain(node)
            if node.attr in PUBLIC or names[:1] in ELSEWHERE or names[:2] in ELSEWHERE:
                continue
            if names[:1] == ["torch"] or node.attr not in own:
                yield node.lineno, ".".join(names) or node.attr


def main() -> int:
    root = Path(__file__).resolve().parent.parent / "python/torch_spyre"
    trees = {path: ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))}
    own = {name for tree in trees.values() for name in defined(tree)}
    own |= set(re.findall(r"\b_\w+", (root / "_C.pyi").read_text()))
    faults = 0
    for path, tree in trees.items():
        if path.is_relative_to(root / "_pytorch"):
            continue
        for line, name in sorted(set(private_uses(tree, own))):
            print(f"{path.relative_to(root)}:{line}: {name} belongs in _pytorch", file=sys.stderr)
            faults += 1
    print(f"check_pytorch_boundary: {len(trees)} files, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
