# SPDX-License-Identifier: Apache-2.0
"""The forms of an operator that write into operands: in-place, out=, and running statistics.

They compute the functional form. That of an in-place form is written where the old contents are,
where it may be, so that a row written into a cache costs a row; elsewhere, as with out=, the result
takes the place of the old contents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _C
from .._fallback import user_level
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from ..compile import node_arguments
from ..compile.register_decomposition import parts
from ..compile.registered import spyre_decompositions
from . import fits_card, operand_dtypes
from .operator_program import Operator, operator_of
from .run_on_cpu import overlaps, run_on_cpu

_aten = torch.ops.aten

Kernel = Callable[[Arguments, Keywords], Any]


def functional_of(op: OpOverload) -> OpOverload | None:
    """The overload that takes the same arguments and returns what `op` writes."""
    name = schema_of(op).name.split("::")[1]
    is_augmented = name.startswith("__i") and name.endswith("__")  # __ilshift__
    packet = getattr(_aten, f"__{name[3:]}" if is_augmented else name.removesuffix("_"), None)
    wanted = [(a.name, str(a.type)) for a in schema_of(op).arguments if not a.is_out]
    for overload in packet.overloads() if packet else ():
        candidate: OpOverload = getattr(packet, overload)
        schema = schema_of(candidate)
        if any(a.alias_info is not None for a in schema.arguments):
            continue
        if [(a.name, str(a.type)) for a in schema.arguments] == wanted:
            return candidate
    return None


def in_place(op: OpOverload, functional: OpOverload) -> Kernel:
    there, apart = Operator(functional, in_place=True), operator_of(functional)

    def kernel(args: Arguments, kwargs: Keywords) -> Any:
        # The functional form may have other defaults (bernoulli_ has one, bernoulli has none).
        values = node_arguments.positional(op, args, kwargs)
        named = {
            a.name: v for a, v in zip(schema_of(op).arguments, values, strict=True) if a.kwarg_only
        }
        values = values[: len(values) - len(named)]
        target = args[0]
        operator = apart if _is_shared(target, [*values, *named.values()]) else there
        program, tensors, reason = operator.find(values, named)
        may_write = _may_write(op, target, tensors) and not _is_also_read(op, target, values)
        if program is None or not may_write:
            return run_on_cpu(op, args, kwargs, reason if program is None else _SHARED)
        result = program.run(tensors, tensors[0].device.index)
        if target.shape != result.shape or not _takes(op, target, result, args, kwargs):
            return run_on_cpu(op, args, kwargs, "its result has another shape or dtype")
        _C.note_scalars(operator.rules)
        program.remember(tensors, written=target)
        return target if program.writes_self else target.copy_(result)

    return kernel


def with_out(op: OpOverload, functional: OpOverload) -> Kernel:
    there, apart = Operator(functional, in_place=True), operator_of(functional)
    names = [argument.name for argument in schema_of(op).arguments if argument.is_out]

    def kernel(args: Arguments, kwargs: Keywords) -> Any:
        node_arguments.check_devices(op, args, kwargs)
        targets = [kwargs[name] for name in names]
        rest = {name: value for name, value in kwargs.items() if name not in names}
        # PyTorch calls many in-place forms as the out= form over the first operand.
        on_self = len(targets) == 1 and len(args) > 0 and targets[0] is args[0]
        shared = not on_self or _is_shared(targets[0], [*args, *rest.values()])
        operator = apart if shared else there
        program, tensors, reason = operator.find(args, rest)
        if program is None or not _may_write_all(op, targets, tensors):
            return run_on_cpu(op, args, kwargs, reason if program is None else _SHARED)
        results = program.run(tensors, tensors[0].device.index)
        results = results if len(targets) > 1 else [results]
        pairs = list(zip(targets, results, strict=True))
        if not all(_takes(op, target, result, args, kwargs) for target, result in pairs) or any(
            _is_resized_operand(target, result, tensors) for target, result in pairs
        ):
            return run_on_cpu(op, args, kwargs, "its result has another shape or dtype")
        if len(targets) == 1 and targets[0].shape == results[0].shape:
            _C.note_scalars(operator.rules)
            program.remember(tensors, written=targets[0])
        if program.writes_self:
            return targets[0]
        for target, result in pairs:
            _resize_out(op, target, result)
            target.copy_(result)
        return tuple(targets) if len(targets) > 1 else targets[0]

    return kernel


def _is_shared(target: Tensor, values: Sequence[Any]) -> bool:
    """Whether another tensor among the arguments lies in the target's memory."""
    storage = target.untyped_storage().data_ptr()
    return any(
        leaf is not target and leaf.untyped_storage().data_ptr() == storage
        for leaf in pytree.leaves(list(values))
        if isinstance(leaf, Tensor)
    )


def _is_also_read(op: OpOverload, target: Tensor, values: Sequence[Any]) -> bool:
    """Whether the target is an index or a source, too, whose elements are read at other places than
    it is written at: a mask, the argument behind the target, is read at the same."""
    others = values[2:] if target.dtype == torch.bool else values[1:]
    given = any(leaf is target for leaf in pytree.leaves(list(others)))
    return given and torch.Tag.pointwise not in op.tags


_SHARED = "what it writes shares memory with an operand, or with itself"


def _may_write(op: OpOverload, target: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Whether the result may be computed apart and then written into `target`: it shares memory
    with no operand, or is one that PyTorch writes so. Where not, PyTorch's own kernel decides."""
    if overlaps(target):
        return False
    storage = target.untyped_storage().data_ptr()
    for index, tensor in enumerate(tensors):
        if tensor.untyped_storage().data_ptr() != storage or tensor.numel() == 0:
            continue
        if tensor is target and index == 0 and _writes_self(op):
            continue
        same = (
            tensor.shape == target.shape
            and tensor.stride() == target.stride()
            and tensor.storage_offset() == target.storage_offset()
        )
        if not same or torch.Tag.pointwise not in op.tags:
            return False
    return True


def _writes_self(op: OpOverload) -> bool:
    """Whether the operator is an in-place form or the out= form of one that has such a form."""
    return not schema_of(op).arguments[-1].is_out or hasattr(
        _aten, op.overloadpacket.__name__ + "_"
    )


def _may_write_all(op: OpOverload, targets: Sequence[Tensor], tensors: Sequence[Tensor]) -> bool:
    storages = {target.untyped_storage().data_ptr() for target in targets}
    return len(storages) == len(targets) and all(_may_write(op, t, tensors) for t in targets)


def _takes(
    op: OpOverload, target: Tensor, result: Tensor, args: Arguments, kwargs: Keywords
) -> bool:
    """PyTorch's rule for the dtype of what is written: most element-wise operators cast within the
    kinds of numbers, others want their own dtype."""
    if target.dtype == result.dtype:
        return True
    if torch.Tag.pointwise not in op.tags or not torch.can_cast(result.dtype, target.dtype):
        return False
    return operand_dtypes.are_accepted(op, node_arguments.positional(op, args, kwargs))


def _is_resized_operand(target: Tensor, result: Tensor, tensors: Sequence[Tensor]) -> bool:
    return target.shape != result.shape and any(t is target for t in tensors)


def _resize_out(op: OpOverload, target: Tensor, result: Tensor) -> None:
    """PyTorch's rule for out= of another shape: it gets the order of dims of an element-wise
    result."""
    shape = result.shape
    if target.shape == shape:
        return
    if target.numel() != 0:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which does not match the required output shape {list(shape)}. "
            "This behavior is deprecated, and in a future PyTorch release outputs will not be "
            "resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            "resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=user_level(),
        )
    target.resize_(shape)
    if torch.Tag.pointwise in op.tags and target.stride() != result.stride():
        target.as_strided_(shape, result.stride())


def without_writes(op: OpOverload) -> Callable[..., Any] | None:
    """PyTorch's form of an operator that updates some of its operands (running statistics) which
    returns them behind its results instead, `<name>_functional`: an operator, of which there is one
    program, where a decomposition is registered for it, or else the device's parts."""
    from ..compile import decomposition_table

    packet = getattr(_aten, schema_of(op).name.split("::")[1] + "_functional", None)
    if packet is None or schema_of(op).overload_name:
        return None
    decomposition_table.table()  # with which all parts are there
    functional: OpOverload = packet.default
    return functional if functional in spyre_decompositions else parts.get(functional)


def that_updates(op: OpOverload, functional: Callable[..., Any]) -> Kernel:
    written = [i for i, a in enumerate(schema_of(op).arguments) if a.alias_info is not None]

    def kernel(args: Arguments, kwargs: Keywords) -> Any:
        values = node_arguments.positional(op, args, kwargs)
        results = functional(*values)
        if results is NotImplemented:
            fits_card.check_host(op, args, kwargs)
            return run_on_cpu(op, args, kwargs, "the card has no lowering for it")
        kept = results[: len(results) - len(written)]
        for index, result in zip(written, results[len(kept) :], strict=True):
            values[index].copy_(result)
        return kept[0] if len(kept) == 1 else tuple(kept)

    return kernel
