# SPDX-License-Identifier: Apache-2.0
"""rms_norm outside of graphs, in which it is PyTorch's composition."""

from __future__ import annotations

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import HALVES

_aten = torch.ops.aten


@part(_aten.rms_norm.default)
def rms_norm(
    x: torch.Tensor,
    sizes: list[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor | NotTaken:
    """As the composition in aten/src/ATen/native/layer_norm.cpp: squares, their mean and the
    products in float32."""
    if x.dtype not in HALVES or (weight is not None and weight.dtype != x.dtype):
        return NOT_TAKEN
    wide, dims = x.float(), tuple(range(-len(sizes), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    scaled = wide * torch.rsqrt((wide * wide).mean(dims, keepdim=True) + eps)
    return (scaled if weight is None else scaled * weight.float()).to(x.dtype)
