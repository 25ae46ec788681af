# SPDX-License-Identifier: Apache-2.0
"""The numbers that two calls of an operator differ by when what they compute with has grown: of
each tensor its sizes, and those of all of its storage, where in it the tensor begins and how far it
goes."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from .. import _C
from .._pytorch.dispatch import Arguments

ONE, REPEATED = -1, -2  # dims of a view that no dim of the whole is


class Refused(Exception):
    """A call has no graph over its length: why."""


class View(NamedTuple):
    """A tensor as a part of all of its storage."""

    whole: Tensor
    starts: list[int]  # by dim of the whole
    counts: list[int]
    dims: list[int]  # by dim of the tensor: that of the whole, ONE or REPEATED; or see `order`
    order: list[int] | None = None  # the whole in another shape, its dims in this order


def _view_of(tensor: Tensor) -> View | None:
    """None for other tensors, and those without such a storage."""
    whole = _C.whole_of(tensor)
    if whole is None:
        return None
    return _part_of(whole, tensor) or _shaped(whole, tensor)


def _part_of(whole: Tensor, tensor: Tensor) -> View | None:
    """A tensor each dim of which walks along one of the whole."""
    sizes, strides, rest = list(whole.shape), list(whole.stride()), tensor.storage_offset()
    starts, counts, dims = list[int](), [1] * len(sizes), list[int]()
    for size, stride in zip(sizes, strides, strict=True):
        starts.append(rest // stride if size > 1 else 0)
        rest -= starts[-1] * stride
    by_stride = {stride: d for d, stride in enumerate(strides) if sizes[d] > 1}
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 1 or stride == 0:
            dims.append(ONE if size == 1 else REPEATED)
            continue
        dim = by_stride.pop(stride, None)
        if dim is None or starts[dim] + size > sizes[dim]:
            return None
        counts[dim] = size
        dims.append(dim)
    return View(whole, starts, counts, dims) if rest == 0 else None


def _shaped(whole: Tensor, tensor: Tensor) -> View | None:
    """All of the whole in another shape, maybe turned."""
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    is_all = tensor.numel() == whole.numel() and tensor.permute(order).is_contiguous()
    return View(whole, [0] * whole.dim(), list(whole.shape), [], order) if is_all else None


class Operands:
    """The tensors of a call, and its numbers."""

    def __init__(self, values: Arguments) -> None:
        self.tensors: list[Tensor] = []
        self.views: list[View | None] = []
        self.numbers: list[int] = []  # what may move
        self.of: list[int] = []  # of each tensor, where its numbers begin
        self.kind: Any = tuple([self._kind(value) for value in values])

    def _kind(self, value: Any) -> Any:
        """What does not move."""
        if isinstance(value, (list, tuple)):
            return tuple([self._kind(item) for item in value])
        if not isinstance(value, Tensor):
            return (type(value), value.hex() if isinstance(value, float) else value)
        for index, known in enumerate(self.tensors):
            if known is value:
                return index
        if value.device.type != "spyre":
            raise Refused("an operand of the host")
        view = _view_of(value)
        self.of.append(len(self.numbers))
        self.tensors.append(value)
        self.views.append(view)
        self.numbers += list(value.shape)
        if view is None:
            self.numbers += [*value.stride(), int(value.storage_offset())]
            return (value.dtype, value.device, value.dim())
        self.numbers += [*view.whole.shape, *view.starts, *view.counts]
        return (value.dtype, value.device, view.whole.dim(), *view.dims, tuple(view.order or ()))

    def places(self, index: int, dim: int) -> tuple[int, int, int]:
        """Where a view's size, start and count along a dim of the whole are among the numbers."""
        view = self.views[index]
        assert view is not None
        first, rank = self.of[index] + self.tensors[index].dim() + dim, view.whole.dim()
        return first, first + rank, first + 2 * rank

    def range(self, index: int) -> set[int]:
        """The places of an operand's numbers."""
        ends = [*self.of[1:], len(self.numbers)]
        return set(range(self.of[index], ends[index]))
