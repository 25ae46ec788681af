# SPDX-License-Identifier: Apache-2.0
"""Whether what a graph keeps on the card fits there, before anything is compiled or moved."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..device import memory
from . import resident

_MB = 1e6


def check(
    parameters: Iterable[torch.Tensor], caches: Iterable[torch.Tensor], rows_bytes: int
) -> None:
    """At the first call of a graph. `rows_bytes`: of a KV cache, what one layer of its largest step
    reads. Raises torch.OutOfMemoryError with the numbers; paddings of sticks are not counted."""
    of_parameters = sum(map(resident.bytes_to_move, parameters))
    tables = list(caches)
    of_caches = sum(map(resident.bytes_of_new_cache, tables))
    free, total = memory.mem_get_info()
    needed = of_parameters + of_caches + rows_bytes
    if needed <= free:
        return
    shape = f" ({len(tables)} tables of {tables[0].shape[0]} blocks)" if tables else ""
    raise torch.OutOfMemoryError(
        f"spyre: this graph needs {needed / _MB:.1f} MB of the card before it can run: "
        f"parameters {of_parameters / _MB:.1f} MB, KV cache {of_caches / _MB:.1f} MB{shape}, rows "
        f"that a step reads {rows_bytes / _MB:.1f} MB; {free / _MB:.1f} MB of "
        f"{total / _MB:.1f} MB are free"
    )
