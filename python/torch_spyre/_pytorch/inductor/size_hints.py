# SPDX-License-Identifier: Apache-2.0
"""`SizeVarAllocator.size_hint(expr)` of Inductor, which PyTorch 2.13 has by purposes only. It
raises TypeError for an expression of sizes that the trace does not know."""

from __future__ import annotations

from typing import Any


def install() -> None:
    """Gives the class the method where PyTorch has it no more."""
    from torch._inductor.sizevars import SizeVarAllocator

    if hasattr(SizeVarAllocator, "size_hint"):
        return

    def size_hint(self: Any, expr: Any, *, fallback: int | None = None) -> int:
        value = self.replace_backed_symbols_with_hints(expr)
        is_number = not getattr(value, "free_symbols", None)
        return int(value) if is_number or fallback is None else fallback

    SizeVarAllocator.size_hint = size_hint  # type: ignore[attr-defined]
