# SPDX-License-Identifier: Apache-2.0
"""Windows of images as rows of a matrix, and images of such rows: a convolution is one product of
them, and so is each of its gradients. Windows side by side are views; others are gathered along
each dim by their numbers."""

from __future__ import annotations

import math

import torch

from ..pooling import Windows, are_tiles

_aten = torch.ops.aten

MOST_COPIES = 32  # of an image, one for each tap along a dim
MOST_ELEMENTS = 1 << 26  # of a matrix of windows that overlap


def elements(x: torch.Tensor, w: Windows) -> int:
    """Those of rows_of(x, w)."""
    return x.shape[0] * x.shape[1] * math.prod(w.counts) * math.prod(w.kernel)


def rows_of(x: torch.Tensor, w: Windows) -> torch.Tensor:
    """[N, C, ..] -> [N, windows, C * elements of a window]"""
    batch, channels = x.shape[:2]
    x = _tiled(x, w) if are_tiles(w) else _gathered(x, w)
    rank = len(w.counts)
    counts, kernel = [2 + 2 * i for i in range(rank)], [3 + 2 * i for i in range(rank)]
    x = x.permute(0, *counts, 1, *kernel)
    return x.reshape(batch, math.prod(w.counts), channels * math.prod(w.kernel))


def _tiled(x: torch.Tensor, w: Windows) -> torch.Tensor:
    """[N, C, (windows, elements), ..] of windows side by side"""
    for dim, (k, n) in enumerate(zip(w.kernel, w.counts, strict=True)):
        x = x.narrow(dim + 2, 0, n * k)
    pairs = [size for n, k in zip(w.counts, w.kernel, strict=True) for size in (n, k)]
    return x.contiguous().reshape(*x.shape[:2], *pairs)


def _gathered(x: torch.Tensor, w: Windows) -> torch.Tensor:
    """The same of windows that overlap or leave gaps: lines, then columns, by their numbers."""
    around = [p for padding in reversed(w.padding) for p in (padding, padding)]
    if any(around):
        x = _aten.constant_pad_nd(x, around)
    pairs = list[int]()
    dims = zip(w.kernel, w.stride, w.dilation, w.counts, strict=True)
    for dim, (k, s, d, n) in enumerate(dims):
        places = torch.arange(k, device=x.device).unsqueeze(1) * d
        places = places + torch.arange(n, device=x.device) * s
        x = x.index_select(dim + 2, places.reshape(-1))
        pairs += [k, n]
    rank, x = len(w.counts), x.reshape(*x.shape[:2], *pairs)
    return x.permute(0, 1, *[2 + (i ^ 1) for i in range(2 * rank)])


def image_of(rows: torch.Tensor, w: Windows) -> torch.Tensor:
    """[N, windows, C * elements of a window] of windows side by side -> [N, C, ..], 0 where no
    window is."""
    rank = len(w.counts)
    x = rows.reshape(rows.shape[0], *w.counts, -1, *w.kernel)
    x = x.permute(0, rank + 1, *[d for i in range(rank) for d in (1 + i, rank + 2 + i)])
    x = x.reshape(*x.shape[:2], *[n * k for n, k in zip(w.counts, w.kernel, strict=True)])
    behind = [size - n for size, n in zip(w.sizes, x.shape[2:], strict=True)]
    around = [more for size in reversed(behind) for more in (0, size)]
    return _aten.constant_pad_nd(x, around) if any(around) else x
