# SPDX-License-Identifier: Apache-2.0
"""Operators that the compiler has no row for, taken apart by PyTorch's decompositions: one program
of the graph that torch.compile() would make of the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, OpOverload, schema_of
from ..compile import node_arguments
from ..compile.integers import integer_overflow, integer_watch
from ..compile.register_decomposition import keeps_narrow
from .result_metadata import EMPTY, results_of

if TYPE_CHECKING:
    from ..compile.graph_builder import GraphBuilder


class Parts(NamedTuple):
    """The graph of one call."""

    graph: _C.Graph  # its inputs are the tensors of the call, in their order
    outputs: list[int | None]  # ids of values, or EMPTY; None for a result that is not wanted
    single: bool  # the call returns a tensor, not several


def call(op: OpOverload, values: Arguments) -> Any:
    """What the decomposition of an operator makes of the arguments, in the order of the schema."""
    from ..compile import decomposition_table

    return _apply(op, values, decomposition_table.table(alone=True))


def split(op: OpOverload, values: Arguments) -> tuple[Arguments, dict[str, Any]]:
    """Arguments in the order of the schema as those by position and those by name."""
    arguments = schema_of(op).arguments
    named = {a.name: v for a, v in zip(arguments, values, strict=True) if a.kwarg_only}
    return values[: len(values) - len(named)], named


def _apply(op: OpOverload, values: Arguments, table: Any) -> Any:
    given, named = split(op, values)
    return table[op](*given, **named)


def parts_of(
    op: OpOverload, values: Arguments, tensors: Sequence[Tensor], in_place: bool = False
) -> Parts | None:
    """The graph of op(*values), whose tensors are `tensors`; `values` are in the order of the
    schema. With `in_place` the result replaces the first tensor. None when PyTorch does not take
    the operator apart.

    Raises: Unsupported for a call whose graph the compiler cannot represent.
    """
    from .._pytorch import fx
    from ..compile import decomposition_table
    from ..compile.graph_builder import GraphBuilder, Inexpressible
    from ..compile.traced_sizes import node_values

    table = decomposition_table.table(alone=True)
    if op not in table:
        return None
    wanted = results_of(op, values)
    wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
    gm, single, empty = _trace(op, values, tensors, table, wanted)
    if in_place:
        fx.replace_first(gm)
    narrow = keeps_narrow(table[op])
    values_of = node_values(gm, tensors)
    builder = GraphBuilder(
        gm, values_of, tensors[0].device, keeps_narrow=narrow, place=f"eager {op}"
    )
    try:
        builder.build(tensors)
    except Inexpressible as reason:
        raise _C.Unsupported(f"its decomposition: {reason}") from reason
    if not narrow and not integer_overflow.is_at_risk(
        op, values
    ):  # each call of those is looked at
        _expect_narrow(builder)
    if [index for _value, index in builder.inputs] != list(range(len(tensors))):
        raise _C.Unsupported("its decomposition has tensors of its own")
    outputs = list[int | None]()
    for index, result in enumerate(builder.outputs):
        if result is None:
            outputs.append(EMPTY if index in empty else None)
            continue
        number = builder.ids.get(result) if isinstance(result, torch.fx.Node) else None
        if not isinstance(number, int):
            raise _C.Unsupported("its decomposition has results other than tensors")
        outputs.append(number)
    found = [None if result is None else builder.values[result] for result in builder.outputs]
    _expect_results(op, wanted, found)
    return Parts(builder.graph, outputs, single)


NOT_TAKEN = "its decomposition does not take these arguments"


class _NotTaken(Exception):
    """A decomposition has answered with NotImplemented."""


def _trace(
    op: OpOverload,
    values: Arguments,
    tensors: Sequence[Tensor],
    table: Any,
    wanted: Sequence[Tensor | None],
) -> tuple[torch.fx.GraphModule, bool, set[int]]:
    """The graph, which returns a list, in the strides of `wanted`; whether the call returns a
    single tensor; and which results are EMPTY, None in the list."""
    from .._pytorch import fx

    places = {id(tensor): index for index, tensor in enumerate(tensors)}
    single, empty = True, set[int]()

    def call(*given: Tensor) -> list[Any]:
        nonlocal single
        here = pytree.mapped(
            lambda value: given[places[id(value)]] if isinstance(value, Tensor) else value,
            list(values),
        )
        results = _apply(op, here, table)
        if results is NotImplemented:
            raise _NotTaken
        single = isinstance(results, Tensor)
        results = [results] if single else list(results)
        first, *others = results
        for index, result in enumerate(others, 1):
            tensors_both = isinstance(first, Tensor) and isinstance(result, Tensor)
            if tensors_both and result.shape == (0,) and result.dtype == first.dtype:
                empty.add(index)
                results[index] = None
        return [_in_order_of(*pair) for pair in zip(wanted, results, strict=True)]

    try:
        gm = fx.trace(call, tensors, table)
        fx.copy_views(gm)
        return gm, single, empty
    except _C.InternalError:
        raise
    except _NotTaken:
        raise _C.Unsupported(NOT_TAKEN) from None
    except Exception as refused:  # decompositions are Python, and raise anything
        first = (str(refused).splitlines() or [type(refused).__name__])[0]
        raise _C.Unsupported(f"{NOT_TAKEN}: {first}") from None


def _in_order_of(wanted: Tensor | None, result: Any) -> Any:
    """The result with its dims in memory as those of `wanted`, where that is dense."""
    if wanted is None or not isinstance(result, Tensor) or wanted.shape != result.shape:
        return result
    long = [dim for dim, size in enumerate(wanted.shape) if size > 1]
    if all(wanted.stride(dim) == result.stride(dim) for dim in long):
        return result
    strides, step = wanted.stride(), 1
    order = sorted(range(wanted.dim()), key=lambda dim: (-strides[dim], dim))
    for dim in reversed(order):  # by numbers: `wanted` is of another device than what is traced
        if wanted.shape[dim] > 1 and strides[dim] != step:
            return result
        step *= wanted.shape[dim]
    back = [order.index(dim) for dim in range(len(order))]
    return result.permute(order).contiguous().permute(back)


# Their parts keep float32 for the gradient, as PyTorch's kernels for devices do; what PyTorch says
# of their results is of the CPU.
_KEEP_FLOAT32 = {
    torch.ops.aten._native_batch_norm_legit_functional.default,
    torch.ops.aten._batch_norm_with_update_functional.default,
    torch.ops.aten.native_group_norm.default,
    torch.ops.aten.native_group_norm_backward.default,  # of float32 statistics
}


def _expect_results(
    op: OpOverload, wanted: Sequence[Tensor | None], found: Sequence[Tensor | None]
) -> None:
    """Some decompositions give other results than the operator."""
    pairs = [(w, f) for w, f in zip(wanted, found, strict=True) if f is not None]
    wide = op in _KEEP_FLOAT32
    if any(w is None or w.shape != f.shape or (w.dtype != f.dtype and not wide) for w, f in pairs):
        raise _C.Unsupported("its decomposition gives other dtypes or sizes")


def _expect_narrow(builder: GraphBuilder) -> None:
    """Integers between the parts are not looked at in a launch, so that none may leave 32 bits
    whatever the operands are."""
    inputs = {value for value, _index in builder.inputs}
    watch = integer_watch.Watch(
        builder.nodes, inputs, builder.ids, builder.values, node_arguments.positional
    )
    if builder.casts or watch.risky and (watch.read or watch.failing({})):
        raise _C.Unsupported("its decomposition computes integers that may leave 32 bits")


__all__ = ["Parts", "call", "parts_of"]
