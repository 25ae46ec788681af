# SPDX-License-Identifier: Apache-2.0
"""The backward function of attention: the weights are computed anew, not kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import computed

_aten = torch.ops.aten


def _weights(
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    causal: bool,
    scale: float,
) -> torch.Tensor:
    scores = (query * scale) @ key.transpose(-2, -1)
    if bias is not None:
        masked = torch.full((), -math.inf, dtype=scores.dtype, device=scores.device)
        is_mask = bias.dtype is torch.bool
        scores = torch.where(bias, scores, masked) if is_mask else scores + bias
    if causal:
        rows, columns = (torch.arange(n, device=scores.device) for n in scores.shape[-2:])
        kept = columns <= rows.unsqueeze(1)
        scores = torch.where(kept, scores, -math.inf)
    weights: torch.Tensor = _aten._safe_softmax(scores, -1)
    return weights


def _repeated(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Heads of keys or values, each for its group of queries."""
    if groups == 1:
        return x
    wide = x.unsqueeze(2).expand(x.shape[0], x.shape[1], groups, *x.shape[2:])
    return wide.reshape(x.shape[0], x.shape[1] * groups, *x.shape[2:])


def _summed(x: torch.Tensor, groups: int) -> torch.Tensor:
    return x if groups == 1 else x.unflatten(1, (-1, groups)).sum(2)


@part(_aten._scaled_dot_product_fused_attention_overrideable_backward.default, narrow=True)
def attention_backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    wanted: Sequence[bool],
    _out: torch.Tensor,
    _log_sum: torch.Tensor,
    _starts_q: torch.Tensor,
    _starts_k: torch.Tensor,
    _longest_q: int,
    _longest_k: int,
    dropout: float,
    causal: bool,
    _seed: torch.Tensor,
    _offset: torch.Tensor,
    *,
    scale: float | None = None,
) -> tuple[torch.Tensor | None, ...] | NotTaken:
    if dropout != 0 or query.dim() != 4 or query.dtype not in computed():
        return NOT_TAKEN
    return gradients(grad, query, key, value, bias, wanted, causal=causal, scale=scale)


def gradients(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    wanted: Sequence[bool],
    *,
    causal: bool,
    scale: float | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of query, key, value and bias, those that are `wanted`. Operands are [batch, heads,
    length, size]; fewer heads of keys and values serve groups of queries."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    groups = query.shape[1] // key.shape[1]
    keys, values = _repeated(key, groups), _repeated(value, groups)
    weights = _weights(query, keys, bias, causal, factor)
    shared = weights.to(grad.dtype)  # a bias may be wider
    to_value = _summed(shared.transpose(-2, -1) @ grad, groups) if wanted[2] else None
    # In float32: where weights gather at a few keys, shares and their level are nearly the same.
    wide = torch.promote_types(query.dtype, torch.float32)
    exact, shares = weights.to(wide), (grad @ values.transpose(-2, -1)).to(wide)
    total = exact.sum(-1, keepdim=True).clamp_min(0.5)  # 1 but for rounding; 0 of a masked row
    level = (exact * shares).sum(-1, keepdim=True) / total
    to_scores = exact * (shares - level)
    scaled = (to_scores * factor).to(query.dtype)
    to_query = scaled @ keys if wanted[0] else None
    to_key = _summed(scaled.transpose(-2, -1) @ query, groups) if wanted[1] else None
    to_bias = None
    if wanted[3] and bias is not None:
        to_bias = to_scores.to(bias.dtype).sum_to_size(bias.shape)
    return to_query, to_key, to_value, to_bias
