# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre: masks, windows, caches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .declare_operator import operator


@operator("(int seqlen_q, int seqlen_kv, ScalarType dtype, Device device) -> Tensor")
def causal_mask(seqlen_q: int, seqlen_kv: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[1, 1, seqlen_q, seqlen_kv]: 0 where query i sees key j <= i, else -inf."""
    hidden = torch.full((seqlen_q, seqlen_kv), float("-inf"), dtype=dtype, device=device)
    return hidden.triu(1)[None, None]


@operator(
    "(Tensor query, Tensor key, Tensor value, Tensor attention_mask, int window_size, "
    "bool is_causal, float? scale=None) -> Tensor"
)
def sliding_window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    window_size: int,
    is_causal: bool,
    scale: float | None = None,
) -> Tensor:
    """query [B, heads, Lq, D], key and value [B, KV heads, Lk, D]. The mask [B, 1, Lq, Lk], which
    is added, says all that is hidden; window_size and is_causal repeat it."""
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(
        query, key, value, attention_mask, scale=scale, enable_gqa=grouped
    )


@operator(
    "(Tensor key, Tensor value, int read_start, int buffer_width, int num_heads) -> "
    "(Tensor, Tensor)"
)
def kv_window(
    key: Tensor, value: Tensor, read_start: int, buffer_width: int, num_heads: int
) -> tuple[Tensor, Tensor]:
    """Rows read_start .. read_start + buffer_width of the caches [B, KV heads, length, D]."""
    length = key.shape[2]
    if read_start < 0 or buffer_width <= 0 or read_start + buffer_width > length:
        place = f"rows {read_start}..{read_start + buffer_width} of a cache of {length}"
        raise ValueError(f"kv_window: {place}: expected 0 <= read_start, 0 < buffer_width, inside")
    if num_heads % key.shape[1]:
        raise ValueError(
            f"kv_window: {num_heads} heads of queries are no multiple of {key.shape[1]} of keys"
        )
    return (
        key.narrow(2, read_start, buffer_width).clone(),
        value.narrow(2, read_start, buffer_width).clone(),
    )
