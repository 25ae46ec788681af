# SPDX-License-Identifier: Apache-2.0
"""Functions of `torch_spyre._C` that need nothing of C, by torch-spyre's names and signatures
(torch-spyre/torch-spyre, `torch_spyre/_C.pyi`, `torch_spyre/csrc/module.cpp`)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import torch

from .. import _C
from .._formats import CardEnum
from .._pytorch.fake import FakeTensor
from ..constants import BYTES_IN_STICK
from . import native_logging, provenance, streams
from .streams import Device, StreamHandle

# ---- tensors


def spyre_empty_with_layout(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    layout: _C.SpyreTensorLayout,
    device: Device = None,
) -> torch.Tensor:
    """An uninitialised tensor of the card whose storage has `layout`; `stride` in elements.

    Raises: ValueError for another device, Unsupported for a layout that does not hold the sizes.
    """
    place = torch.device("spyre" if device is None else device)
    if place.type != "spyre":
        raise ValueError(f"device_layout: expected a spyre device, got {place}")
    card = _C.current_device() if place.index is None else place.index
    made: torch.Tensor = torch.ops.spyre._empty_with_layout(
        list(size), list(stride), dtype, _C._layout_address(layout), card
    )
    return made


def device_tensor_layout(tensor: torch.Tensor) -> _C.SpyreTensorLayout | None:
    """The layout of a tensor's storage; None when it is not on the card or has no values."""
    if tensor.device.type != "spyre" or isinstance(tensor, FakeTensor):
        return None
    return _C.get_spyre_tensor_layout(tensor)


def empty_with_layout(
    size: Sequence[int],
    layout: _C.SpyreTensorLayout,
    dtype: torch.dtype | None = None,
    device: Device = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """An uninitialised contiguous tensor of these sizes; dtype None is PyTorch's default.

    Raises: RuntimeError for pinned memory or another memory format, ValueError for another device.
    """
    if pin_memory or memory_format not in (
        None,
        torch.contiguous_format,
        torch.preserve_format,
    ):
        raise RuntimeError(
            "empty_with_layout: Spyre backend only supports contiguous memory format, not pinned"
        )
    dtype = torch.get_default_dtype() if dtype is None else dtype
    contiguous = torch.empty(size, dtype=dtype, device="meta").stride()
    return spyre_empty_with_layout(size, contiguous, dtype, layout, device)


def _lies_as(tensor: torch.Tensor, layout: _C.SpyreTensorLayout) -> bool:
    """Whether the storage has the layout; dims of one element say nothing of a place."""

    def places(of: _C.SpyreTensorLayout) -> tuple[list[tuple[int, int]], tuple[object, ...]]:
        steps = zip(of.device_size[:-1], of.stride_map[:-1], strict=True)
        inner = (of.device_size[-1], of.stride_map[-1], of.device_dtype, of.element_arrangement)
        return [step for step in steps if step[0] != 1], inner

    return places(layout) == places(_C.get_spyre_tensor_layout(tensor))


def _view(
    tensor: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
    layout: _C.SpyreTensorLayout,
) -> torch.Tensor:
    """A view of the storage, or of its card memory in another layout."""
    if _lies_as(tensor, layout):
        return torch.as_strided(tensor, size, stride, offset)
    if offset:
        raise _C.Unsupported(
            f"a view at element {offset} in a layout of its own: it begins where the storage does"
        )
    return _C._share_with_layout(tensor, size, stride, layout)


def as_strided_with_layout(
    self: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
    device_layout: _C.SpyreTensorLayout,
) -> torch.Tensor:
    """The view of these sizes and strides (elements); offset None is the tensor's own.

    In another layout than the storage's it is another tensor over the same card memory, whose bytes
    it reads and writes by that layout. PyTorch does not know that the two are related, and neither
    storage changes its layout from then on.

    Raises: Unsupported for a layout of its own with an offset, of another format, or of more bytes
    than the storage has.
    """
    offset = int(self.storage_offset()) if storage_offset is None else storage_offset
    return _view(self, size, stride, offset, device_layout)


def reinterpret_tensor(
    self: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset_increment: int = 0
) -> torch.Tensor:
    """As as_strided, from the tensor's own offset on."""
    offset = int(self.storage_offset()) + offset_increment
    return torch.as_strided(self, size, stride, offset)


def reinterpret_tensor_with_layout(
    self: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    offset_increment: int,
    stl: _C.SpyreTensorLayout,
) -> torch.Tensor:
    """as_strided_with_layout() from the tensor's own offset on; of the host, reinterpret_tensor().

    Raises: Unsupported as as_strided_with_layout().
    """
    if self.device.type != "spyre":
        return reinterpret_tensor(self, size, stride, offset_increment)
    return _view(self, size, stride, int(self.storage_offset()) + offset_increment, stl)


def check_fill(tensor: torch.Tensor) -> None:
    """Raises: RuntimeError for a tensor that fill_tensor() does not fill."""
    if tensor.device.type != "spyre" or tensor.numel() == 0:
        raise RuntimeError("fill_tensor: expected a tensor of the spyre device with elements")


def fill_tensor(self: torch.Tensor, value: float) -> torch.Tensor:
    """Fills a tensor of the card, which is returned.

    Raises: RuntimeError for a tensor of another device or without elements.
    """
    check_fill(self)
    return self.fill_(value)


def encode_constant(value: float, data_format: _C.DataFormats) -> int:
    """The bits of a number in a format of the card, as an unsigned integer."""
    lanes = data_format.elems_per_stick()
    layout = _C.SpyreTensorLayout([1, lanes], [-1, -1], data_format)
    dtype = torch.int32 if "INT" in data_format.name else torch.float32
    tensor = spyre_empty_with_layout([], [], dtype, layout)
    tensor.copy_(torch.tensor(value, dtype=dtype))
    return int.from_bytes(_C._card_bytes(tensor)[: BYTES_IN_STICK // lanes], "little")


# ---- launches


class SymbolicArgKind(CardEnum):
    """What a symbolic argument of a program stands for."""

    kAddress = 0
    kDimension = 1


@dataclasses.dataclass
class SymbolicArg:
    """One of a program's arguments: the address of tensor `tensor_id` of a launch, or the size of
    its dim `dim_index`."""

    kind: SymbolicArgKind
    tensor_id: int
    dim_index: int = -1
    value: int = -1  # of a size: what it must be, -1 for any


def _named(tensors: Sequence[torch.Tensor], number: int, arg: SymbolicArg) -> torch.Tensor:
    if not 0 <= arg.tensor_id < len(tensors):
        rule = f"tensor_id={arg.tensor_id} out of range [0, {len(tensors)})"
        raise RuntimeError(f"SymbolicArg[{number}].{rule}")
    return tensors[arg.tensor_id]


def _size(tensors: Sequence[torch.Tensor], number: int, arg: SymbolicArg) -> int:
    tensor = _named(tensors, number, arg)
    if not 0 <= arg.dim_index < tensor.dim():
        rule = f"dim_index={arg.dim_index} out of range [0, {tensor.dim()})"
        raise RuntimeError(f"SymbolicArg[{number}].{rule}")
    size = tensor.size(arg.dim_index)
    if arg.value not in (-1, size):
        raise RuntimeError(f"SymbolicArg[{number}].value={arg.value}, the tensor has {size}")
    return size


def _resolve_symbolic_args(
    tensors: Sequence[torch.Tensor], symbolic_args: Sequence[SymbolicArg]
) -> list[int]:
    """What each argument stands for in a launch with these tensors: a card address, or a size.

    Raises: RuntimeError for a tensor or dim that is not there and a size that is not `value`.
    """
    return [
        _C._card_address(_named(tensors, number, arg))
        if arg.kind == SymbolicArgKind.kAddress
        else _size(tensors, number, arg)
        for number, arg in enumerate(symbolic_args)
    ]


def _chosen_tensors(
    tensors: Sequence[torch.Tensor], symbolic_args: Sequence[SymbolicArg]
) -> list[torch.Tensor]:
    """The tensors of a launch in the order of the program's arguments; a program takes sizes from
    its tensors.

    Raises: RuntimeError as _resolve_symbolic_args().
    """
    chosen = []
    for number, arg in enumerate(symbolic_args):
        if arg.kind == SymbolicArgKind.kAddress:
            chosen.append(_named(tensors, number, arg))
        else:
            _size(tensors, number, arg)
    return chosen


# ---- streams


class SpyreStreamError(CardEnum):
    """Why a stream refuses work."""

    Success = 0
    Shutdown = 1  # refuses work


class SpyreDeviceState(CardEnum):
    """Of all cards of the process together."""

    Ok = 0
    NotInitialized = 1
    StreamError = 2


def get_stream_from_pool(device: Device, priority: int = 0) -> StreamHandle:
    """A stream of the card; priority 0 is low, any other one high."""
    return StreamHandle(device, priority)


def _handle(stream: streams.Stream) -> StreamHandle:
    return StreamHandle(stream._card, stream_id=stream._id)


def current_stream(device: Device = None) -> StreamHandle:
    """The stream of a card in which this thread's work runs."""
    return _handle(streams.current_stream(device))


def default_stream(device: Device = None) -> StreamHandle:
    """Stream 0 of a card."""
    return _handle(streams.default_stream(device))


def set_current_stream(stream: torch.Stream) -> StreamHandle:
    """Makes a stream the current one of its card; the one that was."""
    return _handle(streams.exchange_stream(stream))


_host_streams = itertools.count()  # how often host_compute_stream() was called


def host_compute_stream(device: Device = None) -> StreamHandle:
    """The next one of the card's low streams in turn: what the host computes for a launch runs in
    the launch's own stream here, so any stream will do."""
    return StreamHandle(device, stream_id=1 + next(_host_streams) % _C.LOW_STREAMS)


def host_compute_stream_by_id(id: int, device: Device = None) -> StreamHandle:
    """The stream of this number.

    Raises: RuntimeError for a number that host_compute_stream() does not give.
    """
    if not 1 <= id <= _C.LOW_STREAMS:
        raise RuntimeError(f"host_compute_stream_by_id: {id} is not in 1..{_C.LOW_STREAMS}")
    return StreamHandle(device, stream_id=id)


def stream_get_error(stream: torch.Stream) -> SpyreStreamError:
    """Whether the stream refuses work because of an earlier error."""
    failed = streams.as_stream(stream).failed()
    return SpyreStreamError.Shutdown if failed else SpyreStreamError.Success


def stream_get_error_string(error: SpyreStreamError) -> str:
    """The name of the error."""
    return SpyreStreamError(error).name


def get_device_state() -> SpyreDeviceState:
    """StreamError when a stream of any card refuses work."""
    if not _C.is_started():
        return SpyreDeviceState.NotInitialized
    numbers = range(1 + _C.LOW_STREAMS + _C.HIGH_STREAMS)
    cards = range(_C.device_count())
    failed = any(_C._stream_failed(card, number) for card in cards for number in numbers)
    return SpyreDeviceState.StreamError if failed else SpyreDeviceState.Ok


# ---- random numbers; card -1 is the current one


def _generator(card: int) -> torch.Generator:
    return _C._get_default_generator(card)


def manual_seed(seed: int, device: int = -1) -> None:
    """Seeds the generator of one card."""
    _generator(device).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all cards."""
    for card in range(_C.device_count()):
        manual_seed(seed, card)


def initial_seed(device: int = -1) -> int:
    """The seed of a card's generator."""
    return _generator(device).initial_seed()


def get_rng_state(device: int = -1) -> torch.Tensor:
    """The state of a card's generator: uint8 [bytes], on the host."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: int = -1) -> None:
    """Sets what get_rng_state() returned."""
    _generator(device).set_state(new_state)


def install() -> None:
    for function in (
        spyre_empty_with_layout, empty_with_layout, as_strided_with_layout, reinterpret_tensor,
        reinterpret_tensor_with_layout, fill_tensor, encode_constant,
        SpyreStreamError, SpyreDeviceState, get_stream_from_pool, stream_get_error,
        stream_get_error_string, get_device_state, current_stream, default_stream,
        set_current_stream, streams.synchronize, manual_seed, manual_seed_all, initial_seed,
        get_rng_state, set_rng_state, SymbolicArgKind, SymbolicArg, _resolve_symbolic_args,
        _chosen_tensors, host_compute_stream, host_compute_stream_by_id,
        provenance.extract_kernel_provenance_key, provenance.register_kernel_provenance,
        provenance.lookup_kernel_provenance, provenance.kernel_provenance_registry_stats,
    ):  # fmt: skip
        setattr(_C, function.__name__, function)
    _C.AIUPTI_ACTIVITY_NAME_MAX_BYTES = provenance.AIUPTI_ACTIVITY_NAME_MAX_BYTES
    _C._logging = native_logging.make_module()
    _C._SpyreStreamBase = StreamHandle
