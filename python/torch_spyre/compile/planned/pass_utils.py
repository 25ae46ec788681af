# SPDX-License-Identifier: Apache-2.0
"""Divisions in the form that torch-spyre keeps them in: by coefficients of an index.

Slices of an op are two dicts, of the loops that move the result and of the reduced ones: the loop's
coefficient in the result's index, or in that of the first input, to the number of slices. Loops
with one slice are left out. So they hold when the loops get other names. Loops are any keys; an
index has `coeff(loop)`, as expressions of sympy have.
"""

from collections.abc import Mapping
from typing import Any

Splits = tuple[dict[int, int], dict[int, int]]


def splits_by_index_coeff(splits: Mapping[Any, int], write_index: Any, read_index: Any) -> Splits:
    """The two dicts for slices by loop."""
    output: dict[int, int] = {}
    reduction: dict[int, int] = {}
    for loop, slices in splits.items():
        if slices == 1:
            continue
        if moves := int(write_index.coeff(loop)):
            output[moves] = slices
        elif moves := int(read_index.coeff(loop)):
            reduction[moves] = slices
    return output, reduction


def apply_splits_from_index_coeff(
    stored: Splits, write_index: Any, read_index: Any, ranges: Mapping[Any, int]
) -> dict[Any, int]:
    """Slices by loop, for loops of these extents; one for what is not stored, and for an extent of
    1, whose coefficient may be that of another loop."""
    output, reduction = stored
    found = {}
    for loop, extent in ranges.items():
        moves = int(write_index.coeff(loop))
        slices = output.get(moves, 1) if moves else reduction.get(int(read_index.coeff(loop)), 1)
        found[loop] = slices if extent != 1 else 1
    return found
