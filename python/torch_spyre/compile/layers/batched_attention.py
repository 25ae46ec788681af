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
_OF_ROWS = 2  # results that have the batch: attention and its log-sum-exp
_OF_BATCH = (0, 1, 2, 3, 6, 7)  # operands of the gradient that do: grad, query, key, value, these

Tensors = tuple[Any, ...]


def _joined(
    x: torch.Tensor | None, dim: int | None, samples: int, lacking: int
) -> torch.Tensor | None:
    """[samples * batch, ..] with the dims that are lacking; of samples that share it, copies."""
    if x is None or (x.numel() == 0 and dim is None):
        return x
    x = x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
    sizes = (*(1,) * lacking, *x.shape[1:])
    return x.reshape(x.shape[0], *sizes).expand(samples, *sizes).flatten(0, 1)


def _joined_mask(
    mask: torch.Tensor | None, dim: int | None, samples: int, batch: int
) -> torch.Tensor | None:
    """The same of what is broadcast to [batch, heads, length, length]."""
    if mask is None or (mask.numel() == 0 and dim is None):
        return mask
    mask = mask.unsqueeze(0) if dim is None else mask.movedim(dim, 0)
    mask = mask.reshape(mask.shape[0], *(1,) * (_RANK + 1 - mask.dim()), *mask.shape[1:])
    return mask.expand(samples, batch, *mask.shape[2:]).flatten(0, 1)


def _parted(
    results: Sequence[Any], count: int, samples: int, lacking: int
) -> tuple[Tensors, Tensors]:
    """[samples, batch, ..] again, of the first results that have elements, without the dims that
    were lacking; and the dims that vmap goes over."""
    whole = [n < count and x is not None and x.numel() > 0 for n, x in enumerate(results)]

    def parted_of(x: torch.Tensor) -> torch.Tensor:
        sizes = x.unflatten(0, (samples, -1)).shape
        return x.reshape(samples, *sizes[1 + lacking :])

    parted = tuple(parted_of(x) if own else x for x, own in zip(results, whole, strict=True))
    return parted, tuple(0 if own else None for own in whole)


def _batch_of(query: torch.Tensor, dim: int | None) -> tuple[int, int]:
    """How many a sample has, and how many dims it lacks of four."""
    sizes = query.shape if dim is None else query.movedim(dim, 0).shape[1:]
    return sizes[0] if len(sizes) == _RANK else 1, _RANK - len(sizes)


def _attend(info: Any, dims: Sequence[int | None], *given: Any, **options: Any) -> Any:
    """`given`: query, key, value and whatever the caller says of the mask and what follows it."""
    samples = info.batch_size
    batch, lacking = _batch_of(given[0], dims[0])
    joined = [_joined(x, d, samples, lacking) for x, d in zip(given[:3], dims[:3], strict=True)]
    rest = list(given[3:])
    if rest:
        rest[0] = _joined_mask(rest[0], dims[3], samples, batch)
    op = _aten._scaled_dot_product_fused_attention_overrideable.default
    return _parted(op(*joined, *rest, **options), _OF_ROWS, samples, lacking)


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
    batch, lacking = _batch_of(given[1], dims[1])
    joined = list(given)
    for n in _OF_BATCH:
        joined[n] = _joined(given[n], dims[n], samples, lacking)
    joined[4] = _joined_mask(mask, dims[4], samples, batch)
    op = _aten._scaled_dot_product_fused_attention_overrideable_backward.default
    *gradients, of_mask = op(*joined, **options)
    parted, places = _parted(gradients, len(gradients), samples, lacking)
    if not wanted[3]:
        return (*parted, of_mask), (*places, None)
    return (*parted, _gradient_of_mask(of_mask, mask, dims[4], samples)), (*places, 0)


def register(library: torch.library.Library) -> None:
    torch.library.register_vmap(_FUSED, _attend, lib=library)
    torch.library.register_vmap(f"{_FUSED}_backward", _differentiate, lib=library)
