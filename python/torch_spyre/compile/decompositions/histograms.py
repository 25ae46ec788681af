# SPDX-License-Identifier: Apache-2.0
"""Counts of elements by bins of equal width."""

from __future__ import annotations

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, INTEGERS, MOST_COMPARISONS, count

_aten = torch.ops.aten


@part(_aten.histc.default, narrow=True)
def histc(
    x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0
) -> torch.Tensor | NotTaken:
    """[bins] in x's dtype. Elements outside [min, max] are in no bin, max itself in the last. An
    empty range stands for that of the data, which the host reads. Integers have the bins that
    kernels of devices give them, which the CPU lacks: those of the bounds as integers."""
    exact = x.dtype in INTEGERS
    low, high = (int(min), int(max)) if exact else (float(min), float(max))
    if not low < high or bins <= 0 or not high - low < float("inf"):
        return NOT_TAKEN
    if x.dtype not in (*FLOATS, *INTEGERS) or x.numel() * (bins + 1) > MOST_COMPARISONS:
        return NOT_TAKEN
    values, number = x.reshape(-1, 1), count(bins, x)
    if exact and (bins * (high - low) >= 1 << 31 or abs(low) + abs(high) >= 1 << 31):
        return NOT_TAKEN
    if exact:  # bin k begins at the first integer v with (v - low) * bins / (high - low) >= k
        reached = values >= (number * (high - low) + (bins - 1)) // bins + low
    else:
        values = values.to(torch.float32)
        place = ((values - low) * bins / (high - low)).clamp(max=bins - 1)
        reached = (values >= low) & (place >= number.to(torch.float32))
    beyond = (values > high).to(torch.float32).sum(0)
    counts = reached.to(torch.float32).sum(0)
    return (counts - torch.cat([counts, beyond])[1:]).to(x.dtype)
