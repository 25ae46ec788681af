# SPDX-License-Identifier: Apache-2.0
"""Attention under torch.vmap: the dim that vmap goes over joins the batch, so that it is one node
and not as many as there are samples. PyTorch has no rule for the entry that devices override."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_aten = torch.ops.aten
_FUSED = "aten::_scaled_dot_product_fused_attention_overrideable"
_RANK = 4  # [batch, heads, length, size]
_OF_ROWS, _GRADIENTS = 2, 4  # results that have the batch: attention and its log-sum-exp; all
_OF_BATCH = (0, 1, 2, 3, 6, 7)  # and operands of the gradient: grad, query, key, value, results

Tensors = tuple[Any, ...]


def _joined(x: torch.Tensor | None, dim: int | None, samples: int) -> torch.Tensor | None:
    """[samples * batch, ..]; of samples that share it, copies."""
    if x is None or (x.numel() == 0 and dim is None):
        return x
    x = x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
    return x.expand(samples, *x.shape[1:]).flatten(0, 1)


def _joined_mask(
    mask: torch.Tensor | None, dim: int | None, samples: int, batch: int
) -> torch.Tensor | None:
    """The same of what is broadcast to [batch, heads, length, length]."""
    if mask is None or (mask.numel() == 0 and dim is None):
        return mask
    mask = mask.unsqueeze(0) if dim is None else mask.movedim(dim, 0)
    mask = mask.reshape(mask.shape[0], *(1,) * (_RANK + 1 - mask.dim()), *mask.shape[1:])
    return mask.expand(samples, batch, *mask.shape[2:]).flatten(0, 1)


def _parted(results: Sequence[Any], count: int, samples: int) -> tuple[Tensors, Tensors]:
    """[samples, batch, ..] again, of the first results that have elements; and the dims that vmap
    goes over."""
    whole = [n < count and x is not None and x.numel() > 0 for n, x in enumerate(results)]
    parted = tuple(
        x.unflatten(0, (samples, -1)) if own else x for x, own in zip(results, whole, strict=True)
    )
    return parted, tuple(0 if own else None for own in whole)


def _batch_of(query: torch.Tensor, dim: int | None) -> int:
    return query.shape[0] if dim is None else query.movedim(dim, 0).shape[1]


def _attend(info: Any, dims: Sequence[int | None], *given: Any, **options: Any) -> Any:
    """`given`: query, key, value and whatever the caller says of the mask and what follows it."""
    samples = info.batch_size
    joined = [_joined(x, d, samples) for x, d in zip(given[:3], dims[:3], strict=True)]
    rest = list(given[3:])
    if rest:
        rest[0] = _joined_mask(rest[0], dims[3], samples, _batch_of(given[0], dims[0]))
    op = _aten._scaled_dot_product_fused_attention_overrideable.default
    return _parted(op(*joined, *rest, **options), _OF_ROWS, samples)


def _gradient_of_mask(
    gradient: torch.Tensor, mask: torch.Tensor, dim: int | None, samples: int
) -> torch.Tensor:
    """[samples, ..] of the mask's own sizes: summed where it was broadcast over the batch."""
    own = list(mask.shape if dim is None else mask.movedim(dim, 0).shape[1:])
    parted: torch.Tensor = gradient.unflatten(0, (samples, -1))
    if len(own) < _RANK or own[0] == 1:
        parted = parted.sum(1, keepdim=True)
    return parted.reshape(samples, *own)


def _differentiate(info: Any, dims: Sequence[int | None], *given: Any, **options: Any) -> Any:
    """`given`, as in the schema: grad, query, key, value, mask, wanted, out, .."""
    samples, mask, wanted = info.batch_size, given[4], given[5]
    joined = list(given)
    for n in _OF_BATCH:
        joined[n] = _joined(given[n], dims[n], samples)
    joined[4] = _joined_mask(mask, dims[4], samples, _batch_of(given[1], dims[1]))
    op = _aten._scaled_dot_product_fused_attention_overrideable_backward.default
    results, places = _parted(op(*joined, **options), _GRADIENTS, samples)
    if not wanted[3] or places[3] is None:
        return results, places
    gradient = _gradient_of_mask(results[3].flatten(0, 1), mask, dims[4], samples)
    return (*results[:3], gradient), places


def register(library: torch.library.Library) -> None:
    torch.library.register_vmap(_FUSED, _attend, lib=library)
    torch.library.register_vmap(f"{_FUSED}_backward", _differentiate, lib=library)
