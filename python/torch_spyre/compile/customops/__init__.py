# SPDX-License-Identifier: Apache-2.0
"""The operators that torch-spyre defines beside PyTorch's: torch.ops.spyre.

Names and arguments are those of torch-spyre/torch-spyre, `torch_spyre/_inductor/customops.py`. All
are made of PyTorch's operators, on every device, for fake tensors and with gradients, and the
compiler sees those. Where a name says `cpu` or `fallback`, the compiler chooses the place all the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import copies, fp8, masks_and_caches, norms, products_and_reductions  # noqa: F401
from .declare_operator import OPERATORS


def composites() -> list[tuple[str, Callable[..., Any]]]:
    """(operator, what it is made of) of all of them."""
    return [(f"spyre.{function.__name__}.default", function) for _, function in OPERATORS]


def register() -> torch.library.Library:
    """Defines the operators; they live as long as what is returned."""
    library = torch.library.Library("spyre", "FRAGMENT")
    for schema, function in OPERATORS:
        library.define(function.__name__ + schema)
        library.impl(function.__name__, function, "CompositeImplicitAutograd")
    return library


def __getattr__(name: str) -> Callable[..., Any]:
    """The function of an operator, by its name."""
    for _, function in OPERATORS:
        if function.__name__ == name:
            return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
