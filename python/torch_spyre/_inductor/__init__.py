# SPDX-License-Identifier: Apache-2.0
"""The compiler as its users configure and extend it, under torch-spyre's module name."""

from ..compile.hints.hint_scopes import spyre_hint

__all__ = ["spyre_hint"]
