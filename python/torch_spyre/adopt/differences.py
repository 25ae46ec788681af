# SPDX-License-Identifier: Apache-2.0
"""What torch-spyre's package expects of Python and PyTorch and this process lacks. The list in
docs/adopt.md names all of it."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from .._pytorch import size_hints


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


def install() -> None:
    """Adds what is missing. Called when Inductor is loaded: the package imports it first."""
    _take_skipped_prefixes()
    size_hints.install()
