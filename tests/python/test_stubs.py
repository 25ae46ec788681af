# SPDX-License-Identifier: Apache-2.0
"""The stub of the binding, from which type checkers know it, names what the binding has."""

import ast
import pathlib

import torch_spyre
from torch_spyre import _C

STUB = pathlib.Path(torch_spyre.__file__).with_name("_C.pyi")
# Of the stub alone: types of what functions take and give.
TYPES = {"Device", "Exchange", "KernelCounters", "LxUse"}


def _defined(body) -> dict[str, ast.stmt]:
    """The names that statements define, the last definition of each."""
    found = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign):
            found[statement.target.id] = statement
        elif isinstance(statement, ast.Assign):
            found |= {target.id: statement for target in statement.targets}
        elif isinstance(statement, ast.ImportFrom):
            found |= {name.asname: statement for name in statement.names if name.asname}
    return found


def _stub() -> dict[str, ast.stmt]:
    return _defined(ast.parse(STUB.read_text(encoding="utf-8")).body)


def test_the_stub_names_what_the_binding_has():
    _C._complete()
    stub = _stub()
    present = {name for name in vars(_C) if not name.startswith("__")} | {"__version__"}
    assert present - set(stub) == set()
    missing = {name for name in stub if name not in present and name not in TYPES}
    aliases = {name for name in missing if isinstance(stub[name], ast.Assign | ast.ClassDef)}
    assert {name for name in aliases if not name.startswith("_")} == set()
    assert missing - aliases == set()


def test_the_stub_names_the_methods_of_the_binding():
    stub = _stub()
    for name in ("Executable", "Graph", "JobPlan", "SpyreTensorLayout"):
        methods = {m for m in vars(getattr(_C, name)) if not m.startswith("__")}
        named = {m for m in _defined(stub[name].body) if not m.startswith("__")}
        assert methods == named, name


def test_the_stub_names_the_formats_of_the_card():
    stub = _stub()
    for name in ("DataFormats", "ElementArrangement"):
        members = {
            target.id: statement.value.value
            for statement in stub[name].body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
        }
        assert members == {m.name: m.value for m in getattr(_C, name)}
