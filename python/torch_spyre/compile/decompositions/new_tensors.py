# SPDX-License-Identifier: Apache-2.0
"""New tensors: the identity matrix, memory without values in an order of dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..register_decomposition import traced_part

_aten = torch.ops.aten


@traced_part(_aten.eye.default, _aten.eye.m)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_options: Any,
) -> torch.Tensor:
    """PyTorch's own counts in the shortest integers, which no one computes with."""
    rows, columns = (torch.arange(size, device=device) for size in (n, n if m is None else m))
    return (rows.unsqueeze(1) == columns).to(torch.get_default_dtype() if dtype is None else dtype)


@traced_part(_aten.empty_permuted.default)
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], **options: Any
) -> torch.Tensor:
    """Contiguous in the order `physical_layout` of the dims, outermost first."""
    options.pop("layout", None)
    stored = torch.empty([size[dim] for dim in physical_layout], **options)
    return stored.permute([physical_layout.index(dim) for dim in range(len(size))])
