# SPDX-License-Identifier: Apache-2.0
"""Of PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class LazyNamespace(torch._ops._OpNamespace):
    """A namespace of torch.ops whose operators are defined when one is asked for."""

    def __init__(self, name: str, define: Callable[[], None]):
        super().__init__(name)
        self._define = define

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._define()
        return super().__getattr__(name)

    @classmethod
    def install(cls, name: str, define: Callable[[], None]) -> None:
        setattr(torch.ops, name, cls(name, define))
