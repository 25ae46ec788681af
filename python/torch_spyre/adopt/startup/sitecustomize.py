# SPDX-License-Identifier: Apache-2.0
"""Runs as every Python starts that `spyre adopt` has this folder on the path of: installs the
finder, then goes on with the sitecustomize that it hides, if there is one."""

import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import types

_FOLDER = pathlib.Path(__file__).resolve().parent


def _load(name: str, path: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _go_on() -> None:
    others = [folder for folder in sys.path if pathlib.Path(folder or ".").resolve() != _FOLDER]
    hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if hidden is not None and hidden.loader is not None:
        hidden.loader.exec_module(importlib.util.module_from_spec(hidden))


if "SPYRE_ADOPT" in os.environ:
    _load("_spyre_adopt_finder", _FOLDER.parent / "finder.py").install(os.environ["SPYRE_ADOPT"])
_go_on()
