# SPDX-License-Identifier: Apache-2.0
"""Arguments and result types of operators as nodes of the compiler's graph have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload, schema_of
from .._pytorch.fx import SYMBOLIC
from .registered import fallback_ops

# Dtype, whether on the card, sizes, strides, offset.
ResultType = tuple[torch.dtype, bool, list[int], list[int], int]


class Scalar(NamedTuple):
    """A number that each launch gives, as an argument of a node: the launch's number `number`;
    `like` is one of its class (`_C.scalar_like`), of its type."""

    number: int
    like: int | float


_FINITE = torch.finfo(torch.float32)
_NARROW: dict[torch.dtype, torch.finfo | torch.iinfo] = {
    torch.float16: torch.finfo(torch.float16),
    **{dtype: torch.iinfo(dtype) for dtype in (torch.int16, torch.uint8, torch.int8)},
}


def number_range(dtypes: Iterable[torch.dtype]) -> tuple[float, float]:
    """The lowest and the largest number that a parameter may be beside operands of these dtypes."""
    ends = (_FINITE, *(_NARROW[dtype] for dtype in dtypes if dtype in _NARROW))
    return float(max(end.min for end in ends)), float(min(end.max for end in ends))


def op_name(op: OpOverload) -> str:
    """ "aten.add.Tensor"; a name that no row of the compiler has for what must run on the host."""
    return f"host.{op}" if op in fallback_ops else str(op)


def positional(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments in the order of the schema, defaults filled in."""
    values = list(args)
    for argument in schema_of(op).arguments[len(values) :]:
        if argument.name in kwargs:
            values.append(kwargs[argument.name])
        else:
            values.append(argument.default_value if argument.has_default_value() else None)
    return values


# Operators that take tensors of the host next to the card's: indices, and sources of copies.
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index",
           "_unsafe_index_put", "_index_put_impl"}  # fmt: skip
_COPIES = {"copy", "copy_", "_foreach_copy", "_foreach_copy_"}


def check_devices(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """PyTorch's rule: numbers and indices of the host aside, the tensors of an operator are on one
    device."""
    tensors = [leaf for leaf in pytree.leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if len({tensor.device for tensor in tensors}) < 2:
        return
    name = schema_of(op).name.split("::")[1]
    if name in _COPIES:
        return
    devices: dict[torch.device, str] = {}
    for index, argument in enumerate(schema_of(op).arguments):
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        may_be_of_host = name in INDEXED and argument.name == "indices"
        leaves = pytree.leaves(value)
        for place, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor) or leaf.device.type == "cpu" and may_be_of_host:
                continue
            if may_be_of_host and leaf.device != args[0].device:
                raise RuntimeError(
                    "indices should be either on cpu or on the same device as the indexed tensor "
                    f"({args[0].device}), but {argument.name}[{place}] is on {leaf.device}"
                )
            if leaf.dim() > 0 or leaf.device.type == "spyre" or argument.is_out:
                part = f"[{place}]" if isinstance(value, list | tuple) else ""
                devices.setdefault(leaf.device, argument.name + part)
    if len(devices) > 1:
        places = " and ".join(f"{name} on {device}" for device, name in devices.items())
        found = " and ".join(map(str, list(devices)[:2]))
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{found}! ({op} has {places})"
        )


def encode(value: Any, value_id: Callable[[Any], int | None]) -> Any:
    """One argument as Graph.add_node() takes it; `value_id(x)` is an id, or None for no tensor."""
    if isinstance(value, Scalar):
        return value
    number = value_id(value)
    if number is not None:
        return (number,)
    if isinstance(value, (list, tuple)):
        return [encode(item, value_id) for item in value]
    if isinstance(value, SYMBOLIC):
        raise _C.Unsupported(f"symbolic argument {value}")
    return value


def result_type(tensor: torch.Tensor, on_card: bool) -> ResultType:
    """A result as Graph.add_node() takes it."""
    return (
        tensor.dtype,
        on_card,
        list(tensor.shape),
        list(tensor.stride()),
        int(tensor.storage_offset()),
    )
