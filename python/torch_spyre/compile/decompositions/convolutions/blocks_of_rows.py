# SPDX-License-Identifier: Apache-2.0
"""Convolutions of few channels, each by itself: filters of grey or coloured images and of signals.

A stick holds one element of each channel, so few channels leave most of it empty. Where there are
many images they fill it. Else an image is cut into blocks of rows, each with the rows behind it
that its windows reach, and the blocks are images of their own: 64 of them fill a stick, and every
tap is a shift along dims that are none of the stick's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..pooling import FEW_CHANNELS, Windows

_aten = torch.ops.aten

_LANES = 64
_MOST_FEATURES = 4  # of one channel, for each of which the image is copied
_WORTH_BLOCKS = 2  # by how much a stick has to be fuller


class Blocks(NamedTuple):
    """`number` blocks of `rows` results along a dim, each of `reach` elements of the input."""

    dim: int
    number: int
    rows: int
    reach: int


def is_of_few_channels(x: torch.Tensor, weight: torch.Tensor, w: Windows, groups: int) -> bool:
    """Whether every channel has a filter or a few of its own, and all windows slide."""
    channels, features = x.shape[1], weight.shape[0]
    return (
        all(isinstance(size, int) and size > 0 for size in x.shape)
        and groups == channels
        and features < FEW_CHANNELS
        and features <= _MOST_FEATURES * channels
        and max(w.kernel) > 1
        and all(n > 1 or k == 1 for n, k in zip(w.counts, w.kernel, strict=True))
    )


def filled(lanes: int) -> float:
    """The share of the lanes of sticks."""
    return lanes / (_LANES * -(-lanes // _LANES))


def blocks_for(images: int, channels: int, w: Windows) -> Blocks | None:
    """Those that fill sticks best; None where images or channels fill them as well."""
    dim = max(range(len(w.counts)), key=lambda d: w.counts[d])
    span = w.dilation[dim] * (w.kernel[dim] - 1) + 1
    best, best_share = None, _WORTH_BLOCKS * max(filled(images), filled(channels))
    for count in (16, 32, 64, 128):
        rows = -(-w.counts[dim] // count)
        reach = (rows - 1) * w.stride[dim] + span
        share = filled(count) * w.counts[dim] * w.stride[dim] / (count * reach)
        if share > best_share:
            best, best_share = Blocks(dim, count, rows, reach), share
    return best


def one_feature_a_channel(x: torch.Tensor, features: int) -> torch.Tensor:
    """x with each channel as often as it has features."""
    many = features // x.shape[1]
    if many == 1:
        return x
    repeated: torch.Tensor = x.index_select(1, torch.arange(features, device=x.device) // many)
    return repeated


def in_blocks(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows, b: Blocks
) -> torch.Tensor:
    """[N, C, ..] by [C, 1, ..]: the convolution of the blocks, put together."""
    at = b.dim + 2
    step = b.rows * w.stride[b.dim]
    reached = (b.number - 1) * step + b.reach
    behind = list(w.padding)
    behind[b.dim] = max(0, reached - w.padding[b.dim] - x.shape[at])
    around = [n for pair in zip(reversed(w.padding), reversed(behind), strict=True) for n in pair]
    x = _aten.constant_pad_nd(x, around) if any(around) else x
    x = x.unfold(at, b.reach, step).movedim(at, 1).movedim(-1, at + 1)
    none: Sequence[int] = [0] * len(w.kernel)
    how = w.stride, none, w.dilation
    made = _aten.convolution(x.flatten(0, 1), weight, bias, *how, False, none, weight.shape[0])
    made = made.unflatten(0, (x.shape[0], b.number)).movedim(1, at).flatten(at, at + 1)
    result: torch.Tensor = made.narrow(at, 0, w.counts[b.dim])
    return result
