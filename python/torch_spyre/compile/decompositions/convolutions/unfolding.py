# SPDX-License-Identifier: Apache-2.0
"""Windows of images as columns, and images as sums of what columns hold. At one place of the kernel
all windows together are a view of the image, so columns are a view for each place, put side by
side, and a sum of columns adds one for each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ...register_decomposition import NOT_TAKEN, NotTaken, part
from ..lines import FLOATS
from ..pooling import MOST_TAPS, Windows, at_tap, from_taps, padded, taps, windows_of

_aten = torch.ops.aten


def _is_taken(x: torch.Tensor, rank: int, w: Windows) -> bool:
    are_windows = math.prod(w.kernel) <= MOST_TAPS and min(w.counts) > 0
    return x.dim() in (rank, rank + 1) and x.numel() > 0 and are_windows


@part(_aten.im2col.default, narrow=True)
def im2col(
    x: torch.Tensor,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> torch.Tensor | NotTaken:
    """[N, C, H, W] -> [N, C * places of the kernel, windows]"""
    w = windows_of(x.shape[-2:], kernel, stride, padding, dilation)
    if not _is_taken(x, 3, w):
        return NOT_TAKEN
    wide = padded(x, w, 0.0)
    columns = torch.stack([at_tap(wide, w, tap) for tap in taps(w)], -3)
    return columns.reshape(*x.shape[:-3], -1, math.prod(w.counts))


@part(_aten.col2im.default, narrow=True)
def col2im(
    x: torch.Tensor,
    sizes: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> torch.Tensor | NotTaken:
    """[N, C * places of the kernel, windows] -> [N, C, H, W], 0 where no window is"""
    w = windows_of(sizes, kernel, stride, padding, dilation)
    if not _is_taken(x, 2, w) or x.dtype not in FLOATS:
        return NOT_TAKEN
    at_taps = x.unflatten(-1, w.counts).unflatten(-3, (-1, math.prod(w.kernel)))
    given = list(zip(taps(w), at_taps.unbind(-3), strict=True))
    return from_taps(given, w, at_taps.dim() - 3).contiguous()
