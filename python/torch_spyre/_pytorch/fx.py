# SPDX-License-Identifier: Apache-2.0
"""Nodes of FX graphs, whose own types say less than is known of an ATen graph: there a call's
target is an overload, and its arguments are values of every kind."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .compile_lock import compiling
from .dispatch import (
    OperatorBase,
    OpOverload,
    schema_of,
    with_transforms,
    without_autocast,
    without_modes,
)
from .fake import refusals_are_raised

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)  # sizes and conditions that are traced


def overload_of(node: torch.fx.Node) -> OpOverload:
    """The operator that a node of an ATen graph calls."""
    assert isinstance(node.target, OpOverload), f"{node.name} calls {node.target}"
    return node.target


def maker_of(node: torch.fx.Node) -> torch.fx.Node:
    """The call of an operator that a node is a result of: itself, or for one of several results
    the node that it takes it from."""
    return node.all_input_nodes[0] if node.target is operator.getitem else node


def arguments_of(node: torch.fx.Node) -> tuple[Any, ...]:
    """The positional arguments: nodes, numbers, lists of these."""
    return node.args


def made_by(tensor: torch.Tensor) -> torch.fx.Node | None:
    """The call that has the tensor as its result in the graph that is being traced, if any is."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

    mode = get_proxy_mode()
    slot = None if mode is None else get_proxy_slot(tensor, mode.tracer, None)
    return None if slot is None else slot.proxy.node


def results_of(graph: torch.fx.Graph) -> tuple[Any, ...]:
    """What the graph returns: nodes and constants."""
    return tuple(arguments_of(graph.output_node())[0])


def trace(
    function: Callable[..., Any],
    tensors: Sequence[torch.Tensor],
    decompositions: Mapping[OperatorBase, Callable[..., Any]],
) -> torch.fx.GraphModule:
    """The ATen graph of function(*tensors), without writes into tensors. The tensors are not read;
    what the function raises of them is raised here."""
    traced = torch.func.functionalize(function, remove="mutations")
    table: dict[Any, Callable[..., Any]] = dict(decompositions)
    with (
        compiling(),
        warnings.catch_warnings(),
        torch.no_grad(),
        without_modes(),
        with_transforms(),
        without_autocast(),
        refusals_are_raised(),
    ):
        from torch.fx.experimental.proxy_tensor import make_fx

        warnings.simplefilter("ignore")  # what the tracer warns of may be an error to the caller
        tracer = make_fx(traced, decomposition_table=table, tracing_mode="fake")
        gm: torch.fx.GraphModule = tracer(*tensors)
    _drop_views(gm.graph)
    gm.graph.eliminate_dead_code()
    return gm


def _drop_views(graph: torch.fx.Graph) -> None:
    """Views that have the sizes and strides of what they view stand for nothing."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        source = node.args[0]
        made, viewed = node.meta["val"], source.meta["val"]
        if (made.shape, made.stride()) == (viewed.shape, viewed.stride()):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _is_shared(result: torch.fx.Node) -> bool:
    if not isinstance(result.target, OpOverload):
        return result.op == "placeholder"
    return any(value.alias_info is not None for value in schema_of(overload_of(result)).returns)


def copy_views(gm: torch.fx.GraphModule) -> None:
    """Results that are views of a value of the graph, or inputs of it, become copies: tensors of
    their own."""
    output = gm.graph.output_node()
    copies: dict[Any, torch.fx.Node] = {}
    for result in results_of(gm.graph):
        if not isinstance(result, torch.fx.Node) or result in copies or not _is_shared(result):
            continue
        with gm.graph.inserting_before(output):
            copy = gm.graph.call_function(torch.ops.aten.clone.default, (result,))
        copy.meta = {**result.meta, "val": result.meta["val"].clone()}
        copies[result] = copy
    output.args = ([copies.get(result, result) for result in results_of(gm.graph)],)
    gm.recompile()


def replace_first(gm: torch.fx.GraphModule) -> None:
    """The only result, if it is of the same sizes and dtype, is copied over the first tensor."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    results = results_of(gm.graph)
    if not placeholders or len(results) != 1 or not isinstance(results[0], torch.fx.Node):
        return
    first, made = placeholders[0].meta["val"], results[0].meta["val"]
    if (first.dtype, first.shape) != (made.dtype, made.shape):
        return
    output = gm.graph.output_node()
    with gm.graph.inserting_before(output):
        copy = gm.graph.call_function(torch.ops.aten.copy_.default, (placeholders[0], results[0]))
    copy.meta = dict(placeholders[0].meta)
    output.args = ([copy],)
    gm.recompile()
