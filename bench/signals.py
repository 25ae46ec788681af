# SPDX-License-Identifier: Apache-2.0
"""Signals: one line, or a few, of many elements, and what programs of audio and time series do with
them; a row each. Parts of them begin anywhere in a stick."""

import torch
import torch.nn.functional as F
from patterns import Pattern, of, one

Tensor = torch.Tensor
ONE, EIGHT = (300_000,), (8, 160_000)  # 19 s at 16 kHz, 8 times 10 s


def _emphasis(x: Tensor) -> Tensor:
    return torch.cat([x[..., :1], x[..., 1:] - 0.97 * x[..., :-1]], -1)


def _standardized(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-4)


def _mean_of_five(x: Tensor) -> Tensor:
    return (x[..., 4:] + x[..., 3:-1] + x[..., 2:-2] + x[..., 1:-3] + x[..., :-4]) / 5


def _filtered(x: Tensor, w: Tensor) -> Tensor:
    return F.conv1d(x.reshape(-1, 1, x.shape[-1]), w, padding=12)


SIGNALS: dict[str, Pattern] = {
    "emphasis of a signal": one(_emphasis, ONE, EIGHT),
    "differences of a signal": one(lambda x: x.diff(), ONE, EIGHT),
    "padded signal": one(lambda x: F.pad(x, (400, 1)), ONE, EIGHT),
    "rolled signal": one(lambda x: x.roll(1, -1), ONE, EIGHT),
    "signal twice": one(lambda x: torch.cat([x, x], -1), ONE),
    "every second sample": one(lambda x: x[..., ::2] * 2, ONE, EIGHT),
    "reversed signal": one(lambda x: x.flip(-1), ONE, EIGHT),
    "frames of a signal": one(lambda x: x.unfold(-1, 400, 160) * 2, ONE, EIGHT),
    "mean of five of a signal": one(_mean_of_five, ONE, EIGHT),
    "standardized signal": one(_standardized, ONE, EIGHT),
    "cumsum of a signal": one(lambda x: x.cumsum(-1), ONE, EIGHT),
    "cummax of a signal": one(lambda x: x.cummax(-1)[0], ONE, EIGHT),
    "maxima of a signal": one(lambda x: F.max_pool1d(x.reshape(1, -1, x.shape[-1]), 4),
                              ONE, EIGHT),
    "filtered signal": of(_filtered, (ONE, (8, 1, 25)), ((2, 48_000), (8, 1, 25))),
    "sums of tens": one(lambda x: x.reshape(-1, 10).sum(-1), ONE, EIGHT),
}  # fmt: skip
