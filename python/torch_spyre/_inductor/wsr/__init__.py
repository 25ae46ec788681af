# SPDX-License-Identifier: Apache-2.0
"""Hints, under torch-spyre's module name."""

from ...compile.hints.for_each_tile import Gather, for_each_tile

__all__ = ["Gather", "for_each_tile"]
