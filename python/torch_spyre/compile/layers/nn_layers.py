# SPDX-License-Identifier: Apache-2.0
"""Operators behind layers of torch.nn that PyTorch keeps whole, out of those that the card has.

A function that returns NOT_TAKEN (NotImplemented) leaves its arguments to the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from ...registry import register_spyre_decomposition
from ..decompositions.embedding_bags import add_rows
from ..decompositions.lines import FLOATS, MOST_COUNTED
from ..register_decomposition import NOT_TAKEN, NotTaken, part

_aten = torch.ops.aten

Normed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # result, mean, 1 / standard deviation


def _of_channels(vector: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A vector of channels, broadcasting over x [N, C, ...]."""
    return vector.to(x.dtype).reshape(1, -1, *[1] * (x.dim() - 2))


def _affine(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> torch.Tensor:
    x = x if weight is None else x * _of_channels(weight, x)
    return x if bias is None else x + _of_channels(bias, x)


class _Moments(NamedTuple):
    mean: torch.Tensor  # float32, of channels
    variance: torch.Tensor  # biased
    elements: int  # of a channel


def _has_moments(x: torch.Tensor) -> bool:
    """Of channels of less than two elements the variance has no bias."""
    return x.dtype in FLOATS and x.dim() >= 2 and x.numel() >= 2 * x.shape[1]


def _moments_of_channels(x: torch.Tensor) -> _Moments | NotTaken:
    """Of x [N, C, ...]."""
    if not _has_moments(x):
        return NOT_TAKEN
    dims = [0, *range(2, x.dim())]
    variance, mean = torch.var_mean(x.float(), dims, correction=0)
    return _Moments(mean, variance, x.numel() // x.shape[1])


def _normed_by(
    x: torch.Tensor,
    moments: _Moments,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> Normed:
    wide = x.float()
    scale = (moments.variance + eps).rsqrt()
    factor = scale if weight is None else scale * weight.float()
    result = (wide - _of_channels(moments.mean, wide)) * _of_channels(factor, wide)
    return _affine(result, None, bias).to(x.dtype), moments.mean, scale


@register_spyre_decomposition(_aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    _momentum: float,
    eps: float,
) -> Normed | NotTaken:
    if x.dtype not in FLOATS:  # the host's are in float64
        return NOT_TAKEN
    moments = _Moments(mean.float(), variance.float(), 0)
    result, _, _ = _normed_by(x, moments, weight, bias, eps)
    return result, x.new_empty(0), x.new_empty(0)


@register_spyre_decomposition(_aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...] | NotTaken:
    """Last the statistics that take the place of `mean` and `variance`."""
    if not training:
        normed = batch_norm_inference(x, weight, bias, mean, variance, momentum, eps)
        return (*normed, mean, variance) if isinstance(normed, tuple) else normed
    moments = _moments_of_channels(x)
    if not isinstance(moments, _Moments) or mean.shape != moments.mean.shape:
        return NOT_TAKEN
    unbiased = moments.variance * (moments.elements / (moments.elements - 1))
    new_mean = moments.mean * momentum + mean.float() * (1 - momentum)
    new_variance = unbiased * momentum + variance.float() * (1 - momentum)
    return (
        *_normed_by(x, moments, weight, bias, eps),
        new_mean.to(mean.dtype),
        new_variance.to(variance.dtype),
    )


@register_spyre_decomposition(_aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...] | NotTaken:
    """The same in training, with nothing reserved for the backward function."""
    made = batch_norm_functional(x, weight, bias, mean, variance, True, momentum, eps)
    if not isinstance(made, tuple):
        return NOT_TAKEN
    return (*made[:3], x.new_empty(0, dtype=torch.uint8), *made[3:])


@register_spyre_decomposition(_aten.batch_norm_backward.default)
def batch_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, *more: Any
) -> tuple[torch.Tensor, ...]:
    """Of what the function above has kept."""
    gradients: tuple[torch.Tensor, ...] = _aten.native_batch_norm_backward(
        grad, x, weight, *more[:-1]
    )
    return gradients


@register_spyre_decomposition(_aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    training: bool,
    _momentum: float,
    eps: float,
) -> Normed | NotTaken:
    """instance_norm calls it with one batch and all instances as channels."""
    if not training:
        return NOT_TAKEN
    if x.shape[0] != 1:
        moments = _moments_of_channels(x)
        if not isinstance(moments, _Moments):
            return NOT_TAKEN
        return _normed_by(x, moments, weight, bias, eps)
    places = math.prod(x.shape[2:])
    normed = group_norm(x, weight, bias, 1, x.shape[1], places, x.shape[1], eps)
    if not isinstance(normed, tuple):
        return NOT_TAKEN
    result, mean, scale = normed
    return result, mean[0], scale[0]


@register_spyre_decomposition(_aten.native_batch_norm.default)
def batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Normed | NotTaken:
    if mean is None or variance is None:
        return batch_norm_without_statistics(x, weight, bias, training, momentum, eps)
    if not training:
        return batch_norm_inference(x, weight, bias, mean, variance, momentum, eps)
    if not _has_moments(x) or mean.shape != x.shape[1:2]:
        return NOT_TAKEN
    # An operator of its own, of which an eager call has one program.
    result, kept, scale, new_mean, new_variance = _aten._native_batch_norm_legit_functional(
        x, weight, bias, mean, variance, training, momentum, eps
    )
    mean.copy_(new_mean)
    variance.copy_(new_variance)
    return result, kept, scale


@register_spyre_decomposition(_aten.embedding_dense_backward.default)
def embedding_dense_backward(
    grad: torch.Tensor, indices: torch.Tensor, rows: int, padding: int, by_frequency: bool
) -> torch.Tensor | NotTaken:
    if not grad.is_floating_point() or indices.numel() == 0:
        return NOT_TAKEN
    zeros, width = grad.new_zeros(rows, grad.shape[-1]), grad.shape[-1]
    added = add_rows(zeros, indices.reshape(-1), grad.reshape(-1, width), padding, by_frequency)
    return NOT_TAKEN if added is None else added


@part(_aten._trilinear.default)
def trilinear(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    new_a: Sequence[int],
    new_b: Sequence[int],
    new_c: Sequence[int],
    summed: Sequence[int],
    unrolled: int = 1,
) -> torch.Tensor | NotTaken:
    """The sum of products, rounded once; `new_` are dims that the others have."""
    wide = []
    for x, dims in ((a, new_a), (b, new_b), (c, new_c)):
        for dim in sorted(dims):
            x = x.unsqueeze(dim)
        wide.append(x)
    sizes = torch.broadcast_shapes(*[x.shape for x in wide])
    if {x.dtype for x in wide} - set(FLOATS) or not 0 < math.prod(sizes) <= MOST_COUNTED:
        return NOT_TAKEN
    product = wide[0].float() * wide[1].float() * wide[2].float()
    return product.sum(list(summed)).to(a.dtype) if summed else product.to(a.dtype)


@register_spyre_decomposition(_aten.native_group_norm.default)
def group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    places: int,
    groups: int,
    eps: float,
) -> Normed | NotTaken:
    if not x.is_floating_point():
        return NOT_TAKEN
    rows = x.reshape(batch, groups, channels // groups * places)
    result, mean, scale = torch.native_layer_norm(rows, rows.shape[-1:], None, None, eps)
    result = _affine(result.reshape(x.shape), weight, bias)
    return result, mean.reshape(batch, groups), scale.reshape(batch, groups)


@register_spyre_decomposition(_aten.native_group_norm_backward.default)
def group_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor | None,
    batch: int,
    channels: int,
    places: int,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...] | NotTaken:
    """In float32. With n = (x - mean) scale and h = grad weight, x gets (h - mean of h - n mean of
    h n) scale, where means are of a group: a multiple of grad, one of x and a number, which are
    made of sums of each channel."""
    if x.dtype not in FLOATS or x.dim() < 2 or x.numel() == 0:
        return NOT_TAKEN
    elements = channels // groups * places
    wide_grad, wide = grad.float(), x.float()
    sums, products = wide_grad, wide_grad * wide
    if x.dim() > 2:
        of_place = list(range(2, x.dim()))
        sums, products = sums.sum(of_place), products.sum(of_place)

    def in_groups(of_channels: torch.Tensor) -> torch.Tensor:
        return of_channels.reshape(-1, groups, channels // groups)

    def of_channels(in_groups: torch.Tensor) -> torch.Tensor:
        by_channel = in_groups.expand(batch, groups, channels // groups)
        return by_channel.reshape(batch, channels, *[1] * (x.dim() - 2))

    centre, steep = mean.float().unsqueeze(2), scale.float().unsqueeze(2)
    sums = in_groups(sums)
    normed = (in_groups(products) - sums * centre) * steep
    of_x = None
    if wanted[0]:
        factor = None if weight is None else in_groups(weight.float())
        first, second = (sums, normed) if factor is None else (sums * factor, normed * factor)
        first = first.sum(2, keepdim=True) * steep * (-1 / elements)
        second = second.sum(2, keepdim=True) * steep * steep * (-1 / elements)
        of_grad = steep if factor is None else steep * factor
        number = of_channels(first - second * centre)
        of_x = wide_grad * of_channels(of_grad) + wide * of_channels(second) + number
        of_x = of_x.to(x.dtype)
    of_weight, of_bias = [each.sum(0).reshape(channels).to(x.dtype) for each in (normed, sums)]
    return of_x, of_weight if wanted[1] else None, of_bias if wanted[2] else None


@register_spyre_decomposition(_aten.log_sigmoid_forward.default)
def log_sigmoid(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    if not x.is_floating_point():
        return NOT_TAKEN
    return -F.softplus(-x), x.new_empty(0)
