# SPDX-License-Identifier: Apache-2.0
"""Pooling over windows, tap by tap: the element that each window has at one place of the kernel is
a view with steps, and what a window hands back to that element is one with zeros between. Windows
side by side are dims of their own, of which a mean is one reduction."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .lines import FLOATS, as_stored, computed, count, positions

_aten = torch.ops.aten
MOST_TAPS = 256  # each is a few steps of a program
FEW_TAPS = 4  # are added sooner than they are reduced
FEW_CHANNELS = 32  # leave most of a stick along them empty


class Windows(NamedTuple):
    """Along each of the last dims."""

    sizes: list[int]  # of the input
    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    counts: list[int]  # windows


def windows_of(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> Windows:
    """PyTorch's rule: with `ceil` a last window may hang over, if it begins inside."""
    rank = len(sizes)
    kernel, padding, dilation = (_all(n, rank) for n in (kernel, padding, dilation))
    stride = _all(stride, rank) if stride else list(kernel)
    counts = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        room = size + 2 * p - d * (k - 1) - 1
        n = (-(-room // s) if ceil else room // s) + 1
        counts.append(n - 1 if ceil and (n - 1) * s >= size + p else n)
    return Windows(list(sizes), list(kernel), stride, list(padding), list(dilation), counts)


def are_tiles(w: Windows) -> bool:
    """Whether windows lie side by side and end in their dims, so that each element is of one window
    at most."""
    ends = all(n * k <= size for n, k, size in zip(w.counts, w.kernel, w.sizes, strict=True))
    return lie_side_by_side(w) and not any(w.padding) and ends


def lie_side_by_side(w: Windows) -> bool:
    """Whether they are tiles once the input is padded."""
    dense = all(d == 1 or k == 1 for k, d in zip(w.kernel, w.dilation, strict=True))
    return w.stride == w.kernel and dense


def leave_rest(w: Windows) -> bool:
    """Whether windows side by side do not reach the end."""
    return any(n * k != size for n, k, size in zip(w.counts, w.kernel, w.sizes, strict=True))


def _pool_windows(sizes: Sequence[int], *how: Any) -> Windows:
    """Those of windows_of(), without taps beyond the end of a dim that one window covers."""
    w = windows_of(sizes, *how)
    kernel, stride = list(w.kernel), list(w.stride)
    for i, size in enumerate(w.sizes):
        if w.counts[i] != 1:
            continue
        kernel[i] = min(kernel[i], (size + 2 * w.padding[i] - 1) // w.dilation[i] + 1)
        stride[i] = min(stride[i], w.dilation[i] * (kernel[i] - 1) + 1)
    return w._replace(kernel=kernel, stride=stride)


def _all(numbers: Sequence[int], rank: int) -> list[int]:
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)


def taps(w: Windows) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(k) for k in w.kernel))


def _spans(w: Windows) -> list[int]:
    """Places that windows reach, from the first one's first, a multiple of the stride."""
    return [
        ((k - 1) * d // s + n) * s
        for k, d, s, n in zip(w.kernel, w.dilation, w.stride, w.counts, strict=True)
    ]


def _around(w: Windows) -> list[int]:
    """What constant_pad_nd puts around the input for the windows, last dim first."""
    pairs = list[int]()
    given = zip(w.sizes, w.padding, w.stride, _spans(w), strict=True)
    for size, p, s, span in reversed(list(given)):
        whole = -(-(size + p) // s) * s  # strides are cut off a dim of whole ones
        pairs += [p, max(span, whole) - size - p]
    return pairs


def padded(x: torch.Tensor, w: Windows, value: float) -> torch.Tensor:
    around = _around(w)
    return _aten.constant_pad_nd(x, around, value) if any(around) else x


def at_tap(x: torch.Tensor, w: Windows, tap: Sequence[int]) -> torch.Tensor:
    """[.., windows] of the padded input: by whole strides, then a place within one."""
    first = x.dim() - len(w.sizes)
    for i, t in enumerate(tap):
        dim, s, n = first + i, w.stride[i], w.counts[i]
        turn, place = divmod(t * w.dilation[i], s)
        x = x.narrow(dim, turn * s, n * s)
        x = x if s == 1 else x.unflatten(dim, (n, s)).select(dim + 1, place)
    return x


def in_turn(parts: list[torch.Tensor], dim: int, size: int) -> torch.Tensor:
    """The parts in turn along a dim, cut to `size` elements."""
    joined = torch.stack(parts, dim + 1).flatten(dim, dim + 1) if len(parts) > 1 else parts[0]
    return joined.narrow(dim, 0, size)


def from_taps(
    given: Sequence[tuple[Sequence[int], torch.Tensor]], w: Windows, first: int
) -> torch.Tensor:
    """[.., windows] of every tap -> sums at the places of the input, whose dims begin at `first`.
    Places with the same rest by the stride are neighbours in a sum of their own."""
    if not w.sizes:
        total = given[0][1].to(torch.float32) if len(given) > 1 else given[0][1]
        for _tap, part in given[1:]:
            total = total + part
        return total.to(given[0][1].dtype)
    size, s, n = w.sizes[0], w.stride[0], w.counts[0]
    inner = Windows(*(numbers[1:] for numbers in w))
    rows = -(-size // s)
    by_rest: dict[int, list[tuple[Sequence[int], torch.Tensor]]] = {}
    for tap, part in given:
        turn, rest = divmod(tap[0] * w.dilation[0] - w.padding[0], s)
        if -n < turn < rows:
            around = [0, 0] * (part.dim() - first - 1) + [turn, rows - turn - n]
            moved = _aten.constant_pad_nd(part, around) if any(around) else part
            by_rest.setdefault(rest, []).append((tap[1:], moved))
    sums = [from_taps(by_rest[r], inner, first + 1) if r in by_rest else None for r in range(s)]
    there = next(part for part in sums if part is not None)
    zeros = there.new_zeros(()).expand(there.shape)
    return in_turn([zeros if part is None else part for part in sums], first, size)


def _base(x: torch.Tensor, w: Windows) -> torch.Tensor:
    """float32 [windows]: where each window begins in the plane, counting from the input's first."""
    total = None
    for i in range(len(w.sizes)):
        place = count(w.counts[i], x).to(torch.float32) * w.stride[i] - w.padding[i]
        place = (place * math.prod(w.sizes[i + 1 :])).reshape([-1] + [1] * (len(w.sizes) - 1 - i))
        total = place if total is None else total + place
    assert total is not None
    return total


def _offset(w: Windows, tap: Sequence[int]) -> float:
    """What a tap is behind the beginning of its window."""
    pairs = enumerate(zip(tap, w.dilation, strict=True))
    return float(sum(t * d * math.prod(w.sizes[i + 1 :]) for i, (t, d) in pairs))


def _max_pool(x: torch.Tensor, w: Windows) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    """Of equal elements the first; of a window without a number the first that is no padding."""
    if not _is_taken(x, w):
        return NOT_TAKEN
    views = _views(x, w)
    values = functools.reduce(torch.maximum, views)
    ones = torch.ones(w.sizes, dtype=x.dtype, device=x.device)
    inside = padded(ones, w, 0.0) if any(_around(w)) else None
    *_, last = taps(w)
    index = torch.full_like(values, _offset(w, last), dtype=torch.float32)
    for tap, view in reversed(list(zip(taps(w), views, strict=True))):
        is_it = view == values
        is_it = is_it if inside is None else is_it & (at_tap(inside, w, tap) > 0)
        index = torch.where(is_it, _offset(w, tap), index)
    index = positions(index + _base(x, w))
    return as_stored(values, x), as_stored(index, x)


def _views(x: torch.Tensor, w: Windows) -> list[torch.Tensor]:
    """What the windows have at each tap; padding is least."""
    wide = padded(x, w, -math.inf)
    return [at_tap(wide, w, tap) for tap in taps(w)]


def _is_taken(x: torch.Tensor, w: Windows) -> bool:
    return x.dtype in FLOATS and math.prod(w.kernel) <= MOST_TAPS and _is_whole(x, w)


def _is_whole(x: torch.Tensor, w: Windows) -> bool:
    fits = all(2 * p <= k for p, k in zip(w.padding, w.kernel, strict=True))
    return fits and x.numel() > 0 and min(w.counts) > 0 and min(w.stride) > 0


def _max_pool_backward(
    grad: torch.Tensor, x: torch.Tensor, w: Windows, index: torch.Tensor
) -> torch.Tensor | NotTaken:
    if not _is_taken(x, w):
        return NOT_TAKEN
    steps = index.to(torch.float32) - _base(x, w)
    given = [(tap, torch.where(steps == _offset(w, tap), grad, 0.0)) for tap in taps(w)]
    return from_taps(given, w, x.dim() - len(w.sizes)).contiguous()


def _max_windows(x: torch.Tensor, rank: int, how: Sequence[object]) -> Windows:
    """`how`: kernel, stride, padding, dilation, ceil_mode, as far as they are given."""
    rest = [*how, *((None, [], [0], [1], False)[len(how) :])]
    return _pool_windows(x.shape[-rank:], *rest)


@part(_aten.max_pool2d.default, narrow=True)
def max_pool2d_alone(x: torch.Tensor, *how: object) -> torch.Tensor | NotTaken:
    """Without indices."""
    w = _max_windows(x, 2, how)
    if not _is_taken(x, w):
        return NOT_TAKEN
    return as_stored(functools.reduce(torch.maximum, _views(x, w)), x)


@part(_aten.max_pool2d_with_indices.default, narrow=True)
def max_pool2d(x: torch.Tensor, *how: object) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    return _max_pool(x, _max_windows(x, 2, how))


@part(_aten.max_pool3d_with_indices.default, narrow=True)
def max_pool3d(x: torch.Tensor, *how: object) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    return _max_pool(x, _max_windows(x, 3, how))


@part(_aten.max_pool2d_with_indices_backward.default, narrow=True)
def max_pool2d_backward(
    grad: torch.Tensor, x: torch.Tensor, *rest: object
) -> torch.Tensor | NotTaken:
    *how, index = rest
    assert isinstance(index, torch.Tensor)
    return _max_pool_backward(grad, x, _max_windows(x, 2, how), index)


@part(_aten.max_pool3d_with_indices_backward.default, narrow=True)
def max_pool3d_backward(
    grad: torch.Tensor, x: torch.Tensor, *rest: object
) -> torch.Tensor | NotTaken:
    *how, index = rest
    assert isinstance(index, torch.Tensor)
    return _max_pool_backward(grad, x, _max_windows(x, 3, how), index)


def _divisors(x: torch.Tensor, w: Windows, include: bool, divisor: int | None) -> torch.Tensor:
    """1 / elements of each window, [windows]; padding counts where it is included, what hangs over
    beyond it never."""
    sizes = [size + 2 * p * include for size, p in zip(w.sizes, w.padding, strict=True)]
    number: torch.Tensor | None = None
    for i, size in enumerate(sizes):
        shift = 0 if include else w.padding[i]
        start = count(w.counts[i], x).to(torch.float32) * w.stride[i] - shift
        inside = (start + w.kernel[i]).clamp(max=size) - start.clamp(min=0)
        inside = inside.reshape([-1] + [1] * (len(sizes) - 1 - i))
        number = inside if number is None else number * inside
    assert number is not None
    return torch.full_like(number, 1 / divisor) if divisor else number.reciprocal()


def tile_means(x: torch.Tensor, w: Windows, divisor: int | None = None) -> torch.Tensor:
    """Of windows side by side."""
    rank = len(w.sizes)
    first = x.dim() - rank
    for i, (n, k) in enumerate(zip(w.counts, w.kernel, strict=True)):
        x = x.narrow(first + i, 0, n * k) if n * k < w.sizes[i] else x
    pairs = [size for pair in zip(w.counts, w.kernel, strict=True) for size in pair]
    tiles = x.reshape(*x.shape[:first], *pairs)
    dims = [first + 1 + 2 * i for i in range(rank)]
    if divisor is None:
        return tiles.mean(dims)
    return (tiles.sum(dims, dtype=torch.float32) * (1 / divisor)).to(x.dtype)


def spread_means(grad: torch.Tensor, w: Windows, divisor: int | None = None) -> torch.Tensor:
    """The gradient of that: to each element its part, 0 where no window is."""
    rank = len(w.sizes)
    first = grad.dim() - rank
    share = (grad.to(torch.float32) * (1 / (divisor or math.prod(w.kernel)))).to(grad.dtype)
    for i, k in enumerate(w.kernel):
        dim = first + i
        wide = share.unsqueeze(dim + 1)
        sizes = [k if d == dim + 1 else n for d, n in enumerate(wide.shape)]
        share = wide.expand(sizes).flatten(dim, dim + 1)
    around = [
        more
        for size, n, k in reversed(list(zip(w.sizes, w.counts, w.kernel, strict=True)))
        for more in (0, size - n * k)
    ]
    return _aten.constant_pad_nd(share, around) if any(around) else share


def _along(x: torch.Tensor, w: Windows, i: int) -> Windows:
    """Those of dim i alone, of a padded input."""
    sizes = list(x.shape[x.dim() - len(w.sizes) :])
    ones, none = [1] * len(sizes), [0] * len(sizes)
    kernel, stride, counts = [*ones], [*ones], [*sizes]
    kernel[i], stride[i], counts[i] = w.kernel[i], w.stride[i], w.counts[i]
    return Windows(sizes, kernel, stride, none, ones, counts)


def _sums(x: torch.Tensor, w: Windows) -> torch.Tensor:
    """In float32, of what the windows of a padded input have."""
    total = None
    for tap in taps(w):
        view = at_tap(x, w, tap).to(torch.float32)
        total = view if total is None else total + view
    assert total is not None
    return total


def _avg_pool(
    x: torch.Tensor, w: Windows, include: bool, divisor: int | None
) -> torch.Tensor | NotTaken:
    if x.dtype not in FLOATS or not _is_whole(x, w):
        return NOT_TAKEN
    if are_tiles(w) and math.prod(w.kernel) > FEW_TAPS:
        return as_stored(tile_means(x, w, divisor), x)
    if math.prod(w.kernel) > MOST_TAPS:
        return NOT_TAKEN
    wide, rank = padded(x, w, 0.0), len(w.sizes)
    # Few channels leave the stick to a dim of the windows, along which every tap is a copy.
    by_dims = math.prod(w.kernel) > FEW_TAPS and x.shape[-rank - 1] < FEW_CHANNELS
    total = wide if by_dims else _sums(wide, w)
    for i in range(rank if by_dims else 0):
        total = _sums(total, _along(total, w, i))
    return as_stored((total * _divisors(x, w, include, divisor)).to(x.dtype), x)


def _avg_pool_backward(
    grad: torch.Tensor, x: torch.Tensor, w: Windows, include: bool, divisor: int | None
) -> torch.Tensor | NotTaken:
    if x.dtype not in FLOATS or not _is_whole(x, w):
        return NOT_TAKEN
    if are_tiles(w):
        return as_stored(spread_means(grad, w, divisor), x)
    if math.prod(w.kernel) > MOST_TAPS:
        return NOT_TAKEN
    share = grad.to(torch.float32) * _divisors(x, w, include, divisor)
    for i in range(len(w.sizes)):
        along = Windows(*(numbers[i : i + 1] for numbers in w))
        given = [(tap, share) for tap in taps(along)]
        share = from_taps(given, along, x.dim() - len(w.sizes) + i)
    return share.to(x.dtype).contiguous()


@part(_aten.avg_pool2d.default)
def avg_pool2d(
    x: torch.Tensor, kernel: list[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> torch.Tensor | NotTaken:  # fmt: skip
    w = _pool_windows(x.shape[-2:], kernel, stride, padding, (1,), ceil_mode)
    return _avg_pool(x, w, count_include_pad, divisor_override)


@part(_aten.avg_pool3d.default)
def avg_pool3d(
    x: torch.Tensor, kernel: list[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> torch.Tensor | NotTaken:  # fmt: skip
    w = _pool_windows(x.shape[-3:], kernel, stride, padding, (1,), ceil_mode)
    return _avg_pool(x, w, count_include_pad, divisor_override)


@part(_aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    grad: torch.Tensor, x: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> torch.Tensor | NotTaken:  # fmt: skip
    w = _pool_windows(x.shape[-2:], kernel, stride, padding, (1,), ceil_mode)
    return _avg_pool_backward(grad, x, w, count_include_pad, divisor_override)


@part(_aten.avg_pool3d_backward.default)
def avg_pool3d_backward(
    grad: torch.Tensor, x: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int],
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> torch.Tensor | NotTaken:  # fmt: skip
    w = _pool_windows(x.shape[-3:], kernel, stride, padding, (1,), ceil_mode)
    return _avg_pool_backward(grad, x, w, count_include_pad, divisor_override)


def _bounds(x: torch.Tensor, inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first input of each output of an adaptive pool, and the last."""
    out = count(outputs, x)
    start = torch.div(out * inputs, outputs, rounding_mode="floor")
    end = torch.div((out + 1) * inputs + (outputs - 1), outputs, rounding_mode="floor")
    return start, end - 1


def _longest(inputs: int, outputs: int) -> int:
    return max(-((-(o + 1) * inputs) // outputs) - o * inputs // outputs for o in range(outputs))


@part(_aten.adaptive_max_pool2d.default, _aten.adaptive_max_pool3d.default, narrow=True)
def adaptive_max_pool(
    x: torch.Tensor, size: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor] | NotTaken:
    rank = len(size)
    inputs = x.shape[-rank:]
    if x.dtype not in FLOATS or x.numel() == 0 or min(size) == 0:
        return NOT_TAKEN
    lengths = [_longest(i, o) for i, o in zip(inputs, size, strict=True)]
    if math.prod(lengths) > MOST_TAPS:
        return NOT_TAKEN
    places = []  # by dim and tap: of each output
    for i, o, length in zip(inputs, size, lengths, strict=True):
        start, end = _bounds(x, i, o)
        places.append([torch.minimum(start + t, end) for t in range(length)])
    views = []
    for tap in itertools.product(*(range(n) for n in lengths)):
        view, number = x, None
        for i, t in enumerate(tap):
            place = places[i][t]
            view = view.index_select(x.dim() - rank + i, place)
            column = place.to(torch.float32) * math.prod(inputs[i + 1 :])
            column = column.reshape([-1] + [1] * (rank - 1 - i))
            number = column if number is None else number + column
        assert number is not None
        views.append((view, number))
    values = views[0][0]
    for view, _number in views[1:]:
        values = torch.maximum(values, view)
    index = None
    for view, number in views:
        found = torch.where(view == values, number, math.inf)
        index = found if index is None else torch.minimum(index, found)
    assert index is not None
    return as_stored(values, x), as_stored(positions(index), x)


def _adaptive_max_backward(
    grad: torch.Tensor, x: torch.Tensor, index: torch.Tensor, rank: int
) -> torch.Tensor | NotTaken:
    if x.dtype not in computed() or x.numel() == 0:
        return NOT_TAKEN
    plane = math.prod(x.shape[-rank:])
    given = grad.reshape(-1, math.prod(grad.shape[-rank:]))
    nothing = given.new_zeros(given.shape[0], plane)
    whole: torch.Tensor = _aten.scatter_add(nothing, 1, index.reshape(given.shape), given)
    return whole.reshape(x.shape)


@part(_aten.adaptive_max_pool2d_backward.default, narrow=True)
def adaptive_max_pool2d_backward(
    grad: torch.Tensor, x: torch.Tensor, index: torch.Tensor
) -> torch.Tensor | NotTaken:
    return _adaptive_max_backward(grad, x, index, 2)


@part(_aten.adaptive_max_pool3d_backward.default, narrow=True)
def adaptive_max_pool3d_backward(
    grad: torch.Tensor, x: torch.Tensor, index: torch.Tensor
) -> torch.Tensor | NotTaken:
    return _adaptive_max_backward(grad, x, index, 3)
