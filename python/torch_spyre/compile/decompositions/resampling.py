# SPDX-License-Identifier: Apache-2.0
"""Resampling of images: every output along a dim is a sum of the dim's inputs, each dim by itself.
So a dim is a product with the matrix of its weights [outputs, inputs], which is made of the places
of both; its transpose hands gradients back. A grid names places anywhere: their neighbours are
gathered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ..register_decomposition import NOT_TAKEN, NotTaken, part
from .grid_sample import grid_sampler
from .lines import FLOATS, as_stored, computed, count, positions
from .pooling import Windows, spread_means, tile_means, windows_of

_aten = torch.ops.aten
MOST_WEIGHTS = 1 << 24
INPUTS_PER_TAP = 32  # of a product with all inputs, beyond which reading the taps costs less
Taps = list[tuple[torch.Tensor, torch.Tensor]]  # place along a dim, weight, both float32


def places_of(x: torch.Tensor, inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places of the outputs as a column, of the inputs as a row."""
    out, places = (count(n, x).to(torch.float32) for n in (outputs, inputs))
    return out.unsqueeze(1), places


def _step(inputs: int, outputs: int, align: bool, scale: float | None) -> float:
    """Inputs from an output to the next; `scale` is outputs by inputs."""
    if align:
        return (inputs - 1) / (outputs - 1) if outputs > 1 else 0.0
    return 1 / scale if scale else inputs / outputs


def _between(
    out: torch.Tensor, inputs: int, outputs: int, align: bool, scale: float | None
) -> torch.Tensor:
    """Where outputs are among the inputs."""
    step = _step(inputs, outputs, align, scale)
    source = out * step if align else ((out + 0.5) * step - 0.5).clamp(min=0.0)
    return source.clamp(max=inputs - 1)


def _linear(
    x: torch.Tensor, inputs: int, outputs: int, align: bool, scale: float | None
) -> torch.Tensor:
    """The nearer an input, the more of it."""
    out, places = places_of(x, inputs, outputs)
    source = _between(out, inputs, outputs, align, scale)
    return (1 - (source - places).abs()).clamp(min=0.0)


def _linear_taps(
    x: torch.Tensor, inputs: int, outputs: int, align: bool, scale: float | None
) -> Taps:
    out = count(outputs, x).to(torch.float32)
    source = _between(out, inputs, outputs, align, scale)
    first = source.floor()
    t = source - first
    return [(first, 1 - t), ((first + 1).clamp(max=inputs - 1), t)]


def _smoothed(
    x: torch.Tensor, inputs: int, outputs: int, align: bool, scale: float | None
) -> torch.Tensor:
    """As _linear, of a kernel as wide as the step; what lies beyond the border weighs nothing. Of
    the step only what has 12 bits multiplies places exactly, the rest changes little."""
    out, places = places_of(x, inputs, outputs)
    step = _step(inputs, outputs, align, scale)
    fraction, exponent = math.frexp(step)
    most = math.ldexp(round(fraction * 4096), exponent - 12)
    way = (places + 0.5 - (out + 0.5) * most) - (out + 0.5) * (step - most)
    weights = (1 - way.abs() / max(step, 1.0)).clamp(min=0.0)
    return weights / weights.sum(1, True)


def _nearest(
    x: torch.Tensor, inputs: int, outputs: int, shift: float, scale: float | None
) -> torch.Tensor:
    """The input of each output."""
    out = count(outputs, x).to(torch.float32)
    source = ((out + shift) * _step(inputs, outputs, False, scale)).floor()
    return source.clamp(max=inputs - 1)


def _moved(
    x: torch.Tensor, dim: int, outputs: int, shift: float, scale: float | None
) -> torch.Tensor:
    """By powers of two, whose steps are exact, every element is repeated."""
    inputs = x.shape[dim]
    factor = outputs // inputs
    whole = outputs == inputs * factor and (scale is None or scale == factor)
    if whole and factor & (factor - 1) == 0:
        sizes = [*x.shape[: dim + 1], factor, *x.shape[dim + 1 :]]
        return x.unsqueeze(dim + 1).expand(sizes).flatten(dim, dim + 1)
    source = _nearest(x, inputs, outputs, shift, scale)
    return x.index_select(dim, positions(source))


def is_at(source: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """1 where they are equal, whole numbers both."""
    return (1 - (source - places).abs()).clamp(min=0.0)


def _cubic_taps(
    x: torch.Tensor, inputs: int, outputs: int, align: bool, scale: float | None
) -> Taps:
    """Keys' kernel with a = -0.75, as PyTorch has it; taps beyond the border are the border's."""
    a = -0.75
    out = count(outputs, x).to(torch.float32)
    step = _step(inputs, outputs, align, scale)
    source = out * step if align else (out + 0.5) * step - 0.5
    first = source.floor()
    t = source - first
    near = [t, 1 - t]
    inner = [((a + 2) * d - (a + 3)) * d * d + 1 for d in near]
    outer = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
    weights = [outer[0], inner[0], inner[1], outer[1]]
    steps = zip((-1.0, 0.0, 1.0, 2.0), weights, strict=True)
    return [((first + tap).clamp(0, inputs - 1), weight) for tap, weight in steps]


def _cubic(
    x: torch.Tensor, inputs: int, outputs: int, align: bool, scale: float | None
) -> torch.Tensor:
    places = count(inputs, x).to(torch.float32)
    total = None
    for at, weight in _cubic_taps(x, inputs, outputs, align, scale):
        given = weight.unsqueeze(1) * is_at(at.unsqueeze(1), places)
        total = given if total is None else total + given
    assert total is not None
    return total


def _areas(x: torch.Tensor, inputs: int, outputs: int) -> torch.Tensor:
    """Output o is the mean of inputs [floor(o I / O), ceil((o + 1) I / O))."""
    out, places = count(outputs, x), count(inputs, x).to(torch.float32)
    start = torch.div(out * inputs, outputs, rounding_mode="floor")
    end = torch.div((out + 1) * inputs + (outputs - 1), outputs, rounding_mode="floor")
    start, end = (e.to(torch.float32).unsqueeze(1) for e in (start, end))
    inside = (places - start + 1).clamp(0.0, 1.0) * (end - places).clamp(0.0, 1.0)
    return inside / (end - start)


def by_matrix(x: torch.Tensor, dim: int, matrix: torch.Tensor, back: bool) -> torch.Tensor:
    """A dim by its matrix, or by the matrix's transpose."""
    weights = matrix.to(x.dtype)
    sizes = [n for d, n in enumerate(x.shape) if d != dim]
    lines = x.movedim(dim, -1).reshape(-1, x.shape[dim])
    product = lines @ (weights if back else weights.t())
    return product.reshape(*sizes, product.shape[-1]).movedim(-1, dim)


def _apply(x: torch.Tensor, matrices: Sequence[torch.Tensor], back: bool) -> torch.Tensor:
    """Each of the last dims by its matrix, or by the matrix's transpose."""
    for i, matrix in enumerate(matrices):
        x = by_matrix(x, x.dim() - len(matrices) + i, matrix, back)
    return x


def _is_taken(
    x: torch.Tensor,
    inputs: Sequence[int],
    outputs: Sequence[int],
    dtypes: Sequence[torch.dtype] | None = None,
) -> bool:
    if x.dtype not in (dtypes or computed()) or x.numel() == 0:
        return False
    return all(
        i > 0 and o > 0 and i * o <= MOST_WEIGHTS for i, o in zip(inputs, outputs, strict=True)
    )


Weights = Callable[..., torch.Tensor]  # (x, inputs, outputs, [align_corners,] scale): of a dim


def _by_dim(
    inputs: Sequence[int], outputs: Sequence[int], how: Sequence[object]
) -> list[tuple[Any, ...]]:
    """What Weights take of each dim."""
    options = [how[0]] if how and isinstance(how[0], bool) else []
    given = [*how[len(options) :], *[None] * len(outputs)]
    return [(i, o, *options, s) for i, o, s in zip(inputs, outputs, given, strict=False)]


def _read(x: torch.Tensor, dim: int, taps: Taps) -> torch.Tensor:
    """Along a dim the sum of what the taps read."""
    column = [-1 if d == dim else 1 for d in range(x.dim())]
    total = None
    for place, weight in taps:
        value = x.index_select(dim, positions(place)).to(torch.float32)
        share = value * weight.reshape(column)
        total = share if total is None else total + share
    assert total is not None
    return total.to(x.dtype)


def _forward(weights: Weights, taps: Callable[..., Taps] | None = None) -> Callable[..., Any]:
    """(x, output_size, [align_corners,] *scales) of 1, 2 and 3 dims: by matrices, or of long dims,
    and of a dtype without products, by the taps of each output."""

    def resample(x: torch.Tensor, size: Sequence[int], *how: object) -> torch.Tensor | NotTaken:
        inputs, image = x.shape[2:], x
        if not _is_taken(x, inputs, size, FLOATS if taps else computed()):
            return NOT_TAKEN
        of_dim = _by_dim(inputs, size, how)
        for i, dim in enumerate(range(2, x.dim())):
            read = taps(image, *of_dim[i]) if taps else []
            few = inputs[i] < INPUTS_PER_TAP * len(read)
            if not read or (few and x.dtype in computed()):
                x = by_matrix(x, dim, weights(image, *of_dim[i]), False)
            else:
                x = _read(x, dim, read)
        return as_stored(x, image)

    return resample


def _hand_back(grad: torch.Tensor, dim: int, taps: Taps, inputs: int) -> torch.Tensor:
    """Along a dim the sums of what the taps have read of each input."""
    column = [-1 if d == dim else 1 for d in range(grad.dim())]
    total = grad.new_zeros([inputs if d == dim else n for d, n in enumerate(grad.shape)])
    for place, weight in taps:
        share = grad * weight.reshape(column)
        total = torch.index_add(total, dim, positions(place), share)
    return total


def _backward(
    weights: Weights, taps: Callable[..., Taps] | None = None, copies_whole: bool = False
) -> Callable[..., Any]:
    """(grad, output_size, input_size, [align_corners,] *scales). `copies_whole` is of kernels that
    copy where no size changes, whatever the scales are."""

    def hand_back(
        grad: torch.Tensor, size: Sequence[int], whole: Sequence[int], *how: object
    ) -> torch.Tensor | NotTaken:
        if not _is_taken(grad, whole[2:], size, FLOATS if taps else computed()):
            return NOT_TAKEN
        if copies_whole and any(how[1:]) and list(size) == list(whole[2:]):
            how = how[:1]
        x = grad
        for i, of_dim in enumerate(_by_dim(whole[2:], size, how)):
            if taps and grad.dtype not in computed():
                x = _hand_back(x, 2 + i, taps(grad, *of_dim), whole[2 + i])
            else:
                x = by_matrix(x, 2 + i, weights(grad, *of_dim), True)
        return as_stored(x, grad)

    return hand_back


def _copied(weights: Callable[..., Any]) -> Callable[..., Any]:
    """Of kernels that copy along a dim whose size stays, whatever its scale is."""

    def of_dim(x: torch.Tensor, inputs: int, outputs: int, align: bool, scale: float | None) -> Any:
        return weights(x, inputs, outputs, align, None if scale and inputs == outputs else scale)

    return of_dim


def _nearest_backward(
    x: torch.Tensor, inputs: int, outputs: int, shift: float, scale: float | None
) -> torch.Tensor:
    """The input of each output. PyTorch's kernel looks at no scale where a dim keeps its size or
    has twice as much, unlike its forward kernel."""
    if scale and not shift and outputs in (inputs, 2 * inputs):
        scale = None
    return _nearest(x, inputs, outputs, shift, scale)


def _register_nearest(forward: Sequence[object], backward: Sequence[object], shift: float) -> None:
    """Elements are moved, not multiplied: an infinity beside an element is none in it."""

    def resample(
        x: torch.Tensor, size: Sequence[int], *scales: float | None
    ) -> torch.Tensor | NotTaken:
        if x.dtype not in FLOATS or x.numel() == 0 or min(size) < 1:
            return NOT_TAKEN
        given, image = [*scales, *[None] * len(size)], x
        for i, outputs in enumerate(size):
            x = _moved(x, x.dim() - len(size) + i, outputs, shift, given[i])
        return as_stored(x, image)

    def weights(x: torch.Tensor, inputs: int, outputs: int, scale: float | None) -> torch.Tensor:
        source = _nearest_backward(x, inputs, outputs, shift, scale)
        return is_at(source.unsqueeze(1), count(inputs, x).to(torch.float32))

    def taps(x: torch.Tensor, inputs: int, outputs: int, scale: float | None) -> Taps:
        source = _nearest_backward(x, inputs, outputs, shift, scale)
        return [(source, torch.ones_like(source))]

    part(*forward, narrow=True)(resample)  # type: ignore[arg-type]
    part(*backward, narrow=True)(_backward(weights, taps))  # type: ignore[arg-type]


part(
    _aten.upsample_linear1d.default, _aten.upsample_bilinear2d.default,
    _aten.upsample_trilinear3d.default, narrow=True,
)(_forward(_copied(_linear), _copied(_linear_taps)))  # fmt: skip
part(
    _aten.upsample_linear1d_backward.default, _aten.upsample_bilinear2d_backward.default,
    _aten.upsample_trilinear3d_backward.default, narrow=True,
)(_backward(_copied(_linear), _copied(_linear_taps)))  # fmt: skip
part(_aten._upsample_bilinear2d_aa.default, narrow=True)(_forward(_copied(_smoothed)))
part(_aten._upsample_bilinear2d_aa_backward.default, narrow=True)(_backward(_smoothed))
part(_aten.upsample_bicubic2d.default, narrow=True)(_forward(_cubic, _cubic_taps))
part(_aten.upsample_bicubic2d_backward.default, narrow=True)(
    _backward(_cubic, _cubic_taps, copies_whole=True)
)
_register_nearest(
    [_aten.upsample_nearest1d.default, _aten.upsample_nearest2d.default,
     _aten.upsample_nearest3d.default],
    [_aten.upsample_nearest1d_backward.default, _aten.upsample_nearest2d_backward.default,
     _aten.upsample_nearest3d_backward.default],
    0.0,
)  # fmt: skip
_register_nearest(
    [_aten._upsample_nearest_exact1d.default, _aten._upsample_nearest_exact2d.default,
     _aten._upsample_nearest_exact3d.default],
    [_aten._upsample_nearest_exact1d_backward.default,
     _aten._upsample_nearest_exact2d_backward.default,
     _aten._upsample_nearest_exact3d_backward.default],
    0.5,
)  # fmt: skip


def _tiles(inputs: Sequence[int], outputs: Sequence[int]) -> Windows | None:
    """The windows of an adaptive pool that all are as long."""
    if any(i % o for i, o in zip(inputs, outputs, strict=True)):
        return None
    return windows_of(inputs, [i // o for i, o in zip(inputs, outputs, strict=True)], (), (0,))


@part(_aten._adaptive_avg_pool2d.default, _aten._adaptive_avg_pool3d.default, narrow=True)
def adaptive_avg_pool(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor | NotTaken:
    inputs = x.shape[-len(size) :]
    if not _is_taken(x, inputs, size):
        return NOT_TAKEN
    if (tiles := _tiles(inputs, size)) is not None:
        return as_stored(tile_means(x, tiles), x)
    areas = [_areas(x, i, o) for i, o in zip(inputs, size, strict=True)]
    return as_stored(_apply(x, areas, False), x)


def _adaptive_backward(grad: torch.Tensor, x: torch.Tensor, rank: int) -> torch.Tensor | NotTaken:
    inputs, outputs = x.shape[-rank:], grad.shape[-rank:]
    if not _is_taken(grad, inputs, outputs):
        return NOT_TAKEN
    if (tiles := _tiles(inputs, outputs)) is not None:
        return as_stored(spread_means(grad, tiles), x)
    areas = [_areas(x, i, o) for i, o in zip(inputs, outputs, strict=True)]
    return as_stored(_apply(grad, areas, True), x)


@part(_aten._adaptive_avg_pool2d_backward.default, narrow=True)
def adaptive_avg_pool2d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor | NotTaken:
    return _adaptive_backward(grad, x, 2)


@part(_aten._adaptive_avg_pool3d_backward.default, narrow=True)
def adaptive_avg_pool3d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor | NotTaken:
    return _adaptive_backward(grad, x, 3)


STICK = 64  # elements of 16 bits
_WHOLE = 1.5 * 2.0**23  # float32 has no fractions there: a sum with it is rounded, ties to even


def _taps(grid: torch.Tensor, size: int, nearest: bool, border: bool, align: bool) -> Taps:
    """What a coordinate in [-1, 1] reads of a dim; what is outside of it weighs nothing, and stands
    at the border."""
    last = float(size - 1)
    at = grid * ((last if align else size) / 2) + last / 2
    if border:
        at = at.clamp(0.0, last)
    first = (at + _WHOLE) - _WHOLE if nearest else at.floor()
    second = first + 1
    taps = [(first, torch.ones_like(at) if nearest else second - at)]
    if not nearest:
        taps.append((second, at - first))
    held = [(place.clamp(0.0, last), weight) for place, weight in taps]
    if border:  # where at is the last place, nothing of the second one is taken
        return held
    return [
        (inside, weight * (1 - (place - inside).abs().clamp(max=1.0)))
        for (place, _), (inside, weight) in zip(taps, held, strict=True)
    ]


def _in_line(x: torch.Tensor) -> torch.Tensor:
    """Images [.., H, W] as lines of all first sticks of their rows, then all second ones, .."""
    width = x.shape[-1]
    if width % STICK:
        x = F.pad(x, (0, -width % STICK))
    if width > STICK:
        x = x.reshape(*x.shape[:-1], -1, STICK).transpose(-3, -2).contiguous()
    return x.flatten(2)


def _columns(x: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Where a place of the first row is in such a line."""
    if width <= STICK:
        return x
    return x + (x * (1 / STICK)).floor() * float((height - 1) * STICK)


@part(_aten.grid_sampler_2d.default, narrow=True)
def grid_sampler_2d(
    x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align: bool
) -> torch.Tensor | NotTaken:
    """Bilinear (0) and nearest (1), zeros (0) or the border (1) around the image."""
    batch, channels, height, width = x.shape
    most = height * (width + STICK)
    own = mode < 2 and padding < 2 and x.dtype in computed() and x.dtype == grid.dtype
    if not own or most > MOST_WEIGHTS:
        return grid_sampler(x, grid, mode, padding, align)
    if x.numel() == 0 or grid.numel() == 0:
        return NOT_TAKEN
    line = _in_line(x)
    wide = grid.to(torch.float32).reshape(batch, 1, -1, 2)
    across, down = (
        _taps(wide.select(-1, i), size, mode == 1, padding == 1, align)
        for i, size in enumerate((width, height))
    )
    columns = [(_columns(place, height, width), weight) for place, weight in across]
    total = None
    for row, of_row in down:
        first = row * float(STICK)
        for column, of_column in columns:
            # A coordinate that is no number has some place.
            index = positions(first + column).clamp(0, line.shape[2] - 1)
            found = line.gather(2, index.expand(-1, channels, -1))
            share = found * (of_row * of_column).to(line.dtype)
            total = share if total is None else total + share
    assert total is not None
    return total.reshape(batch, channels, *grid.shape[1:3])
