# SPDX-License-Identifier: Apache-2.0
"""Tensors without values, which PyTorch traces with."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake

__all__ = ["FakeTensor", "FakeTensorMode", "has_values"]


def has_values(tensor: torch.Tensor) -> bool:
    """False for tensors of the meta device and for those that are traced with."""
    return not (tensor.is_meta or is_fake(tensor))
