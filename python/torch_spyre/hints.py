# SPDX-License-Identifier: Apache-2.0
"""How a computation is divided over cores and cut into tiles, as its user says (docs/python.md)."""

from .compile.hints.for_each_tile import Gather, for_each_tile
from .compile.hints.hint_scopes import spyre_hint
from .compile.hints.named_dims import declare_tensor_dim, name_tensor_dims, reset

__all__ = [
    "Gather",
    "declare_tensor_dim",
    "for_each_tile",
    "name_tensor_dims",
    "reset",
    "spyre_hint",
]
