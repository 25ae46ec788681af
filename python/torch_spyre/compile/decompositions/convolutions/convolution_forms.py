# SPDX-License-Identifier: Apache-2.0
"""Convolutions that the compiler makes of others: it knows those of one to three dims.

Of images of few channels, windows are columns of matrices, or what they hold along a dim becomes
channels; windows side by side are rows of a matrix. Of few features, they sum up what one product
with the image makes. One of three dims is one for every image and group; a transposed convolution
whose windows overlap is one for each combination of rests of its result's places by the strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ...._pytorch.dispatch import check_convolution
from ...register_decomposition import NOT_TAKEN, NotTaken
from ...registered import spyre_decompositions
from ..lines import computed
from ..pooling import (
    Windows,
    are_tiles,
    at_tap,
    in_turn,
    leave_rest,
    lie_side_by_side,
    padded,
    taps,
    windows_of,
)
from .blocks_of_rows import blocks_for, in_blocks, is_of_few_channels, one_feature_a_channel
from .few_features import is_of_few_features, of_few_features
from .weight_gradients import weight_gradient
from .window_columns import is_of_columns, of_columns
from .window_rows import MOST_COPIES, image_of, rows_of

_aten = torch.ops.aten

# Fewer leave most of a stick empty at every tap of a window: there the taps along a dim become
# channels, or, where they are too many to be copied one by one, the windows rows of a matrix.
_FEW_CHANNELS = 8
_MOST_PHASES = 16  # convolutions that a transposed one becomes


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
    """Transposed ones, and several [C, D, H, W] or groups of them; NotImplemented for what the
    compiler knows, and for others."""
    # One number stands for all dims, as padding="valid" gives it; another one is another program.
    stride, padding, dilation, output_padding = (
        [int(size) for size in sizes] * (x.dim() - 2 if len(sizes) == 1 else 1)
        for sizes in (stride, padding, dilation, output_padding)
    )
    check_convolution(
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    if x.dim() not in (3, 4, 5) or x.dtype not in computed() or weight.dtype != x.dtype:
        return NOT_TAKEN
    w = windows_of(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    turns = max(stride) > 1 or any([*padding, *output_padding])
    if not transposed or (_is_points(x, w, groups) and not turns):
        return _windowed(_Windowed(x, weight, bias, w, groups))
    w = _windows_of_result(x, weight, stride, padding, dilation, output_padding)
    return _transposed(_Windowed(x, weight, bias, w, groups), output_padding)


class _Windowed(NamedTuple):
    """[N, C, ..] by [features, C / groups, ..] in windows; transposed, those of the result."""

    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    w: Windows
    groups: int

    @property
    def has_few_channels(self) -> bool:
        return self.x.shape[1] < _FEW_CHANNELS

    @property
    def is_by_channel(self) -> bool:
        """Whether each channel stands by itself, in at most two dims."""
        return self.groups == self.x.shape[1] and self.x.dim() < 5

    @property
    def is_whole(self) -> bool:
        """Whether windows of several elements are of all channels."""
        return self.groups == 1 and max(self.weight.shape[2:]) > 1

    @property
    def is_of_columns(self) -> bool:
        return is_of_columns(self.x, self.weight, self.w, self.groups)


def _is_points(x: torch.Tensor, w: Windows, groups: int) -> bool:
    return groups == x.shape[1] > 1 and max(w.kernel) == 1


def _is_of_blocks(c: _Windowed) -> bool:
    """Several features of one channel share columns, but no blocks."""
    shared = c.groups == 1 and c.weight.shape[0] > 1 and c.is_of_columns
    return c.is_by_channel and not shared and is_of_few_channels(c.x, c.weight, c.w, c.groups)


def _is_of_whole_columns(c: _Windowed) -> bool:
    in_place = c.x.dim() == 5 and _is_known(c.x, c.groups)  # copies of three dims are many
    return c.is_whole and c.is_of_columns and (c.has_few_channels or not in_place)


def _is_of_rows(c: _Windowed) -> bool:
    return c.is_whole and are_tiles(c.w) and (c.has_few_channels or leave_rest(c.w))


class _Form(NamedTuple):
    """What a convolution is made of where it fits."""

    fits: Callable[[_Windowed], bool]
    make: Callable[[_Windowed], torch.Tensor | NotTaken]


# The first that fits is taken.
_FORMS = (
    _Form(
        lambda c: _is_points(c.x, c.w, c.groups),
        lambda c: _of_points(c.x, c.weight, c.bias, c.w),
    ),
    _Form(
        lambda c: (
            c.is_by_channel
            and max(c.w.kernel) > 1
            and c.weight.shape[0] == c.groups
            and lie_side_by_side(c.w)
        ),
        lambda c: _of_tiles(c.x, c.weight, c.bias, c.w),
    ),
    _Form(_is_of_blocks, lambda c: _of_few_channels(c.x, c.weight, c.bias, c.w)),
    _Form(
        lambda c: c.is_whole and is_of_few_features(c.x, c.weight, c.w),
        lambda c: of_few_features(c.x, c.weight, c.bias, c.w),
    ),
    _Form(_is_of_whole_columns, lambda c: of_columns(c.x, c.weight, c.bias, c.w)),
    _Form(_is_of_rows, lambda c: _of_rows(c.x, c.weight, c.bias, c.w)),
    _Form(
        lambda c: c.is_whole and c.has_few_channels and max(c.w.kernel) <= MOST_COPIES,
        lambda c: _of_more_channels(c.x, c.weight, c.bias, c.w),
    ),
    _Form(
        lambda c: c.is_whole and c.has_few_channels and c.x.dim() < 5,
        lambda c: _of_rows(c.x, c.weight, c.bias, c.w),
    ),
    _Form(
        lambda c: 1 < c.groups < c.x.shape[1] and c.x.dim() < 5 and c.is_of_columns,
        lambda c: of_columns(c.x, c.weight, c.bias, c.w, c.groups),
    ),
)


def _windowed(c: _Windowed) -> torch.Tensor | NotTaken:
    for form in _FORMS:
        if form.fits(c):
            made = form.make(c)
            return _in_format_of(c.x, c.weight, made) if isinstance(made, torch.Tensor) else made
    cut, stride, padding, dilation = _cut(c.x, c.weight, c.w.stride, c.w.padding, c.w.dilation)
    groups, many = c.groups, c.weight.shape[0] // c.groups
    if groups > 1 and groups == c.x.shape[1] and many > 1:  # features of one channel
        groups *= many
        cut = one_feature_a_channel(cut, groups)
    if cut is c.x and _is_known(c.x, groups):
        return NOT_TAKEN
    return _forward(cut, c.weight, c.bias, stride, padding, dilation, groups)


def _transposed(c: _Windowed, output_padding: Sequence[int]) -> torch.Tensor:
    x, weight, bias, w, groups = c
    if groups == 1 and are_tiles(w):
        return _by_tiles(x, weight, bias, w)
    if math.prod(w.stride) <= _MOST_PHASES:
        return _in_format_of(x, weight, _by_phases(x, weight, bias, w, groups))
    for dim, step in enumerate(w.stride):
        x = _spread(x, dim + 2, step)
    around = list[int]()
    for k, d, p, more in reversed(
        list(zip(w.kernel, w.dilation, w.padding, output_padding, strict=True))
    ):
        around += [d * (k - 1) - p, d * (k - 1) - p + more]
    ones, none = [1] * len(w.kernel), [0] * len(w.kernel)
    x = _aten.constant_pad_nd(x, around) if any(around) else x
    return _forward(x, _turned(weight, groups), bias, ones, none, w.dilation, groups)


def _of_points(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows
) -> torch.Tensor:
    """[N, C, ..] by [features, 1, ..], windows of one element: a factor for each feature."""
    points = at_tap(padded(x, w, 0.0), w, next(taps(w))).unsqueeze(2)
    each = [x.shape[1], -1, *[1] * len(w.kernel)]
    made = points * weight.reshape(each)
    return (made if bias is None else made + bias.reshape(each)).flatten(1, 2)


def _of_tiles(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows
) -> torch.Tensor:
    """[N, C, ..] by [C, 1, ..]: windows side by side are no windows that slide, but dims."""
    rank = len(w.kernel)
    x = padded(x, w, 0.0) if any(w.padding) else x
    for dim, (n, k) in enumerate(zip(w.counts, w.kernel, strict=True)):
        x = x.narrow(2 + 2 * dim, 0, n * k).unflatten(2 + 2 * dim, (n, k))
    pairs = [size for k in w.kernel for size in (1, k)]
    products = x.to(torch.float32) * weight.to(torch.float32).reshape(-1, *pairs)
    sums = products.sum([3 + 2 * dim for dim in range(rank)])
    sums = sums if bias is None else sums + bias.view(-1, *[1] * rank)
    return sums.to(x.dtype)


def _of_few_channels(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows
) -> torch.Tensor | NotTaken:
    """Each channel by itself: in blocks of rows, or as the compiler knows them."""
    each = one_feature_a_channel(x, weight.shape[0])
    blocks = blocks_for(x.shape[0], each.shape[1], w)
    if blocks:
        return _in_format_of(x, weight, in_blocks(each, weight, bias, w, blocks))
    if each is x:
        return NOT_TAKEN
    return _forward(each, weight, bias, w.stride, w.padding, w.dilation, each.shape[1])


def _cut(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> tuple[torch.Tensor, list[int], list[int], list[int]]:
    """The input without what no window reads, along dims of a single window and of windows of one
    element; and the stride, padding and dilation that are left."""
    stride, padding, dilation = list(stride), list(padding), list(dilation)
    counts = windows_of(x.shape[2:], weight.shape[2:], stride, padding, dilation).counts
    for dim, (k, count) in enumerate(zip(weight.shape[2:], counts, strict=True)):
        s, p, d = stride[dim], padding[dim], dilation[dim]
        if (k > 1 and count > 1) or (s, p, d) == (1, 0, 1) or (k == 1 and s == 1):
            continue
        if p:
            around = [0, 0] * (x.dim() - 3 - dim) + [p, p]
            x = _aten.constant_pad_nd(x, around)
        kept = slice(0, (count - 1) * s + (k - 1) * d + 1, s if k == 1 else d)
        x = x[(slice(None),) * (dim + 2) + (kept,)]
        stride[dim], padding[dim], dilation[dim] = 1, 0, 1
    return x, stride, padding, dilation


def _of_rows(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows
) -> torch.Tensor:
    """[N, C, ..] by [features, C, ..]: a product of the windows' rows."""
    features = weight.shape[0]
    product = torch.nn.functional.linear(rows_of(x, w), weight.reshape(features, -1), bias)
    return _in_format_of(x, weight, product.unflatten(1, w.counts).movedim(-1, 1))


def _of_more_channels(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows
) -> torch.Tensor:
    """The same with C times the taps along the last of the dims that have most of them."""
    rank = len(w.kernel)
    dim = max(range(rank), key=lambda d: (w.kernel[d], d))

    def split(numbers: Sequence[int], default: int) -> tuple[list[int], list[int]]:
        """Those of this dim alone, and of the others."""
        chosen = [n if d == dim else default for d, n in enumerate(numbers)]
        return chosen, [default if d == dim else n for d, n in enumerate(numbers)]

    kernel, _ = split(w.kernel, 1)
    stride, strides = split(w.stride, 1)
    padding, paddings = split(w.padding, 0)
    dilation, dilations = split(w.dilation, 1)
    along = windows_of(w.sizes, kernel, stride, padding, dilation)
    wide = padded(x, along, 0.0)
    image = torch.stack([at_tap(wide, along, tap) for tap in taps(along)], 1).flatten(1, 2)
    wider = weight.movedim(dim + 2, 1).flatten(1, 2).unsqueeze(dim + 2).contiguous()
    how = strides, paddings, dilations
    result: torch.Tensor = _aten.convolution(image, wider, bias, *how, False, [0] * rank, 1)
    return _in_format_of(x, weight, result)


def _by_tiles(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows
) -> torch.Tensor:
    """[N, C, ..] by [C, features, ..], transposed: every element makes a window `w` of its own of
    the result."""
    image = image_of(x.flatten(2).transpose(1, 2) @ weight.flatten(1), w)
    return image if bias is None else image + bias.view(-1, *[1] * len(w.kernel))


def _windows_of_result(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    output_padding: list[int],
) -> Windows:
    """Those of a transposed convolution's result, one for each element of the input."""
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + more
        for n, k, s, p, d, more in zip(
            x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True
        )
    ]
    return Windows(
        sizes, list(weight.shape[2:]), stride, padding, dilation, counts=list(x.shape[2:])
    )


class _Phase(NamedTuple):
    """Of a dim of a transposed convolution's result: its places with one rest by the stride, as
    windows of the input."""

    first: int  # of the input's places in the first window, before it where negative
    taps: slice  # of the kernel turned around
    reach: int  # places from one window's first to its last
    step: int  # between places of a window


def _phases_of(w: Windows, dim: int) -> list[_Phase | None]:
    """None: no element arrives there."""
    k, s, d, p = w.kernel[dim], w.stride[dim], w.dilation[dim], w.padding[dim]
    phases = list[_Phase | None]()
    for rest in range(s):
        there = [t for t in range(k) if (rest + p - d * t) % s == 0]
        if not there:
            phases.append(None)
            continue
        gap = s // math.gcd(d, s)
        first, step = (rest + p - d * there[-1]) // s, d * gap // s
        turned = slice(k - 1 - there[-1], k - there[0], gap)
        phases.append(_Phase(first, turned, (len(there) - 1) * step, step))
    return phases


def _by_phases(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, w: Windows, groups: int
) -> torch.Tensor:
    """Places of the result with the same rest by the strides are a convolution of their own, of the
    taps that reach them: nothing is computed of zeros between the elements."""
    rank = len(w.kernel)
    phases = [_phases_of(w, dim) for dim in range(rank)]
    counts = [-(-size // s) for size, s in zip(w.sizes, w.stride, strict=True)]
    around, before = list[int](), list[int]()
    for dim in reversed(range(rank)):
        there = [phase for phase in phases[dim] if phase]
        ends = [counts[dim] + phase.first + phase.reach for phase in there]
        before.insert(0, max(0, *(-phase.first for phase in there)))
        around += [before[0], max(0, max(ends) - x.shape[dim + 2])]
    wide = _aten.constant_pad_nd(x, around) if any(around) else x
    turned = _turned(weight, groups)
    features = [x.shape[0], turned.shape[0]]
    empty = x.new_zeros(()) if bias is None else bias.view(-1, *[1] * rank)

    def result(chosen: tuple[_Phase, ...]) -> torch.Tensor:
        """Of the dims behind those whose phases are chosen."""
        dim = len(chosen)
        if dim < rank:
            size = features + counts[: dim + 1] + w.sizes[dim + 1 :]
            parts = [result((*chosen, one)) if one else empty.expand(size) for one in phases[dim]]
            return in_turn(parts, dim + 2, w.sizes[dim])
        image, kernel = wide, turned
        for at, one in enumerate(chosen):
            start, length = before[at] + one.first, counts[at] + one.reach
            image = image.narrow(at + 2, start, length)
            kernel = _taps_of(kernel, at + 2, one.taps)
        ones, none, steps = [1] * rank, [0] * rank, [one.step for one in chosen]
        return _forward(image, kernel, bias, ones, none, steps, groups)

    return result(())


def _taps_of(weight: torch.Tensor, dim: int, chosen: slice) -> torch.Tensor:
    """A view, or copies where steps do not divide the dim, as every second of three taps: by
    itself, no operator of the card takes such a weight."""
    size = weight.shape[dim]
    if size % chosen.step == 0:
        return weight[(slice(None),) * dim + (chosen,)]
    return torch.stack([weight.select(dim, tap) for tap in range(*chosen.indices(size))], dim)


def _has_channels_last(x: torch.Tensor) -> bool:
    """What PyTorch takes for channels_last where the strides do not tell: no."""
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def _in_format_of(x: torch.Tensor, weight: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Dense, in channels_last where an operand is."""
    last = _has_channels_last(x) or _has_channels_last(weight)
    return made.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


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


def _is_known(x: torch.Tensor, groups: int) -> bool:
    """What has no more loops than an operation of the card may have."""
    return x.dim() < 5 or (x.shape[0] == 1 and groups == 1)


def _forward(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    how = stride, padding, dilation
    if _is_known(x, groups):
        none = [0] * len(stride)
        known: torch.Tensor = _aten.convolution(x, weight, bias, *how, False, none, groups)
        return known
    if x.shape[0] > 1:
        return torch.cat([_forward(image, weight, bias, *how, groups) for image in x.split(1)])
    biases = [None] * groups if bias is None else bias.chunk(groups)
    parts = zip(x.chunk(groups, 1), weight.chunk(groups), biases, strict=True)
    return torch.cat([_forward(*part, *how, 1) for part in parts], 1)


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
        if not isinstance(other, torch.Tensor):  # the compiler's own
            other = _aten.convolution(
                grad, weight, None, stride, padding, dilation, False, [0] * rank, groups
            )
        for dim, size in enumerate(x.shape[2:]):  # padding beyond a stride makes windows of none
            other = other.narrow(dim + 2, 0, size)
        to_input = other
    to_weight = None
    if wanted[1]:
        pair = (grad, x) if transposed else (x, grad)
        w = windows_of(pair[0].shape[2:], weight.shape[2:], stride, padding, dilation)
        w = w._replace(counts=list(pair[1].shape[2:]))
        to_weight = weight_gradient(*pair, weight.shape, w, groups)
    to_bias = grad.sum([0, *range(2, grad.dim())]) if wanted[2] else None
    return to_input, to_weight, to_bias


spyre_decompositions[_aten.convolution_backward.default] = convolution_backward
