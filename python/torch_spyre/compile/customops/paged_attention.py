# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre.paged_attention: attention to a KV cache that lies in blocks.

    paged_attention(query, key, value, key_rows, value_rows, rows, seen, fresh, scale, sinks=None,
                    key_scale=None, value_scale=None)

query [batch, queries, heads, width], key and value [batch, queries, key heads, width] are those of
this call. key_rows and value_rows [slots, key heads * width] are the cache; sequence b reads its
rows `rows[b]` [batch, cached], integers in [0, slots). seen [batch, queries, cached] and fresh
[batch, queries, queries] tell which cached and which fresh keys a query sees; one that sees none
has zeros. sinks [heads] are scores without values (gpt-oss). Keys and values, fresh and cached, may
be float8_e4m3fn; the scales [batch] multiply them. The result is shaped as the query. Nothing is
written: the caller stores key and value in the cache afterwards.
"""

from __future__ import annotations

from typing import Any

import torch

_SCHEMA = (
    "paged_attention(Tensor query, Tensor key, Tensor value, Tensor key_rows, Tensor value_rows, "
    "Tensor rows, Tensor seen, Tensor fresh, float scale, Tensor? sinks=None, "
    "Tensor? key_scale=None, Tensor? value_scale=None) -> Tensor"
)


def paged_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_rows: torch.Tensor,
    value_rows: torch.Tensor,
    rows: torch.Tensor,
    seen: torch.Tensor,
    fresh: torch.Tensor,
    scale: float,
    sinks: torch.Tensor | None = None,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """The definition, in float32: softmax over both parts at once."""
    batch, _, heads, width = query.shape
    key_heads = key.shape[2]
    cached = (batch, rows.shape[1], key_heads, width)

    def all_keys(
        table: torch.Tensor, own: torch.Tensor, factor: torch.Tensor | None
    ) -> torch.Tensor:
        whole = torch.cat([table[rows].reshape(cached).float(), own.float()], 1)
        if factor is not None:
            whole = (whole * factor.reshape(-1, 1, 1, 1)).to(query.dtype).float()
        return whole.repeat_interleave(heads // key_heads, 2)

    keys, values = all_keys(key_rows, key, key_scale), all_keys(value_rows, value, value_scale)
    mask = torch.cat([seen, fresh], 2).unsqueeze(1)
    scores = torch.einsum("bqhd,bkhd->bhqk", query.float() * scale, keys)
    scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        sink = sinks.float().reshape(1, heads, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], 3)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)[..., : mask.shape[3]]
    result = torch.einsum("bhqk,bkhd->bqhd", weights, values)
    return result.to(query.dtype).contiguous()


def _shape(query: torch.Tensor, *operands: Any) -> torch.Tensor:
    key, value, _, _, rows, seen, fresh = operands[:7]
    for operand in (key, value, rows, seen, fresh):
        if operand.shape[0] != query.shape[0]:
            raise ValueError("paged_attention: batches differ")
    return torch.empty_like(query, memory_format=torch.contiguous_format)


def register() -> torch.library.Library:
    """Defines the operator; it lives as long as what is returned."""
    library = torch.library.Library("spyre", "FRAGMENT")
    library.define(_SCHEMA)
    library.impl("paged_attention", paged_attention, "CompositeExplicitAutograd")
    library.impl("paged_attention", _shape, "Meta")
    return library
