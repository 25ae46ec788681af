# SPDX-License-Identifier: Apache-2.0
"""Operators that users registered (registry.py), and their functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from .._pytorch.dispatch import OpOverload


class NotTaken:
    """The type of NotImplemented, which type checkers take for that of any value."""


# What a function of an operator returns for arguments that it leaves to the host.
NOT_TAKEN: Final[NotTaken] = cast(NotTaken, NotImplemented)

spyre_decompositions: dict[OpOverload, Callable[..., Any]] = {}
spyre_lowerings: dict[OpOverload, Callable[..., Any]] = {}
fallback_ops: dict[OpOverload, Callable[..., Any] | None] = {}  # None: PyTorch's own kernel
