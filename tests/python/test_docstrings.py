# SPDX-License-Identifier: Apache-2.0
"""Every public name says what it is: shapes where it takes or gives tensors, and what it raises."""

import ast
import importlib
import inspect
import re
import textwrap
import types

import pytest
import torch
import torch_spyre

MODULES = (
    "config",
    "constants",
    "debug.cost_report",
    "execution.async_compile",
    "execution.kernel_runner",
    "hints",
    "logging_config",
    "model_utils",
    "operators",
    "ops.fallbacks",
    "passes",
    "profiler",
    "registry",
    "report",
)
SHAPE = re.compile(r"\[[^\]]+\]|any shape")


def _public(module: types.ModuleType) -> dict[str, object]:
    """What `__all__` names, or else the functions and classes that the module defines."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isroutine(value))
        and (module is torch.spyre or value.__module__ == module.__name__)
    ]
    return {name: getattr(module, name) for name in names}


def _members(name: str, value: object) -> dict[str, object]:
    """The methods and properties that a class of this package defines."""
    if not inspect.isclass(value) or not value.__module__.startswith("torch_spyre."):
        return {}
    found = {}
    for member, held in vars(value).items():
        function = getattr(held, "fget", None) or getattr(held, "__func__", held)
        if not member.startswith("_") and inspect.isfunction(function):
            found[f"{name}.{member}"] = function
    return found


def _listed() -> dict[str, object]:
    torch_spyre._C._complete()
    modules = {"torch_spyre": torch_spyre, "torch.spyre": torch.spyre}
    for name in MODULES:
        modules[f"torch_spyre.{name}"] = importlib.import_module(f"torch_spyre.{name}")
    listed: dict[str, object] = dict(modules)
    for path, module in modules.items():
        for name, value in _public(module).items():
            if inspect.isclass(value) or inspect.isroutine(value):
                listed[f"{path}.{name}"] = value
                listed |= _members(f"{path}.{name}", value)
    return listed


def _raised(function: types.FunctionType) -> set[str]:
    """The classes of errors that a function's own statements raise."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    names = [call.func for call in calls if isinstance(call, ast.Call)]
    return {name.attr if isinstance(name, ast.Attribute) else name.id for name in names}


def _has_tensors(function: types.FunctionType) -> bool:
    return any(re.search(r"\bTensor\b", str(kind)) for kind in function.__annotations__.values())


def faults_of(name: str, value: object) -> list[str]:
    text = (vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or ""
    if not text.strip():
        return [f"{name}: no docstring"]
    if not inspect.isfunction(value) or not value.__module__.startswith("torch_spyre"):
        return []
    faults = []
    _, raises, classes = text.partition("Raises")
    for error in _raised(value):
        if not raises or error not in classes:
            faults.append(f"{name}: raises {error}, and its docstring does not say when")
    if _has_tensors(value) and not SHAPE.search(text):
        faults.append(f"{name}: takes or gives tensors of shapes that its docstring does not name")
    return faults


def test_public_names_are_described():
    listed = _listed()
    assert len(listed) > 150 and "torch.spyre.Stream.synchronize" in listed
    faults = [fault for name, value in listed.items() for fault in faults_of(name, value)]
    assert faults == [], "\n".join(faults)


def _undescribed(x):
    return x


def _without_raises(x: int) -> int:
    """A number. Raises: TypeError for another one."""
    raise ValueError(x)


def _without_shape(x: torch.Tensor) -> None:
    """Takes a tensor."""


@pytest.mark.parametrize(
    "function, fault",
    [
        (_undescribed, "no docstring"),
        (_without_raises, "raises ValueError"),
        (_without_shape, "shapes"),
    ],
)
def test_what_lacks_a_description_is_found(function, fault):
    function.__module__ = "torch_spyre.example"
    (found,) = faults_of("f", function)
    assert fault in found
