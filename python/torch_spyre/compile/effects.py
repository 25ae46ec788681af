# SPDX-License-Identifier: Apache-2.0
"""Operators that are called for an effect: checks, prints, assertions.

AOTAutograd orders them by tokens, which are arguments, results and operands of the higher-order
operator `with_effects`. A graph runs its effects in its own order, so the tokens are taken out:
every `with_effects(token, op, ...)` becomes `op(...)`. A token among the arguments stays there
unread, since the caller passes it (None); one among the results is None.
"""

from __future__ import annotations

from typing import Any

import torch

from .._pytorch.dispatch import schema_of

_WITH_EFFECTS = torch.ops.higher_order.with_effects
# Tokens that a graph makes and ends itself, where the caller has none.
_OWN_TOKENS = (torch.ops.prims._sink_tokens.default, torch.ops.prims._make_token.default)
# What PyTorch has checked by the time a graph is compiled: dtypes and devices of tensors.
CHECKED = frozenset({torch.ops.aten._assert_tensor_metadata.default})


def remove_tokens(gm: torch.fx.GraphModule) -> None:
    """Replaces each `with_effects` by the operator in it, in place."""
    nodes = gm.graph.find_nodes(op="call_function", target=_WITH_EFFECTS)
    for node in nodes:
        _unwrap(gm.graph, node)
    for own in _OWN_TOKENS:
        for node in reversed(list(gm.graph.find_nodes(op="call_function", target=own))):
            gm.graph.erase_node(node)
    if nodes:
        gm.recompile()


def _unwrap(graph: torch.fx.Graph, node: Any) -> None:
    token, op, *arguments = node.args
    _forget_argument(token)
    values = tuple(node.meta["val"])[1:]
    single = len(schema_of(op).returns) == 1
    with graph.inserting_before(node):
        plain = graph.call_function(op, tuple(arguments), dict(node.kwargs))
    plain.meta = dict(node.meta, val=values[0] if single else values or None)
    for item in list(node.users):
        index = item.args[1]
        if index == 0:
            _replace_by_none(item)
        elif single:
            item.replace_all_uses_with(plain)
        else:
            item.args = (plain, index - 1)
            continue
        graph.erase_node(item)
    graph.erase_node(node)


def _replace_by_none(item: Any) -> None:
    """A token: operand of the next effect, or a result of the graph."""
    for user in list(item.users):
        user.args = torch.fx.node.map_arg(user.args, lambda a: None if a is item else a)


def _forget_argument(token: object) -> None:
    """The caller passes None for what was traced as an empty tensor."""
    if isinstance(token, torch.fx.Node) and token.op == "placeholder":
        token.meta["val"] = None


def is_effect(node: Any) -> bool:
    """Whether the node of an operator returns nothing, so that it is there for its effect."""
    return not schema_of(node.target).returns
