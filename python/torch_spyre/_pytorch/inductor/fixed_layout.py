# SPDX-License-Identifier: Apache-2.0
"""Inductor's layout of a tensor with sizes and strides of its own."""

from torch._inductor.ir import FixedLayout

__all__ = ["FixedLayout"]
