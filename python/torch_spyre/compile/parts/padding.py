# SPDX-License-Identifier: Apache-2.0
"""Padding by what lies at the edges of dims: parts are put side by side, so every bit stays."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..registered import NOT_TAKEN, NotTaken, part
from .lines import as_stored

_aten = torch.ops.aten


def _edge(x: torch.Tensor, dim: int, first: int, number: int, mirrors: bool) -> torch.Tensor:
    """So many elements from `first` on the other way round, or the first one as often."""
    if mirrors:
        return x.narrow(dim, first, number).flip(dim)
    edge = x.narrow(dim, first, 1)
    return edge.expand([number if d == dim else size for d, size in enumerate(x.shape)])


def _padded(x: torch.Tensor, dim: int, before: int, behind: int, mirrors: bool) -> torch.Tensor:
    last, parts = x.shape[dim] - 1, [x]
    if before:
        parts.insert(0, _edge(x, dim, 1 if mirrors else 0, before, mirrors))
    if behind:
        parts.append(_edge(x, dim, last - behind if mirrors else last, behind, mirrors))
    return torch.cat(parts, dim) if len(parts) > 1 else x


def _pad(x: torch.Tensor, padding: Sequence[int], mirrors: bool) -> torch.Tensor | NotTaken:
    """`padding` has a pair for each dim, the last dim first."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    if x.numel() == 0 or len(pairs) > x.dim():
        return NOT_TAKEN
    for i, pair in enumerate(pairs):
        most = x.shape[x.dim() - 1 - i]
        if min(pair) < 0 or (mirrors and max(pair) >= most):
            return NOT_TAKEN
    result = x
    for i, (before, behind) in enumerate(pairs):
        result = _padded(result, x.dim() - 1 - i, before, behind, mirrors)
    return as_stored(result, x) if result is not x else x.clone()


@part(
    _aten.reflection_pad1d.default, _aten.reflection_pad2d.default,
    _aten.reflection_pad3d.default, narrow=True,
)  # fmt: skip
def reflection_pad(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor | NotTaken:
    return _pad(x, padding, True)


@part(
    _aten.replication_pad1d.default, _aten.replication_pad2d.default,
    _aten.replication_pad3d.default, narrow=True,
)  # fmt: skip
def replication_pad(x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor | NotTaken:
    return _pad(x, padding, False)
