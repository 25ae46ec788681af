# SPDX-License-Identifier: Apache-2.0
"""Operators that users registered (registry.py), and their functions; the device's own
decompositions are registered by register_decomposition.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._pytorch.dispatch import OpOverload

# Operators that the device's own kernels (eager/kernel_registration.py) compose of others where
# the compiler does not take them.
composed: set[OpOverload] = set()

spyre_decompositions: dict[OpOverload, Callable[..., Any]] = {}
spyre_lowerings: dict[OpOverload, Callable[..., Any]] = {}
fallback_ops: dict[OpOverload, Callable[..., Any] | None] = {}  # None: PyTorch's own kernel
