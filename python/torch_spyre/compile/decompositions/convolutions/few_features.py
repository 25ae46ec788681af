# SPDX-License-Identifier: Apache-2.0
"""Convolutions of many channels to few features: the last ones of decoders and of heads.

A product of windows has a column for each feature, so few of them leave most of a stick empty at
every tap. Here a row is a feature at a tap: one product with the image, whose sticks run along its
lines, makes what each element adds to the windows around it, in float32, and the windows sum up
what is theirs. Shifts along the other dims are none within sticks, so these taps come first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..pooling import Windows, at_tap, padded, taps
from .blocks_of_rows import filled
from .window_columns import along

_MOST_FEATURES = 16
_MOST_ROWS = 2.5  # for each channel
_LEAST_FILLED = 0.4  # of the sticks along lines


def is_of_few_features(x: torch.Tensor, weight: torch.Tensor, w: Windows) -> bool:
    """Whether the product's rows are about as many as channels, and windows take all of each."""
    images, *sizes = *x.shape, *w.counts
    return (
        images != 0
        and all(isinstance(size, int) and size > 0 for size in sizes)
        and weight.shape[0] <= _MOST_FEATURES
        and weight.shape[0] * math.prod(w.kernel) <= _MOST_ROWS * x.shape[1]
        and max(w.stride) == 1
        and filled(w.sizes[-1]) >= _LEAST_FILLED
    )


def of_few_features(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows
) -> torch.Tensor:
    """[N, C, ..] by [features, C, ..]"""
    rank = len(w.kernel)
    rows = weight.movedim((0, 1), (-2, -1)).flatten(0, -2)  # [taps * features, C]
    made = rows.float() @ x.movedim(1, -2).float()  # [N, lines.., taps * features, W]
    made = made.movedim(-2, 1).unflatten(1, (*w.kernel, weight.shape[0]))
    for dims in (range(rank - 1), range(rank - 1, rank)):
        made = _summed(made, along(w, dims, made.shape[-rank:]), dims)
    made = made if bias is None else made + bias.view(-1, *[1] * rank).float()
    return made.to(x.dtype)


def _summed(made: torch.Tensor, w: Windows, dims: Sequence[int]) -> torch.Tensor:
    """[N, taps of these dims.., ..] -> [N, ..]: of each window, what is made at its taps."""
    wide = padded(made, w, 0.0)
    total: torch.Tensor | None = None
    for tap in taps(w):
        part = wide
        for dim in dims:
            part = part.select(1, tap[dim])
        part = at_tap(part, w, tap)
        total = part if total is None else total + part
    assert total is not None
    return total
