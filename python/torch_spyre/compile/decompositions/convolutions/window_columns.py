# SPDX-License-Identifier: Apache-2.0
"""Windows of images as columns of matrices, one matrix for each line of windows: a convolution is
the product of its weight and these columns. Their sticks run along the lines, as those of the image
and of the result do, so few channels or features leave no stick empty.

A shift along the lines is one within sticks, so the image is copied once for each tap along them;
the other taps are lines of these copies. Many small images are one whose lines have an element of
each, along which nothing shifts."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..pooling import Windows, at_tap, padded, taps, windows_of
from .blocks_of_rows import filled
from .window_rows import MOST_COPIES, MOST_ELEMENTS, elements

_MOST_PRODUCTS = 512  # of a tap, for each lane in use: more cost less with sticks of channels
_WORTH_IMAGES = 4  # by how much a stick has to be fuller with images


def is_of_columns(x: torch.Tensor, weight: torch.Tensor, w: Windows, groups: int = 1) -> bool:
    """Whether lines fill sticks better than channels and features of a group."""
    sizes = (*x.shape, *w.counts)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return False
    of_images = _images_fill_more(x, w)
    share = filled(x.shape[0] if of_images else w.counts[-1])
    products = weight.shape[0] // groups * weight.shape[1] / share
    few = (of_images or w.kernel[-1] <= MOST_COPIES) and elements(x, w) <= MOST_ELEMENTS
    rank = len(w.kernel) if of_images else len(w.kernel) - 1
    steps = zip(w.stride[:rank], w.dilation[:rank], strict=True)
    return products <= _MOST_PRODUCTS and few and all(s % d == 0 or d % s == 0 for s, d in steps)


def of_columns(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows, groups: int = 1
) -> torch.Tensor:
    """[N, C, ..] by [features, C of a group, ..]: the product of the weight and the columns."""
    of_images = _images_fill_more(x, w)
    columns = _columns_of(*(_with_lines_of_images(x, w) if of_images else (x, w)))
    rows = weight.flatten(1)
    if groups > 1:
        columns, rows = columns.unflatten(-2, (groups, -1)), rows.unflatten(0, (groups, -1))
    product = rows @ columns  # [N, lines.., (groups,) features, windows of a line]
    product = product.flatten(-3, -2) if groups > 1 else product
    product = product if bias is None else product + bias.view(-1, 1)
    product = product.transpose(0, -1).squeeze(-1) if of_images else product.transpose(-2, -1)
    return product.movedim(-1, 1)


def _images_fill_more(x: torch.Tensor, w: Windows) -> bool:
    """Whether sticks are fuller with an element of each image, as of many small ones."""
    return x.dim() < 5 and filled(x.shape[0]) > _WORTH_IMAGES * filled(w.counts[-1])


def _with_lines_of_images(x: torch.Tensor, w: Windows) -> tuple[torch.Tensor, Windows]:
    """All images as one, [1, C, .., N], and its windows: no taps are along its lines."""
    images = x.shape[0]
    pairs = zip(w, (images, 1, 1, 0, 1, images), strict=True)
    return x.movedim(0, -1).unsqueeze(0), Windows(*([*numbers, n] for numbers, n in pairs))


def _columns_of(x: torch.Tensor, w: Windows) -> torch.Tensor:
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
