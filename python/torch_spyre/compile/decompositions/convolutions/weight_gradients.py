# SPDX-License-Identifier: Apache-2.0
"""Gradients of the weights of convolutions: products of the windows and of what arrives for each.

Windows side by side are rows of a matrix, and so are those of few channels: one product. Else there
is one for every tap, and the cheaper form is taken. *Copies*: what the tap reads, copied.
*Lines*: the padded image is one line of places, in which every tap is a shift by whole sticks, of
channels or of features, and is read where it is; each image has sums of its own, which are added in
float32, and what arrives is 0 at places where no window begins. Of three dims, planes are images,
where these are not so many that their sums cost more than the products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from ..lines import HALVES
from ..pooling import Windows, are_tiles, at_tap, padded, taps
from .window_columns import along
from .window_rows import MOST_ELEMENTS, elements, rows_of

_aten = torch.ops.aten

_FEW_CHANNELS = 8  # of a group: rows of the windows, up to MOST_ELEMENTS of them
_MANY_TAPS = 64  # from so many on as well
_PART_OF_SUM = 64  # products of float32 that are added one after the other

# Prices, in the time of a multiplication and addition within a product.
_PACKED = 10  # an element of a factor
_SUMMED = 130  # an image's part of a result
_MOVED = 60  # a lane that is copied to be another stick's
_MORE_CORES = 1.1  # what more images cost that more cores share
_LANES = 64
_HALF_STICK = 32  # what is multiplied of a stick


def weight_gradient(
    x: torch.Tensor, grad: torch.Tensor, sizes: Sequence[int], w: Windows, groups: int
) -> torch.Tensor:
    """[features, C / groups, ..] of x [N, C, ..] and grad [N, features, windows]."""
    if x.shape[1] == groups > 1 and not are_tiles(w):
        return _of_own_channels(x, grad, w).reshape(sizes)
    if are_tiles(w) or _has_rows(x, w, groups):
        return _of_rows(x, grad, w, groups).reshape(sizes)
    copies = _price_of_copies(x, grad, w, groups)
    # Signals in steps: next to the gradient of the input, what a line per rest saves is lost.
    steps_of_signals = len(w.kernel) == 1 and w.stride[0] > 1
    if groups > 1 or x.dtype not in HALVES or steps_of_signals:
        return _of_copies(x, grad, w, groups).reshape(sizes)
    images, lines = x.shape[0], _price_of_lines(x, grad, w, x.shape[0])
    if len(w.kernel) == 3 and w.stride[0] == 1:
        planes = w.kernel[0] * _price_of_lines(x, grad, _of_plane(w), images * w.counts[0])
        if planes < _MORE_CORES * min(lines, copies):
            return _of_planes(x, grad, w)
    if lines < copies:
        return _of_lines(x, grad, w).reshape(sizes)
    return _of_copies(x, grad, w, groups).reshape(sizes)


def _of_own_channels(x: torch.Tensor, grad: torch.Tensor, w: Windows) -> torch.Tensor:
    """[C, features / C, taps] where each channel has features of its own: its product has few rows
    and one column, and is faster as elements that are multiplied and summed, as many channels at a
    time as a stick holds."""
    arrived = grad.unflatten(1, (x.shape[1], -1)).float()
    wide = padded(x, w, 0.0).unsqueeze(2)
    summed = [0, *range(3, arrived.dim())]
    sums = [(at_tap(wide, w, tap).float() * arrived).sum(summed) for tap in taps(w)]
    return torch.stack(sums, -1).to(x.dtype)


def _has_rows(x: torch.Tensor, w: Windows, groups: int) -> bool:
    """Whether rows cost less than a product for every tap."""
    few = x.shape[1] // groups < _FEW_CHANNELS or math.prod(w.kernel) > _MANY_TAPS
    return few and elements(x, w) <= MOST_ELEMENTS


def _of_rows(x: torch.Tensor, grad: torch.Tensor, w: Windows, groups: int) -> torch.Tensor:
    rows = _features_of(grad, groups)
    parts = x.unflatten(1, (groups, -1)).movedim(1, 0)  # [groups, N, C / groups, ..]
    columns = rows_of(parts.flatten(0, 1), w).reshape(groups, rows.shape[2], -1)
    return _long_product(rows, columns)


def _of_copies(x: torch.Tensor, grad: torch.Tensor, w: Windows, groups: int) -> torch.Tensor:
    rows = _features_of(grad, groups)
    wide = padded(x.unflatten(1, (groups, -1)).movedim(1, 0), w, 0.0).transpose(1, 2)
    at_taps = [at_tap(wide, w, tap).flatten(2).transpose(1, 2) for tap in taps(w)]
    return torch.stack([_long_product(rows, columns) for columns in at_taps], -1)


def _features_of(grad: torch.Tensor, groups: int) -> torch.Tensor:
    """[groups, features / groups, N * windows]"""
    return grad.movedim(1, 0).reshape(groups, grad.shape[1] // groups, -1)


def _long_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """[groups, M, K] by [groups, K, N]. In float32 a long K is summed in parts: a product is one
    chain of additions, of which each rounds."""
    groups, rows, k = x.shape
    if x.dtype is not torch.float32 or k <= _PART_OF_SUM:
        return x @ y
    missing = -k % _PART_OF_SUM
    if missing:
        x = _aten.constant_pad_nd(x, [0, missing])
        y = _aten.constant_pad_nd(y, [0, 0, 0, missing])
    parts = (k + missing) // _PART_OF_SUM
    x = x.reshape(groups, rows, parts, _PART_OF_SUM).transpose(1, 2)
    return (x @ y.reshape(groups, parts, _PART_OF_SUM, -1)).sum(1)


def _price_of_copies(x: torch.Tensor, grad: torch.Tensor, w: Windows, groups: int) -> int:
    channels, features = x.shape[1] // groups, grad.shape[1] // groups
    sticks = math.prod(w.counts[:-1]) * _in_whole(w.counts[-1], _LANES)
    moved = _MOVED * sticks * _in_whole(channels, _LANES)
    product = _price_of_product(features, channels, math.prod(w.counts))
    return (product + moved) * x.shape[0] * groups * math.prod(w.kernel)


def _price_of_lines(x: torch.Tensor, grad: torch.Tensor, w: Windows, images: int) -> int:
    _, _, places = _line_of(w)
    rows, columns = _sides(x.shape[1], grad.shape[1])
    summed = _SUMMED * rows * _in_whole(columns, _HALF_STICK)
    return (_price_of_product(rows, columns, places) + summed) * images * math.prod(w.kernel)


def _price_of_product(rows: int, columns: int, depth: int) -> int:
    columns = _in_whole(columns, _HALF_STICK)
    return depth * (rows * columns + _PACKED * (rows + columns))


def _in_whole(count: int, part: int) -> int:
    return -(-count // part) * part


def _sides(channels: int, features: int) -> tuple[int, int]:
    """Rows and columns: those are columns that leave less of a stick empty."""
    of_channels = features * _in_whole(channels, _HALF_STICK)
    of_features = channels * _in_whole(features, _HALF_STICK)
    return (channels, features) if of_features < of_channels else (features, channels)


def _line_of(w: Windows) -> tuple[list[int], list[int], int]:
    """Places of a padded image along each dim, every stride one of them; from one to the next in
    the line of all; and as many in it as there are from the first window to the last."""
    extents = [
        n + (k - 1) * d // s
        for n, k, d, s in zip(w.counts, w.kernel, w.dilation, w.stride, strict=True)
    ]
    steps = [math.prod(extents[dim + 1 :]) for dim in range(len(extents))]
    return extents, steps, 1 + sum((n - 1) * s for n, s in zip(w.counts, steps, strict=True))


def _of_lines(x: torch.Tensor, grad: torch.Tensor, w: Windows) -> torch.Tensor:
    """[features, C, taps]"""
    extents, steps, count = _line_of(w)
    behind = [extent - n for extent, n in zip(extents, w.counts, strict=True)]
    around = [more for size in reversed(behind) for more in (0, size)]
    grad = _aten.constant_pad_nd(grad, around) if any(around) else grad
    lines = _lines_of(x, w, extents)
    products = dict[tuple[int, ...], Callable[[int], torch.Tensor]]()
    sums = list[torch.Tensor]()
    for tap in taps(w):
        pairs = [divmod(t * d, s) for t, d, s in zip(tap, w.dilation, w.stride, strict=True)]
        rest = tuple(r for (_, r), s in zip(pairs, w.stride, strict=True) if s > 1)
        if rest not in products:
            products[rest] = _product_of_lines(grad.flatten(2)[..., :count], lines[rest])
        shift = sum(turn * step for (turn, _), step in zip(pairs, steps, strict=True))
        sums.append(products[rest](shift).sum(0))
    return torch.stack(sums, -1).to(x.dtype)


def _lines_of(x: torch.Tensor, w: Windows, extents: Sequence[int]) -> torch.Tensor:
    """[rests by strides beyond 1.., N, C, places]"""
    wide = padded(x, w, 0.0)
    rests = list[int]()
    for dim, (extent, s) in reversed(list(enumerate(zip(extents, w.stride, strict=True), 2))):
        size = extent * s  # without what no window reads
        wide = wide if wide.shape[dim] == size else wide.narrow(dim, 0, size)
        if s > 1:
            wide = wide.unflatten(dim, (extent, s))
            rests = [dim + 1, *(rest + 1 for rest in rests)]
    others = [dim for dim in range(wide.dim()) if dim not in rests]
    lines = wide.permute(*rests, *others).contiguous() if rests else wide
    lines = lines.flatten(len(rests) + 2)
    if rests or not any(w.padding):  # products read whole sticks: more than there is
        lines = _aten.constant_pad_nd(lines, [0, _LANES])
    return lines


def _of_plane(w: Windows) -> Windows:
    return Windows(*(numbers[1:] for numbers in w))


def _of_planes(x: torch.Tensor, grad: torch.Tensor, w: Windows) -> torch.Tensor:
    """[features, C, ..]: of every tap along the first dim, that of images with a dim less."""
    first, inner = along(w, [0], w.sizes), _of_plane(w)
    sizes = [grad.shape[1], x.shape[1], *inner.kernel]
    wide, arrived = padded(x, first, 0.0), grad.movedim(2, 1).flatten(0, 1)
    planes = [at_tap(wide, first, (tap, 0, 0)) for tap in range(w.kernel[0])]
    images = [plane.movedim(2, 1).flatten(0, 1) for plane in planes]
    return torch.stack([weight_gradient(one, arrived, sizes, inner, 1) for one in images], 2)


def _product_of_lines(arrived: torch.Tensor, line: torch.Tensor) -> Callable[[int], torch.Tensor]:
    """Of what arrived, [N, features, windows], and a line, [N, C, length], from a place on: [N,
    features, C] in float32. What moves by the tap has its sticks along the columns."""
    features, count = arrived.shape[1:]
    channels, length = line.shape[1:]
    if _sides(channels, features) == (features, channels):
        rows, places = arrived.float(), line.transpose(1, 2)
        return lambda shift: rows @ places.narrow(1, shift, count).float()
    most = length - count
    around = _aten.constant_pad_nd(arrived.transpose(1, 2), [0, 0, most, most])
    rows = line.float()
    return lambda shift: (rows @ around.narrow(1, most - shift, length).float()).transpose(1, 2)
