# SPDX-License-Identifier: Apache-2.0
"""Windows of images as columns of matrices, one matrix for each line of windows: a convolution is
the product of its weight and these columns. Their sticks run along the lines, as those of the image
and of the result do, so few channels or features leave no stick empty.

A shift along the lines is one within sticks, so the image is copied once for each tap along them;
the other taps are lines of these copies."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .blocks_of_rows import filled
from .pooling import Windows, at_tap, padded, taps, windows_of
from .window_rows import elements

_MOST_PRODUCTS = 512  # of a tap, for each lane in use: more cost less with sticks of channels
_MOST_COPIES = 32
_MOST_ELEMENTS = 1 << 26


def is_of_columns(x: torch.Tensor, weight: torch.Tensor, w: Windows, groups: int = 1) -> bool:
    """Whether lines fill sticks better than channels and features of a group."""
    sizes = (*x.shape, *w.counts)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return False
    products = weight.shape[0] // groups * weight.shape[1] / filled(w.counts[-1])
    few = w.kernel[-1] <= _MOST_COPIES and elements(x, w) <= _MOST_ELEMENTS
    steps = zip(w.stride[:-1], w.dilation[:-1], strict=True)
    return products <= _MOST_PRODUCTS and few and all(s % d == 0 or d % s == 0 for s, d in steps)


def columns_of(x: torch.Tensor, w: Windows) -> torch.Tensor:
    """[N, C, .., line] -> [N, .., C * elements of a window, windows of a line]"""
    rank = len(w.counts)
    # Lines of zeros first: zeros within the lines would give them another length.
    x = padded(x, along(w, range(rank - 1), w.sizes), 0.0)
    lines = along(w, [rank - 1], x.shape[2:])
    wide = padded(x, lines, 0.0)
    x = torch.stack([at_tap(wide, lines, tap) for tap in taps(lines)], 2)
    for dim in range(rank - 1):
        reach = w.dilation[dim] * (w.kernel[dim] - 1) + 1
        x = x.unfold(dim + 3, reach, w.stride[dim])[..., :: w.dilation[dim]]
        x = x.narrow(dim + 3, 0, w.counts[dim])
    counts, kernel = range(3, rank + 2), range(rank + 3, 2 * rank + 2)
    x = x.permute(0, *counts, 1, *kernel, 2, rank + 2)
    return x.flatten(rank, -2)


def along(w: Windows, dims: Sequence[int], sizes: Sequence[int]) -> Windows:
    """Windows of these dims alone, of one element along the others."""

    def kept(numbers: list[int], default: int) -> list[int]:
        return [n if dim in dims else default for dim, n in enumerate(numbers)]

    how = kept(w.kernel, 1), kept(w.stride, 1), kept(w.padding, 0), kept(w.dilation, 1)
    return windows_of(sizes, *how)
