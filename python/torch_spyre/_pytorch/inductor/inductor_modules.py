# SPDX-License-Identifier: Apache-2.0
"""`torch._inductor.<module>` without an import of that module: `torch._inductor.codecache`.

Programs of the device name Inductor's modules so, because torch-spyre's package imports all of
Inductor when PyTorch loads it. This one compiles without Inductor, whose import takes a second, so
a module is imported when a program names it. `torch._inductor` itself is not there yet when the
device is registered.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_PACKAGE = "torch._inductor"


def _import_named(name: str) -> types.ModuleType:
    """The `__getattr__` of the package."""
    full = f"{_PACKAGE}.{name}"
    try:
        if name.startswith("__"):
            raise ModuleNotFoundError(name=full)
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}") from None


class _Loader:
    """The package's own loader, to which it goes back once the package is loaded."""

    def __init__(self, loader: Any):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: types.ModuleType) -> None:
        """As the loader does, then completes the module."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        vars(module)["__getattr__"] = _import_named
        self._loader.exec_module(module)


class _Finder:
    """In sys.meta_path until the package is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The protocol of sys.meta_path."""
        if name != _PACKAGE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


def name_them_all() -> None:
    """Once, when the device is registered."""
    if _PACKAGE in sys.modules:
        vars(sys.modules[_PACKAGE])["__getattr__"] = _import_named
    else:
        sys.meta_path.insert(0, _Finder())
