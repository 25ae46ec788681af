# SPDX-License-Identifier: Apache-2.0
"""What runs on the CPU, and the warning that says so."""

from .._fallback import FallbackWarning, meet
from ..compile.registered import fallback_ops
from ..registry import register_fallback

__all__ = ["FallbackWarning", "fallback_ops", "register_fallback", "warn_fallback"]


def warn_fallback(op: object, reason: str = "it is registered as a fallback") -> None:
    """Says of an operator what torch_spyre.fallback says of every one that runs on the CPU."""
    meet(op, (), reason)
