# SPDX-License-Identifier: Apache-2.0
"""Operators behind layers of torch.nn that PyTorch keeps whole, out of those that the card has.

A function that returns NotImplemented leaves its arguments to the host.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from ..registry import register_spyre_decomposition

_aten = torch.ops.aten


def _of_channels(vector, x):
    """A vector of channels, broadcasting over x [N, C, ...]."""
    return vector.to(x.dtype).reshape(1, -1, *[1] * (x.dim() - 2))


def _affine(x, weight, bias):
    x = x if weight is None else x * _of_channels(weight, x)
    return x if bias is None else x + _of_channels(bias, x)


@register_spyre_decomposition(_aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(x, weight, bias, mean, variance, _momentum, eps):
    if not x.is_floating_point():
        return NotImplemented
    scale = (variance + eps).rsqrt()
    result = _affine((x - _of_channels(mean, x)) * _of_channels(scale, x), weight, bias)
    return result, x.new_empty(0), x.new_empty(0)


@register_spyre_decomposition(_aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(x, weight, bias, training, _momentum, eps):
    """What instance_norm calls, with one batch and all instances as channels."""
    if not training or x.shape[0] != 1 or not x.is_floating_point():
        return NotImplemented
    places = math.prod(x.shape[2:])
    result, mean, scale = group_norm(x, weight, bias, 1, x.shape[1], places, x.shape[1], eps)
    return result, mean[0], scale[0]


@register_spyre_decomposition(_aten.native_batch_norm.default)
def batch_norm(x, weight, bias, mean, variance, training, momentum, eps):
    if mean is None:
        return batch_norm_without_statistics(x, weight, bias, training, momentum, eps)
    if training:
        return NotImplemented
    return batch_norm_inference(x, weight, bias, mean, variance, momentum, eps)


@register_spyre_decomposition(_aten.native_group_norm.default)
def group_norm(x, weight, bias, batch, channels, places, groups, eps):
    if not x.is_floating_point():
        return NotImplemented
    rows = x.reshape(batch, groups, channels // groups * places)
    result, mean, scale = torch.native_layer_norm(rows, rows.shape[-1:], None, None, eps)
    result = _affine(result.reshape(x.shape), weight, bias)
    return result, mean.reshape(batch, groups), scale.reshape(batch, groups)


@register_spyre_decomposition(_aten.log_sigmoid_forward.default)
def log_sigmoid(x):
    if not x.is_floating_point():
        return NotImplemented
    return -F.softplus(-x), x.new_empty(0)


@register_spyre_decomposition(_aten.avg_pool2d.default)
def avg_pool2d(x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
               divisor=None):  # fmt: skip
    """Means of windows, which may overlap; without padding."""
    edges = padding if isinstance(padding, (list, tuple)) else [padding]
    if any(edges) or ceil_mode or divisor is not None or not x.is_floating_point():
        return NotImplemented
    (height, width), (down, right) = (_pair(kernel), _pair(stride or kernel))
    means = x.unfold(-2, height, down).unfold(-2, width, right).mean((-2, -1))
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return means if x.is_contiguous() else means.contiguous(memory_format=torch.channels_last)
    return means


def _pair(value) -> tuple[int, int]:
    return (value[0], value[-1]) if isinstance(value, (list, tuple)) else (value, value)
