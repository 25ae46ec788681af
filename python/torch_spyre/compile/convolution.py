# SPDX-License-Identifier: Apache-2.0
"""Convolutions as products: the card has no opfunc for them.

The windows of the input become rows of a matrix, which the weight as a matrix multiplies. Windows
that neither overlap nor leave gaps (patches of images, 1 x 1) are views; others are gathered by
aten.im2col. A third dim's windows become channels; a transposed convolution is one over its input
with zeros between the elements, by the weight turned around.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .parts.lines import computed
from .parts.pooling import at_tap, padded, taps, windows_of
from .registered import NOT_TAKEN, NotTaken, spyre_decompositions

_aten = torch.ops.aten


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
        return _gathered(x, kernel, stride, padding, dilation)
    batch, channels, *sizes = x.shape
    (down, right), (height, width) = [s // k for s, k in zip(sizes, kernel, strict=True)], kernel
    x = x[:, :, : down * height, : right * width].contiguous()
    x = x.reshape(batch, channels, down, height, right, width).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(batch, down * right, channels * height * width)


def _gathered(
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> torch.Tensor:
    """The same of windows that overlap: lines, then columns, by their numbers."""
    batch, channels, *sizes = x.shape
    counts = _windows(sizes, kernel, stride, padding, dilation)
    (above, left), (height, width), (down, right) = padding, kernel, counts
    if above or left:
        x = _aten.constant_pad_nd(x, [left, left, above, above])
    for dim, (k, s, d, count) in enumerate(zip(kernel, stride, dilation, counts, strict=True)):
        taps = torch.arange(k, device=x.device) * d
        index = taps.unsqueeze(1) + torch.arange(count, device=x.device) * s
        x = x.index_select(dim + 2, index.reshape(-1))
    x = x.reshape(batch, channels, height, down, width, right).permute(0, 3, 5, 1, 2, 4)
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
    """aten.convolution of [N, C, D, H, W], [N, C, H, W] or [N, C, L]; NotImplemented for
    others."""
    # One number stands for all dims, as padding="valid" gives it.
    stride, padding, dilation, output_padding = (
        list(sizes) * (x.dim() - 2 if len(sizes) == 1 else 1)
        for sizes in (stride, padding, dilation, output_padding)
    )
    if x.dim() not in (3, 4, 5) or x.dtype not in computed() or weight.dtype != x.dtype:
        return NOT_TAKEN
    if not transposed:
        return _forward(x, weight, bias, stride, padding, dilation, groups)
    kernel = weight.shape[2:]
    for dim, step in enumerate(stride):
        x = _spread(x, dim + 2, step)
    around = list[int]()
    for k, d, p, more in reversed(
        list(zip(kernel, dilation, padding, output_padding, strict=True))
    ):
        around += [d * (k - 1) - p, d * (k - 1) - p + more]
    ones, none = [1] * len(kernel), [0] * len(kernel)
    x = _aten.constant_pad_nd(x, around) if any(around) else x
    return _forward(x, _turned(weight, groups), bias, ones, none, dilation, groups)


def _spread(x: torch.Tensor, dim: int, step: int) -> torch.Tensor:
    """With step - 1 zeros between the elements of a dim."""
    size = x.shape[dim]
    if step == 1 or size == 1:
        return x
    zero = x.new_zeros([1 if i == dim else n for i, n in enumerate(x.shape)])
    places = torch.arange((size - 1) * step + 1, device=x.device)
    index = torch.where(places % step == 0, places // step, size)
    return torch.cat([x, zero], dim).index_select(dim, index)


def _turned(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """[C, features / groups, ..] -> [features, C / groups, ..], the kernel back to front."""
    channels, features, *kernel = weight.shape
    weight = weight.flip(list(range(2, weight.dim())))
    weight = weight.reshape(groups, channels // groups, features, *kernel).transpose(1, 2)
    return weight.reshape(groups * features, channels // groups, *kernel)


def _forward(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    if x.dim() == 3:
        result = _convolution_2d(
            x.unsqueeze(2), weight.unsqueeze(2), bias, [1, *stride], [0, *padding], [1, *dilation],
            groups,
        )  # fmt: skip
        return result.squeeze(2)
    if x.dim() == 4:
        return _convolution_2d(x, weight, bias, stride, padding, dilation, groups)
    return _convolution_3d(x, weight, bias, stride, padding, dilation, groups)


def _convolution_3d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """[N, C, D, H, W] by [features, C / groups, depth, height, width]: images of each window of the
    first dim, whose planes are channels."""
    batch, channels, _size, *sizes = x.shape
    features, inner, depth, *kernel = weight.shape
    if batch > 1:  # with images of several ones the gathers have more dims than a step of the card
        parts = [x[n : n + 1] for n in range(batch)]
        return torch.cat(
            [_convolution_3d(x, weight, bias, stride, padding, dilation, groups) for x in parts]
        )
    step, spread = stride[0], dilation[0]
    (windows,) = _windows(x.shape[2:3], [depth], stride[:1], padding[:1], dilation[:1])
    # As turns of `step` planes: windows begin with each turn.
    turns = windows + (depth - 1) * spread // step
    behind = turns * step - x.shape[2] - padding[0]
    x = _aten.constant_pad_nd(x, [0, 0, 0, 0, padding[0], behind])
    x = x.reshape(batch, channels, turns, step, *sizes)
    starts = [divmod(k * spread, step) for k in range(depth)]
    planes = [x[:, :, turn : turn + windows, place] for turn, place in starts]
    images = torch.stack(planes, 2).permute(0, 3, 1, 2, 4, 5)
    images = images.reshape(batch * windows, channels * depth, *sizes)
    matrices = weight.reshape(features, inner * depth, *kernel)
    result = _convolution_2d(
        images, matrices, bias, stride[1:], padding[1:], dilation[1:], groups
    )  # fmt: skip
    return result.reshape(batch, windows, *result.shape[1:]).transpose(1, 2).contiguous()


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


def convolution_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...] | NotTaken:
    """Gradients of input, weight and bias. That of the input is the other convolution,
    transposed or not, of what arrives; that of the weight a product of it with the windows."""
    rank = x.dim() - 2
    stride, padding, dilation, output_padding = (
        list(sizes) * (rank if len(sizes) == 1 else 1)
        for sizes in (stride, padding, dilation, output_padding)
    )
    if rank not in (1, 2, 3) or {x.dtype, weight.dtype, grad.dtype} - set(computed()):
        return NOT_TAKEN
    if x.numel() == 0 or grad.numel() == 0 or len({x.dtype, weight.dtype, grad.dtype}) > 1:
        return NOT_TAKEN
    to_input: torch.Tensor | None = None
    if wanted[0]:
        behind = [
            size - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
            for size, n, k, s, p, d in zip(
                x.shape[2:], grad.shape[2:], weight.shape[2:], stride, padding, dilation,
                strict=True,
            )
        ]  # fmt: skip
        other = convolution(
            grad, weight, None, stride, padding, dilation, not transposed,
            [0] * rank if transposed else behind, groups,
        )  # fmt: skip
        if not isinstance(other, torch.Tensor):
            return NOT_TAKEN
        to_input = other
    to_weight = None
    if wanted[1]:
        pair = (grad, x) if transposed else (x, grad)
        to_weight = _weight_gradient(*pair, weight.shape, stride, padding, dilation, groups)
    to_bias = grad.sum([0, *range(2, grad.dim())]) if wanted[2] else None
    return to_input, to_weight, to_bias


def _weight_gradient(
    x: torch.Tensor,
    grad: torch.Tensor,
    sizes: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """[features, C / groups, ..] of x [N, C, ..] and grad [N, features, windows]."""
    batch, channels = x.shape[:2]
    features = grad.shape[1]
    w = windows_of(x.shape[2:], sizes[2:], stride, padding, dilation)
    w = w._replace(counts=list(grad.shape[2:]))
    wide = padded(x, w, 0.0)
    rows = grad.movedim(1, 0).reshape(groups, features // groups, -1)
    products = []
    for tap in taps(w):
        view = at_tap(wide, w, tap).movedim(1, 0)
        columns = view.reshape(groups, channels // groups, -1).transpose(1, 2)
        products.append(rows @ columns)
    stacked = torch.stack(products, -1)
    return stacked.reshape(sizes[0], *sizes[1:])


spyre_decompositions[_aten.convolution_backward.default] = convolution_backward
