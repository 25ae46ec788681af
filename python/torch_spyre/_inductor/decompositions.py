# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's names of `torch_spyre.compile.decomposition_table` and of what registers one."""

from ..compile.decomposition_table import added, table
from ..compile.registered import spyre_decompositions
from ..registry import register_spyre_decomposition

register_decomposition = register_spyre_decompositions = register_spyre_decomposition

__all__ = [
    "added",
    "register_decomposition",
    "register_spyre_decomposition",
    "register_spyre_decompositions",
    "spyre_decompositions",
    "table",
]
