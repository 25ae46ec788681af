# SPDX-License-Identifier: Apache-2.0
"""Convolutions as products: the card has no opfunc for them.

The windows of the input become rows of a matrix, which the weight as a matrix multiplies. Windows
that neither overlap nor leave gaps (patches of images, 1 x 1) are views; others are gathered by
aten.im2col, eagerly on the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .registered import NOT_TAKEN, NotTaken, spyre_decompositions

_aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)  # what the card multiplies


def _rows(
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> torch.Tensor:
    """[N, C, H, W] -> [N, windows, C * elements of the kernel]"""
    tiles = stride == kernel and not any(padding) and (dilation == [1, 1] or kernel == [1, 1])
    if not tiles:
        columns: torch.Tensor = _aten.im2col(x, kernel, dilation, padding, stride)
        return columns.transpose(1, 2)
    batch, channels, *sizes = x.shape
    (down, right), (height, width) = [s // k for s, k in zip(sizes, kernel, strict=True)], kernel
    x = x[:, :, : down * height, : right * width].contiguous()
    x = x.reshape(batch, channels, down, height, right, width).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(batch, down * right, channels * height * width)


def _windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """The windows along each dim."""
    return [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]


def _has_channels_last(x: torch.Tensor) -> bool:
    """What PyTorch takes for channels_last where the strides do not tell: no."""
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_flags: bool,
) -> torch.Tensor | NotTaken:
    """aten.convolution of [N, C, H, W] or [N, C, L] in 16 bits; NotImplemented for others."""
    # One number stands for all dims, as padding="valid" gives it.
    stride, padding, dilation = (
        list(sizes) * (x.dim() - 2 if len(sizes) == 1 else 1)
        for sizes in (stride, padding, dilation)
    )
    if transposed or x.dim() not in (3, 4) or x.dtype not in HALVES or weight.dtype != x.dtype:
        return NOT_TAKEN
    if x.dim() == 3:
        result = _convolution_2d(
            x.unsqueeze(2), weight.unsqueeze(2), bias, [1, *stride], [0, *padding], [1, *dilation],
            groups,
        )  # fmt: skip
        return result.squeeze(2)
    return _convolution_2d(x, weight, bias, stride, padding, dilation, groups)


def _convolution_2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """[N, C, H, W] by [features, C / groups, height, width]."""
    batch, channels, *sizes = x.shape
    features, _depth, *kernel = weight.shape
    rows = _rows(x, kernel, stride, padding, dilation)
    if groups == 1:
        product = torch.nn.functional.linear(rows, weight.reshape(features, -1), bias)
    else:
        rows = rows.reshape(batch, rows.shape[1], groups, -1).transpose(1, 2)
        matrices = weight.reshape(groups, features // groups, -1).transpose(1, 2)
        product = (rows @ matrices).transpose(1, 2).reshape(batch, rows.shape[2], features)
        product = product if bias is None else product + bias
    windows = _windows(sizes, kernel, stride, padding, dilation)
    if _has_channels_last(x) or _has_channels_last(weight):
        return product.reshape(batch, *windows, features).permute(0, 3, 1, 2)
    return product.transpose(1, 2).contiguous().view(batch, features, *windows)


spyre_decompositions[_aten.convolution.default] = convolution
