# SPDX-License-Identifier: Apache-2.0
"""How an operator of torch.ops.spyre is written: a function with its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

OPERATORS: list[tuple[str, Callable[..., Any]]] = []  # (schema without the name, function)


def operator(schema: str) -> Callable[[Function], Function]:
    """Decorator: the function is the operator of this schema and of its own name."""

    def add(function: Function) -> Function:
        OPERATORS.append((schema, function))
        return function

    return add
