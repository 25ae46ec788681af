# SPDX-License-Identifier: Apache-2.0
"""Graph inputs that begin inside of their storages.

Dynamo runs a compiled graph on any view of the sizes and strides that it was compiled for, wherever
it begins. The package drops that place, or has it in the program's addresses, for some of the
reads of one input alike; its runtime hands over storages. Here no program has it, and the launch
adds it (launch.c of the binding: `_launch_from_views`).
"""

from __future__ import annotations

import functools
import types
from typing import Any

import sympy
import torch

from .. import _C


def _of_view_layout(original: Any) -> Any:
    """The layout of an input, without the place."""

    @functools.wraps(original)
    def layout_of(*args: Any, **kwargs: Any) -> Any:
        layout = original(*args, **kwargs)
        if layout is not None:
            layout.offset = sympy.Integer(0)
        return layout

    return layout_of


def _of_reoffset(original: Any) -> Any:
    """What puts the place of an operand into a copy; places that it refuses stay refused."""

    @functools.wraps(original)
    def reoffset(node: Any, offset: Any) -> Any:
        original(node, offset)
        return node

    return reoffset


def _of_codegen(original: Any, virtualized: Any) -> Any:
    """No kernel is compiled with an input that has its place by another way."""

    @functools.wraps(original)
    def codegen_kernel(self: Any) -> Any:
        for name, given in getattr(virtualized.graph, "graph_inputs", {}).items():
            layout = getattr(getattr(getattr(given, "data", None), "data", None), "layout", None)
            if getattr(layout, "offset", 0) != 0:
                raise RuntimeError(f"graph input {name} is compiled for a place in its storage")
        return original(self)

    return codegen_kernel


def amend(module: types.ModuleType) -> None:
    """Takes the places out of a module of the package that has them."""
    for name, amended in (
        ("_eager_view_input_layout", _of_view_layout),
        ("_reoffset", _of_reoffset),
    ):
        if hasattr(module, name):
            setattr(module, name, amended(getattr(module, name)))
    kernel = getattr(module, "SpyreKernel", None)
    if kernel is not None:
        kernel.codegen_kernel = _of_codegen(kernel.codegen_kernel, vars(module)["V"])


def install() -> None:
    """Launches take views from where they begin. Programs that Inductor has kept without this one
    are none of these."""
    _C._launch_from_views(True)
    torch.compiler.config.cache_key_tag += "from views"
