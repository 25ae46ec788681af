# SPDX-License-Identifier: Apache-2.0
"""What runs on the CPU, and the warning that says so."""

from ..eager.host import FallbackWarning, warn_fallback
from ..registry import fallback_ops, register_fallback

__all__ = ["FallbackWarning", "fallback_ops", "register_fallback", "warn_fallback"]
