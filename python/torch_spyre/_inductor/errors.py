# SPDX-License-Identifier: Apache-2.0
"""What the compiler raises."""

from .._C import Unsupported

__all__ = ["Unsupported"]
