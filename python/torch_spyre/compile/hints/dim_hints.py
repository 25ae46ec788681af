# SPDX-License-Identifier: Apache-2.0
"""What a scope of tiles asks of an op, under torch-spyre's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .hint_scopes import spyre_hint

__all__ = ["DimHint", "dim_hints", "spyre_hint"]


@dataclass
class DimHint:
    """One scope of spyre_hint(num_tiles_per_dim=..) around an op."""

    dim_names: list[str]
    split_count: int
    loop_var: str | None  # "c0", the op's loop over the dim; None where it has none
    is_reduction: bool
    hint_id: int = 0  # greater than those of the scopes around it


def dim_hints(scopes: str | None, loops: Sequence[tuple[str | None, bool]]) -> list[DimHint]:
    """Of a text "1:M=8,2:K=4", outermost first, for an op with loops (name of the dim, reduced).
    Steps of a written loop ("3:@5=16") are no hints about dims."""
    found = []
    for scope in scopes.split(",") if scopes else ():
        number, _colon, hint = scope.partition(":")
        name, _equals, count = hint.partition("=")
        if name.startswith("@"):
            continue
        places = [at for at, (dim, _reduced) in enumerate(loops) if dim == name]
        found.append(
            DimHint(
                [name],
                int(count),
                f"c{places[0]}" if places else None,
                bool(places) and loops[places[0]][1],
                int(number),
            )
        )
    return found
