# SPDX-License-Identifier: Apache-2.0
"""Functions in the index expressions of Inductor."""

from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, ModularIndexing

__all__ = ["CleanDiv", "FloorDiv", "Max", "ModularIndexing"]
