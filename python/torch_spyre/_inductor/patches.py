# SPDX-License-Identifier: Apache-2.0
"""torch-spyre's way to switch its compiler on for a stretch of a program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._pytorch.dispatch import OperatorBase
from ..compile import decomposition_table


@contextlib.contextmanager
def enable_spyre_context(
    example_inputs: Sequence[Any] = (),
    decomps: Mapping[OperatorBase, Callable[..., Any]] | None = None,
) -> Iterator[Mapping[OperatorBase, Callable[..., Any]]]:
    """Graphs of the card need no such scope here, and others are never touched. What it adds:
    `decomps` hold for graphs that are traced inside. It gives the decompositions that hold."""
    with decomposition_table.added(decomps or {}):
        yield decomposition_table.table()
