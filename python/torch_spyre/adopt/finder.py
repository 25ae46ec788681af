# SPDX-License-Identifier: Apache-2.0
"""Which file `import torch_spyre` is: that of the checkout, on the binding of this package.

`torch_spyre` and all below it come from the checkout, but `torch_spyre._C`, which is `native`. This
package itself goes by the name `openspyre` then. Loaded by its path, before either package.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

THEIRS, OURS = "torch_spyre", "openspyre"
AMENDED = {
    f"torch_spyre._inductor.{name}"
    for name in ("spyre_kernel", "customops", "lowering", "propagate_layouts")
}


class _Namespace:
    """This package without what its __init__ does: it registers no device."""

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual one."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing."""


class _Native:
    """torch_spyre._C."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        made: types.ModuleType = importlib.import_module(f"{OURS}.adopt.native").module()
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """It is complete."""


class _Amended:
    """A module of the checkout that `differences` completes once it is loaded."""

    def __init__(self, loader: Any):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: types.ModuleType) -> None:
        """As the checkout says, then what differs."""
        self._loader.exec_module(module)
        importlib.import_module(f"{OURS}.adopt.differences").amend(module)


def _installed(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """As the finders in front of this one know it."""
    for finder in sys.meta_path:
        spec = None if isinstance(finder, Finder) else finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


class Finder:
    """Goes first in sys.meta_path."""

    def __init__(self, checkout: str):
        self.checkout = checkout
        self.folder = str(pathlib.Path(__file__).resolve().parent.parent)
        self.binding: str | None = None  # where the installed package has its _C

    def _own(self, name: str) -> ModuleSpec | None:
        if name == OURS:
            spec = ModuleSpec(name, _Namespace(), is_package=True)  # type: ignore[arg-type]
            spec.submodule_search_locations = [self.folder]
            return spec
        if name != f"{OURS}._C":
            return None
        found = _installed(f"{THEIRS}._C", [self.folder])
        if found is None or found.origin is None:
            return None
        return importlib.util.spec_from_file_location(name, found.origin)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The protocol of sys.meta_path."""
        if name == THEIRS:
            return PathFinder.find_spec(name, [self.checkout])
        if name == f"{THEIRS}._C":
            return ModuleSpec(name, _Native())  # type: ignore[arg-type]
        if name.startswith(f"{THEIRS}."):
            spec = PathFinder.find_spec(name, path)
            if spec is not None and name in AMENDED:
                spec.loader = _Amended(spec.loader)  # type: ignore[assignment]
            return spec
        return self._own(name)


def install(checkout: str) -> None:
    """From here on `import torch_spyre` is the package of `checkout`."""
    sys.meta_path.insert(0, Finder(checkout))
