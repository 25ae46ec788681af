# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention as one node.

PyTorch asks the device which of its attention forms to take, and takes its own float32 composition
when the device has no answer. The answer here is the entry that devices may override; graphs and
eager calls then carry one node, which the compiler decomposes (glue.cpp has the answer).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ... import _C
from ..._pytorch.dynamo import untraced
from ..._pytorch.fx import arguments_of
from ...eager.operator_program import operator_of
from ..decompositions.attention_gradient import attention_backward

_aten = torch.ops.aten
FUSED = _aten._scaled_dot_product_fused_attention_overrideable.default
BACKWARD = _aten._scaled_dot_product_fused_attention_overrideable_backward.default
ATTENTION = _aten.scaled_dot_product_attention.default


Operand = torch.Tensor | torch.fx.Node


def single_node_arguments(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_bias: Operand | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    _return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of ATTENTION, in the order of its schema, from those of FUSED. Operands are
    [.., heads, length, size], tensors or nodes that stand for some."""

    def heads(tensor: Operand) -> int:
        shape = getattr(tensor, "meta", {}).get("val", tensor).shape
        return int(shape[-3]) if len(shape) > 3 else 1

    grouped = heads(query) != heads(key)
    return (query, key, value, attn_bias, dropout_p, is_causal), {
        "scale": scale,
        "enable_gqa": grouped,
    }


def _fused(*given: Any, **options: Any) -> tuple[Any, ...]:
    """The eager entry of a call that core/eager/eager.c does not know; of the nine results only the
    first is read without gradients."""
    args, kwargs = single_node_arguments(*given, **options)
    result = operator_of(ATTENTION).kernel(args, kwargs)
    empty = result.new_empty(0)
    return result, empty, empty, empty, 0, 0, empty, empty, empty


def _backward(*args: Any, **kwargs: Any) -> Any:
    """Without the results of _fused() that are empty."""
    kept: list[Any] = [None if isinstance(x, torch.Tensor) and x.numel() == 0 else x for x in args]
    program, tensors, _reason = operator_of(BACKWARD).find(kept, kwargs)
    if program is None:  # the host has no kernel for it either: part by part
        return attention_backward(*kept, **kwargs)
    return program.run(tensors, tensors[0].device.index)


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Graphs that are traced inside keep attention one node, with gradients, too; BACKWARD is among
    their decompositions."""
    before = _C.trace_attention(True)
    try:
        yield
    finally:
        _C.trace_attention(before)


def make_single(gm: torch.fx.GraphModule) -> None:
    """Replaces FUSED and its first result by ATTENTION, which has one result."""
    for node in list(gm.graph.nodes):
        if node.target is not FUSED:
            continue
        items = list(node.users)
        if any(item.args[1] != 0 for item in items if item.users):
            continue
        args, kwargs = single_node_arguments(*arguments_of(node), **node.kwargs)
        with gm.graph.inserting_before(node):
            single = gm.graph.call_function(ATTENTION, args, kwargs)
        single.meta = dict(node.meta, val=node.meta["val"][0])
        for item in items:
            item.replace_all_uses_with(single)
            gm.graph.erase_node(item)
        gm.graph.erase_node(node)


def register(aten: torch.library.Library, register_kernel: Callable[[str, Any], None]) -> None:
    """`register_kernel` is for what core/eager/eager.c is asked for first."""
    register_kernel("_scaled_dot_product_fused_attention_overrideable", _fused)
    aten.impl("_scaled_dot_product_fused_attention_overrideable_backward", untraced(_backward))
