# SPDX-License-Identifier: Apache-2.0
"""Operators that users registered (registry.py), and their functions."""

from __future__ import annotations

from collections.abc import Callable

import torch

spyre_decompositions: dict[torch._ops.OpOverload, Callable] = {}
spyre_lowerings: dict[torch._ops.OpOverload, Callable] = {}
fallback_ops: dict[torch._ops.OpOverload, Callable | None] = {}  # None: PyTorch's own kernel
