# SPDX-License-Identifier: Apache-2.0
"""From PyTorch's operators and values to the compiler's graph: arguments and result types."""

from __future__ import annotations

import os

import torch

from . import _C


def cores() -> int:
    return min(32, max(1, int(os.environ.get("SENCORES", "32"))))


def compile_graph(graph: _C.Graph, host_fallback: bool) -> _C.Executable:
    """Compiles with the options of the environment; raises torch_spyre.Unsupported."""
    return _C.compile(
        graph,
        cores(),
        os.environ.get("SPYRE_SKIP_PASSES"),
        os.environ.get("SPYRE_DUMP_DIR"),
        os.environ.get("SPYRE_VERIFY", "1") == "1",
        host_fallback,
    )


def op_name(op: torch._ops.OpOverload) -> str:
    """ "aten.add.Tensor" """
    return str(op)


def positional(op: torch._ops.OpOverload, args, kwargs) -> list:
    """The arguments in the order of the schema, defaults filled in."""
    values = list(args)
    for argument in op._schema.arguments[len(values) :]:
        if argument.name in kwargs:
            values.append(kwargs[argument.name])
        else:
            values.append(argument.default_value if argument.has_default_value() else None)
    return values


def encode(value, value_id):
    """One argument as Graph.add_node() takes it; `value_id(x)` is an id, or None for no tensor."""
    number = value_id(value)
    if number is not None:
        return (number,)
    if isinstance(value, (list, tuple)):
        return [encode(item, value_id) for item in value]
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise _C.Unsupported(f"symbolic argument {value}")
    return value


def result_type(tensor: torch.Tensor, on_card: bool):
    """A result as Graph.add_node() takes it."""
    return (
        tensor.dtype,
        on_card,
        list(tensor.shape),
        list(tensor.stride()),
        tensor.storage_offset(),
    )
