# SPDX-License-Identifier: Apache-2.0
"""Operands that PyTorch lets lie on the host beside a tensor of the device: indices, which go to
the card, and numbers in tensors without dimensions, which the operator's form for numbers takes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from ..compile.node_arguments import INDEXED
from . import data_dependent_sizes

_aten = torch.ops.aten


def takes_indices(op: OpOverload) -> bool:
    """Whether it has indices, (x, indices, ..), which may lie on the host."""
    return schema_of(op).name.split("::")[1] in INDEXED


def with_indices_on_card(op: OpOverload, args: Arguments, kwargs: Keywords) -> Arguments:
    """The arguments with indices, and a number to write, beside a tensor of the card. Reading at a
    mask is reading at the indices of what it chooses; so is writing a value for each of these."""
    if len(args) < 2 or args[0].device.type != "spyre":
        return args
    x, given, *rest = args
    given = [_without_bytes(index) for index in given]
    if rest and rest[0].dim() == 0:  # a number to write
        rest[0] = _beside(x, rest[0])
    is_counted = "put" not in schema_of(op).name or _differ(x, given, rest[0])
    found = data_dependent_sizes.at_masks(x, given) if is_counted else given
    return (x, [_beside(x, index) for index in found], *rest)


def _differ(x: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> bool:
    """Whether places that masks choose get values of their own, or another index is beside one."""
    given = [index for index in indices if index is not None]
    if all(index.dtype is not torch.bool for index in given):
        return False
    behind = x.dim() - sum(1 if index is None else index.dim() for index in indices)
    return len(given) > 1 or values.dim() > behind >= 0 and values.shape[-1 - behind] != 1


def _without_bytes(index: Tensor | None) -> Tensor | None:
    """A mask of bytes, which PyTorch still takes and warns of, as one of bools."""
    if index is None or index.dtype is not torch.uint8:
        return index
    message = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool"
    warnings.warn(f"{message} instead.", stacklevel=2)
    return index != 0


def _beside(x: Tensor, operand: Tensor | None) -> Tensor | None:
    return operand if operand is None or operand.device.type != "cpu" else operand.to(x.device)


def form_for_numbers(op: OpOverload) -> OpOverload | None:
    """Of `op(.., Tensor value)` the overload that takes a number in its place, of operators whose
    tensor form PyTorch's shape functions refuse a tensor of the host."""
    packet, schema = op.overloadpacket, schema_of(op)
    if packet.__name__.rstrip("_") not in ("fill", "masked_fill", "index_fill"):
        return None
    name = schema.overload_name.replace("Tensor", "Scalar")
    return getattr(packet, name) if name != schema.overload_name else None


def holds_number(args: Arguments) -> bool:
    """Whether the last argument is a tensor of the host without dimensions."""
    value = args[-1] if args else None
    return isinstance(value, Tensor) and value.dim() == 0 and value.device.type == "cpu"
