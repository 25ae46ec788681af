# SPDX-License-Identifier: Apache-2.0
"""Operators of the device under torch-spyre's module names."""

from . import fallbacks

__all__ = ["fallbacks"]
