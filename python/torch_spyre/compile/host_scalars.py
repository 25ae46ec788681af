# SPDX-License-Identifier: Apache-2.0
"""Scalars that a graph computes on the host and the card reads: an optimizer's corrections of a
step that is counted there. Without a copy to the card its reader would be the host's, too."""

from __future__ import annotations

import torch
from torch.fx import Node

from . import scalars

_copy = torch.ops.aten._to_copy.default


def move_to_card(gm: torch.fx.GraphModule) -> None:
    """Copies them, each once, where operators that work by elements read them beside tensors of the
    card. Numbers that parameters of programs stand for stay as they are."""
    found = [node for node in _of_inputs(gm) if scalars.is_of_host(node) and _readers(node)]
    plan = scalars.plan(gm) if found else None
    parameters = set(plan.chain) if plan else set[Node]()
    for node in found:
        if node in parameters:
            continue
        readers = _readers(node)
        copy = _copied(gm, node, _device_read_by(readers[0]))
        for reader in readers:
            reader.replace_input_with(node, copy)


def _readers(node: Node) -> list[Node]:
    return [user for user in node.users if scalars.takes_numbers(user)]


def _of_inputs(gm: torch.fx.GraphModule) -> list[Node]:
    """What operators compute of inputs, in order; the compiler computes what is constant."""
    known = set(gm.graph.find_nodes(op="placeholder"))
    found = list[Node]()
    for node in gm.graph.nodes:
        if node.op == "call_function" and not known.isdisjoint(node.all_input_nodes):
            known.add(node)
            found.append(node)
    return found


def _device_read_by(reader: Node) -> torch.device:
    values = (source.meta.get("val") for source in reader.all_input_nodes)
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return next(value.device for value in tensors if value.device.type == "spyre")


def _copied(gm: torch.fx.GraphModule, node: Node, device: torch.device) -> Node:
    value = node.meta["val"]
    dtype = torch.float32 if value.dtype is torch.float64 else value.dtype  # the card has none
    with gm.graph.inserting_after(node), value.fake_mode:
        copy = gm.graph.call_function(_copy, (node,), {"dtype": dtype, "device": device})
        copy.meta = {**node.meta, "val": value.to(device, dtype)}
    return copy
