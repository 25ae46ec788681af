# SPDX-License-Identifier: Apache-2.0
"""Operators that users registered (registry.py), and their functions."""

from __future__ import annotations

from collections.abc import Callable

from .._pytorch.dispatch import OpOverload

spyre_decompositions: dict[OpOverload, Callable] = {}
spyre_lowerings: dict[OpOverload, Callable] = {}
fallback_ops: dict[OpOverload, Callable | None] = {}  # None: PyTorch's own kernel
