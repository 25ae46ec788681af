# SPDX-License-Identifier: Apache-2.0
"""What torch-spyre's package expects of Python and PyTorch and this process lacks. The list in
docs/adopt.md names all of it."""

from __future__ import annotations

import functools
import sys
import types
import typing
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import typing_extensions

from .. import _C
from .._pytorch.inductor import size_hints
from . import handed_back, offsets


def _frames_inside(prefixes: Sequence[str]) -> int:
    """Callers of the caller of warn() that lie in files of these prefixes."""
    frame, count = sys._getframe(2), 0
    while frame.f_back is not None and frame.f_code.co_filename.startswith(tuple(prefixes)):
        frame, count = frame.f_back, count + 1
    return count


def _take_skipped_prefixes() -> None:
    """`warnings.warn(.., skip_file_prefixes=)`, which Python has from 3.12 on."""
    if sys.version_info >= (3, 12):
        return
    original = warnings.warn

    @functools.wraps(original)
    def warn(
        message: Any,
        category: Any = None,
        stacklevel: int = 1,
        source: Any = None,
        *,
        skip_file_prefixes: Sequence[str] = (),
    ) -> None:
        inside = _frames_inside(skip_file_prefixes) if skip_file_prefixes else 0
        original(message, category, stacklevel + 1 + inside, source)

    warnings.warn = warn


def _take_override() -> None:
    """`typing.override`, which Python has from 3.12 on; tests of the package use it."""
    if not hasattr(typing, "override"):
        typing.override = typing_extensions.override  # type: ignore[attr-defined]


def _warn_downcast() -> bool:
    """As the package does it: at each copy, while it is wanted."""
    if _C.get_downcast_warning():
        warnings.warn(
            "Backend Spyre does not support int64: it will be downcast to int32", stacklevel=2
        )
    return False


def amend(module: types.ModuleType) -> None:
    """Completes a module of the package, of those that finder.AMENDED lists."""
    if hasattr(module, "SpyreOpFuncs"):
        _name_compute_types(module.SpyreOpFuncs)
    if hasattr(module, "stagger_to_standard_ea"):
        module.stagger_to_standard_ea.register_kernel("spyre")(torch.clone)
    offsets.amend(module)


def _name_compute_types(functions: Any) -> None:
    """Inductor 2.13 names an argument of `to_dtype` that the kernel does not take and that
    says nothing to it."""
    original = functions.to_dtype

    def to_dtype(x: Any, dtype: Any, src_dtype: Any = None, use_compute_types: bool = True) -> Any:
        return original(x, dtype, src_dtype)

    functions.to_dtype = staticmethod(to_dtype)


def install() -> None:
    """Adds what is missing. Called when Inductor is loaded: the package imports it first."""
    _take_skipped_prefixes()
    _take_override()
    size_hints.install()
    offsets.install()
    handed_back.install()
    _C._on_downcast(_warn_downcast)
