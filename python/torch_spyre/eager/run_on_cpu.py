# SPDX-License-Identifier: Apache-2.0
"""Operators on the CPU: what the card has no program for, on copies of its tensors."""

from __future__ import annotations

import contextlib
import functools
import re
import time
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch

from .. import _C, _fallback
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from ..compile import node_arguments
from ..compile.registered import fallback_ops
from .random_numbers import Generators, check_generators, drawn_for

_aten = torch.ops.aten


def warn_wide() -> bool:
    """Warns of int64 values on their way to the card that it does not hold; True when it need not
    be called again."""
    if not _C.get_downcast_warning():
        return False
    warnings.warn(
        "int64 values outside 32 bits: the card keeps them, and operators on them run on the host",
        UserWarning,
        stacklevel=_fallback.user_level(),
    )
    return not torch.is_warn_always_enabled()


def run_on_cpu(op: OpOverload, args: Arguments, kwargs: Keywords, reason: str | None = None) -> Any:
    """Runs `op` on CPU copies; results return to the card, what it wrote is copied back.

    With a `reason` it is a fallback (_fallback.py) if the operator reads a tensor of the card, once
    PyTorch's kernel has found nothing wrong with the arguments."""
    node_arguments.check_devices(op, args, kwargs)
    began = time.perf_counter()
    copies = _Copies(op, args, kwargs)
    cpu_args, cpu_kwargs = pytree.mapped(copies.to_cpu, (args, kwargs))
    check_generators(pytree.leaves((args, kwargs)), copies.device)
    function = fallback_ops.get(op)
    with drawn_for(copies.device, op, cpu_args, cpu_kwargs) as cpu_kwargs:
        if function is None:
            results = call(op, cpu_args, cpu_kwargs)
        else:
            results = function(*_wrapped(op, cpu_args), **cpu_kwargs)
    is_fallback = copies.bytes_read > 0
    if reason is not None and is_fallback:
        operands = (value for argument, value in _named(op, args, kwargs) if not argument.is_out)
        _fallback.meet(op, operands, reason)
    copies.write_back()
    results = pytree.mapped(copies.to_card, results)
    if reason is not None:
        took = time.perf_counter() - began
        _fallback.account(op, reason, is_fallback, copies.bytes_read, copies.bytes_written, took)
    return results


# The vectorised kernel of PyTorch's CPU does not store what it computes of whole vectors in 16
# bits: only the elements behind the last whole vector change.
_LEAVES_16_BITS = {_aten._fused_sgd, _aten._fused_sgd_}
# Devices have a kernel for integers, the CPU has not.
_FLOATS_ONLY = {_aten.histc}


def call(op: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Calls PyTorch's own kernel; where the CPU has none for 16 bits, the one for float32.

    PyTorch hands a number to a Python kernel in the place of a tensor without dimensions. Most
    operators take it back, and it leaves the dtype of such a tensor beside it as it is."""
    if op.overloadpacket in _LEAVES_16_BITS:
        dtypes = {getattr(leaf, "dtype", None) for leaf in pytree.leaves((args, kwargs))}
        for narrow in (torch.float16, torch.bfloat16):
            if narrow in dtypes:
                return _in_float32(op, args, kwargs, (narrow,))
    if op.overloadpacket in _FLOATS_ONLY and not args[0].dtype.is_floating_point:
        return op(args[0].double(), *args[1:], **kwargs).to(args[0].dtype)
    try:
        return op(*args, **kwargs)
    except NotImplementedError as error:
        if _mixes_floats(op, args):
            raise
        for name, narrow in _NARROW.items():
            if f"not implemented for '{name}'" not in str(error):
                continue
            with contextlib.suppress(NotImplementedError):  # of no float: that of the given dtype
                return _in_float32(op, args, kwargs, (narrow,))
        raise
    except RuntimeError as error:
        if not _mixes_floats(op, args):
            for name, narrow in _NARROW.items():
                if {"Float", name} == set(_EXPECTED.findall(str(error))):
                    return _in_float32(op, args, kwargs, (narrow,))
        if "but instead found type" not in str(error):
            raise
    return op(*_wrapped(op, args), **kwargs)


# A kernel of the CPU may want statistics of 16-bit operands in float32; those that the card's
# forward function gives a backward function have the dtype of its operands.
_EXPECTED = re.compile("(?:expected scalar type|but found) (\\w+)")
_NARROW = {"Half": torch.float16, "BFloat16": torch.bfloat16}


def _mixes_floats(op: OpOverload, args: Arguments) -> bool:
    """Whether there is no one dtype to compute in; a backward function gets from the card what the
    CPU's forward function would give in another dtype."""
    leaves = pytree.leaves(args)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    floats = {tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point}
    return len(floats) > 1 and not op.overloadpacket.__name__.endswith("backward")


def in_float32(op: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """The results as they come from 16-bit operands in float32: of statistics, which the CPU's
    kernels for 16 bits round."""
    return _in_float32(op, args, kwargs, _NARROW.values(), narrows=False)


def _in_float32(
    op: OpOverload,
    args: Arguments,
    kwargs: Keywords,
    narrow: Collection[torch.dtype],
    narrows: bool = True,
) -> Any:
    wide: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id of an argument: it, its cast

    def widened(value: Any) -> Any:
        if getattr(value, "dtype", None) not in narrow:
            return value
        if id(value) not in wide:
            wide[id(value)] = value, value.float()
        return wide[id(value)][1]

    def narrowed(value: Any) -> Any:
        if id(value) in originals:
            return originals[id(value)]
        if narrows and getattr(value, "dtype", None) == torch.float32:
            return value.to(next(iter(narrow)))
        return value

    results = op(*pytree.mapped(widened, args), **pytree.mapped(widened, kwargs))
    for value in pytree.leaves(_written(op, args, kwargs)):
        if id(value) in wide:
            cast = wide[id(value)][1]
            value.resize_(cast.shape).copy_(cast)
    originals = {id(cast): value for value, cast in wide.values()}
    return pytree.mapped(narrowed, results)


def _wrapped(op: OpOverload, values: Arguments) -> list[Any]:
    """The arguments with tensors in the place of numbers, where the operator wants tensors."""
    return [
        torch.tensor(value)
        if isinstance(value, (bool, int, float, complex)) and _is_tensor(argument)
        else value
        for argument, value in zip(schema_of(op).arguments, values, strict=False)
    ]


def _is_tensor(argument: torch.Argument) -> bool:
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


class _Copies:
    """The CPU's copies of one call's tensors and generators.

    Tensors that share a storage, and tensors whose elements share memory, are copied with their
    storage when the operator writes one of them: the CPU's kernel sees the same overlap and takes
    or refuses it as PyTorch does. Copies of what is written are never the tensors that PyTorch's
    kernels resize or replace: `write_back` moves values and sizes.
    """

    def __init__(self, op: OpOverload, args: Arguments, kwargs: Keywords) -> None:
        self.op = op
        self.device: torch.device | None = None
        self.bytes_read = 0  # of the card
        self.bytes_written = 0
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id(copy): original, copy
        self._copy_of: dict[int, torch.Tensor] = {}  # id of an original: its one copy
        self.generators = Generators()
        self._storages: dict[int, torch.Tensor] = {}  # address of a storage: its copy, flat
        self._written = list(_on_card(_written(op, args, kwargs)))
        self._only_written = _only_written(op, args, kwargs) if self._written else set[int]()
        self._shared = _shared(self._written, (args, kwargs)) if self._written else set()

    def to_cpu(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "spyre":
            self.device = value.device
            if id(value) not in self._copy_of:
                copy = self._copy_of[id(value)] = self._copy(value)
                self._copies[id(copy)] = (value, copy)
            return self._copy_of[id(value)]
        if isinstance(value, torch.device) and value.type == "spyre":
            self.device = self.device or value
            return torch.device("cpu")
        if isinstance(value, torch.Generator) and value.device.type == "spyre":
            return self.generators.copy(value)
        return value

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in self._only_written and _storage(tensor) not in self._shared:
            # Its values are not read, but PyTorch looks at its sizes and strides.
            return torch.empty_like(tensor, device="cpu")
        if _storage(tensor) in self._shared:
            return self._mirrored(tensor)
        self.bytes_read += _bytes_of(tensor)
        return tensor.cpu()

    def _mirrored(self, tensor: torch.Tensor) -> torch.Tensor:
        """The copy of a tensor as a view of the copy of its storage."""
        address = _storage(tensor)
        if address not in self._storages:
            flat = _flat(tensor).cpu()
            self.bytes_read += flat.nbytes
            self._storages[address] = flat
        flat = self._storages[address]
        return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def write_back(self) -> None:
        """What the operator wrote, and the states of generators."""
        self.generators.write_back()
        if not self._written:
            return
        written = {id(tensor) for tensor in self._written}
        for original, copy in self._copies.values():
            if id(original) not in written:
                continue
            if original.layout == torch.sparse_coo:
                copy = copy.to(original.device)
            elif original.shape != copy.shape:
                original.resize_(copy.shape)
            if _storage(original) in self._storages and overlaps(original):
                # Each place once; the CPU has judged whether it may be written to more than once.
                original, copy = _flat(original), self._storages[_storage(original)]
            original.copy_(copy)
            self.bytes_written += _bytes_of(copy)

    def to_card(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in self._copies:
            return self._copies[id(value)][0]
        if self.device is None or value.device.type != "cpu":
            return value
        self.bytes_written += _bytes_of(value)
        return value.to(self.device)


def _bytes_of(tensor: torch.Tensor) -> int:
    """Of its elements; of a sparse tensor, of what it holds."""
    if tensor.layout == torch.strided:
        return tensor.nbytes
    if tensor.layout == torch.sparse_coo:
        return tensor._values().nbytes + tensor._indices().nbytes
    return 0


def _storage(tensor: torch.Tensor) -> int:
    """Its address; that of the values of a sparse tensor."""
    strided = tensor if tensor.layout == torch.strided else tensor._values()
    return strided.untyped_storage().data_ptr()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of its storage."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((elements,), (1,), 0)


def _on_card(values: object) -> Iterable[torch.Tensor]:
    for leaf in pytree.leaves(values):
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "spyre":
            yield leaf


# Schemas that do not tell what they write.
_UNDECLARED = {
    _aten.native_batch_norm.default: ("running_mean", "running_var"),
    _aten.batch_norm_update_stats.default: ("running_mean", "running_var"),
}


def _named(
    op: OpOverload, args: Arguments, kwargs: Keywords
) -> Iterator[tuple[torch.Argument, Any]]:
    for index, argument in enumerate(schema_of(op).arguments):
        yield argument, args[index] if index < len(args) else kwargs.get(argument.name)


@functools.lru_cache(maxsize=1024)
def _writes(op: OpOverload) -> frozenset[str]:
    """Names of the arguments that the operator writes."""
    return frozenset(_UNDECLARED.get(op, ())) | {
        argument.name
        for argument in schema_of(op).arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    }


def _written(op: OpOverload, args: Arguments, kwargs: Keywords) -> list[Any]:
    """The arguments that the operator writes."""
    names = _writes(op)
    if not names:
        return []
    return [value for argument, value in _named(op, args, kwargs) if argument.name in names]


# In-place operators that read nothing of what they fill.
FILLS = {
    *(packet.default for packet in (_aten.cauchy_, _aten.exponential_, _aten.geometric_,
                                    _aten.log_normal_, _aten.normal_, _aten.uniform_)),
    *(getattr(_aten.random_, overload) for overload in _aten.random_.overloads()),
    _aten.bernoulli_.float, _aten.fill_.Scalar,
}  # fmt: skip


def _only_written(op: OpOverload, args: Arguments, kwargs: Keywords) -> set[int]:
    """Ids of the tensors whose values the operator never reads: out= that is no operand as well,
    and what it fills with numbers."""
    filled = op in FILLS
    ids: set[int] = set()
    read: set[int] = set()
    for argument, value in _named(op, args, kwargs):
        only = argument.is_out or (filled and argument.alias_info is not None)
        (ids if only else read).update(map(id, _on_card(value)))
    return ids - read


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether several of its elements may be one place in memory; True where that is not plain."""
    if tensor.layout != torch.strided or tensor.is_contiguous():
        return False
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return True
            reach += (size - 1) * stride
    return False


def _shared(written: list[torch.Tensor], values: object) -> set[int]:
    """Storages of written tensors that another tensor of the call has, too, or that hold several
    elements in one place."""
    by_storage: dict[int, set[int]] = {}
    for tensor in _on_card(values):
        by_storage.setdefault(_storage(tensor), set()).add(id(tensor))
    return {
        _storage(tensor)
        for tensor in written
        if len(by_storage[_storage(tensor)]) > 1 or overlaps(tensor)
    }
