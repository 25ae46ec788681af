# SPDX-License-Identifier: Apache-2.0
"""Indices of equal elements: of a tie any element may be chosen."""

from __future__ import annotations

import torch

from .samples import Sample


def same_elements(sample: Sample, actual, expected) -> bool:
    """Whether index results select equal elements of the first tensor along one of its dims.

    Indices as long as the dim (of a sort) must be a permutation."""
    tensors = sample.tensors()
    if not tensors or not _are_indices(actual) or not _are_indices(expected):
        return False
    source = tensors[0].detach()
    actual = actual.cpu()
    if source.dim() == 0 or source.layout != torch.strided or actual.shape != expected.shape:
        return False
    flat = source.flatten()  # argmax without a dim
    if expected.dim() == 0 and source.dim() > 1:
        return _selects_same(flat, 0, actual[None], expected[None])
    return any(_along(source, dim, actual, expected) for dim in range(source.dim()))


def _are_indices(value) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.int64 and value.numel() > 0


def _along(source, dim, actual, expected) -> bool:
    if actual.dim() == source.dim() - 1:
        actual, expected = actual.unsqueeze(dim), expected.unsqueeze(dim)
    if actual.dim() != source.dim():
        return False
    if any(a > b for a, b in zip(actual.shape, source.shape, strict=True)):
        return False
    return _selects_same(source, dim, actual, expected)


def _selects_same(source, dim, actual, expected) -> bool:
    count = source.shape[dim]
    for indices in (actual, expected):
        if not bool(((indices >= 0) & (indices < count)).all()):
            return False
    if actual.shape[dim] == count and count > 1:
        every = torch.arange(count).expand(actual.transpose(dim, -1).shape).transpose(dim, -1)
        if not torch.equal(actual.sort(dim).values, every):
            return False
    return torch.equal(source.gather(dim, actual), source.gather(dim, expected))


def moved_between_equals(sample: Sample, actual, expected) -> bool:
    """Whether a gradient of the first tensor has the elements of the expected one, and others only
    where the tensor's own elements are equal to some other."""
    source = sample.tensors()[0].detach().flatten()
    actual, expected = actual.detach().cpu().flatten(), expected.detach().flatten()
    if actual.shape != expected.shape or actual.shape != source.shape:
        return False
    if not torch.equal(actual.sort().values, expected.sort().values):
        return False
    _values, inverse, counts = source.unique(return_inverse=True, return_counts=True)
    return bool((counts[inverse][actual != expected] > 1).all())
