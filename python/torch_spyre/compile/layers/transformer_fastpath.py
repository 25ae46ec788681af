# SPDX-License-Identifier: Apache-2.0
"""What torch.nn's transformer layers call in inference instead of their parts: one operator for the
whole layer, which the card takes apart again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from ...registry import register_spyre_decomposition


def _attention_mask(mask: torch.Tensor | None, mask_type: int | None) -> torch.Tensor | None:
    """As scaled_dot_product_attention takes it; a bool mask of these operators is true where a key
    is left out. mask_type: 0 [length, length], 1 [batch, length], 2 [batch, heads, length, length].
    """
    if mask is None:
        return None
    if mask_type == 1:
        mask = mask[:, None, None, :]
    return ~mask if mask.dtype == torch.bool else mask


def _weighted(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention and its weights: [batch, heads, length, size] -> the same, [.., keys]."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        bools = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if bools else scores + mask
    weights = scores.softmax(-1)
    return weights @ v, weights


def _projected(
    inputs: tuple[torch.Tensor, ...], weight: torch.Tensor, bias: torch.Tensor
) -> Sequence[torch.Tensor]:
    """Query, key and value: of one input by one product."""
    if all(x is inputs[0] for x in inputs):
        return F.linear(inputs[0], weight, bias).chunk(3, -1)
    by_input = zip(inputs, weight.chunk(3), bias.chunk(3), strict=True)
    return [F.linear(x, w, b) for x, w, b in by_input]


@register_spyre_decomposition(torch.ops.aten._native_multi_head_attention.default)
def multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """torch.nn.MultiheadAttention in inference, batch first."""
    mask = _attention_mask(mask, mask_type)
    parts = _projected((query, key, value), qkv_weight, qkv_bias)
    q, k, v = (part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in parts)
    weights: torch.Tensor | None = None
    if need_weights:
        result, each = _weighted(q, k, v, mask)
        weights = each.mean(1) if average_attn_weights else each
    else:
        result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return F.linear(result.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


@register_spyre_decomposition(torch.ops.aten._transformer_encoder_layer_fwd.default)
def encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """torch.nn.TransformerEncoderLayer in inference, batch first."""
    attention = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask)
    activation = F.gelu if use_gelu else F.relu

    def attend(x: torch.Tensor) -> torch.Tensor:
        return multi_head_attention(x, x, x, *attention, need_weights=False, mask_type=mask_type)[0]

    def feed(x: torch.Tensor) -> torch.Tensor:
        return F.linear(activation(F.linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    def first(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attend(first(src))
        return src + feed(second(src))
    src = first(src + attend(src))
    return second(src + feed(src))
