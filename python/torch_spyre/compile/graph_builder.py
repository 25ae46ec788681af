# SPDX-License-Identifier: Apache-2.0
"""An ATen graph, handed over to the compiler node by node."""

from __future__ import annotations

import functools
import operator
import os
import re

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload
from ..eager import operand_dtypes
from . import effects, handover, hint_scopes, named_dims

_aten = torch.ops.aten


class Inexpressible(Exception):
    """The graph holds something that the hand-over has no words for."""


class GraphBuilder:
    """Hands a graph over, node by node."""

    def __init__(self, gm, values, device):
        self.gm = gm
        self.values = values
        self.device = device
        self.graph = _C.Graph()
        self.ids: dict = {}  # fx node -> value id, or list of value ids for several results
        self.constants: dict = {}  # fx node -> number or other non-tensor
        self.inputs: list = []  # (value id, index into args) or (value id, tensor of the module)
        self.nodes: list[torch.fx.Node] = []  # by the compiler's node id
        self.updates: list = []  # (index into args, fx node): copies into inputs, after all else
        self.effects: list[torch.fx.Node] = []  # checks and the like, which return nothing
        self.placeholders: dict = {}
        self.moved: set[int] = set()  # inputs of the host that the card reads
        self.dims: dict = {}  # fx node of an input tensor with dims -> their names, or ""
        self.unnamed: list[str] = []  # such inputs without names where a hint speaks of names

    def build(self, args) -> None:
        handlers = {
            "placeholder": lambda node: self._placeholder(node, args),
            "get_attr": self._attribute,
            "call_function": self._call,
            "output": self._output,
        }
        for node in self.gm.graph.nodes:
            if node.op not in handlers:
                raise Inexpressible(f"{node.op} {node.target}")
            handlers[node.op](node)
        hint_scopes.warn_of_unnamed(self.unnamed)

    def name(self) -> str:
        """ "sdsc_fused_mm_add": after the first few operators."""
        names = [str(node.target).split(".")[1] for node in self.nodes]
        return "_".join(["sdsc_fused", *list(dict.fromkeys(names))[:4]])

    def _placeholder(self, node, args):
        index = len(self.placeholders)
        self.placeholders[node] = index
        value = args[index]
        if not isinstance(value, torch.Tensor):
            self.constants[node] = value
            return
        if value.device.type == "cpu" and value.dim() == 0 and self._card_reads(node):
            value = scalar_to_card(value, self.device)
            self.moved.add(index)
        if value.dim() > 0:
            self.dims[node] = named_dims.dims_of(value)
        self.ids[node] = self._input(node.name, value)
        self.inputs.append((self.ids[node], index))

    def _card_reads(self, node) -> bool:
        return any(self._is_of_card(user) for user in node.users if user.op == "call_function")

    def _is_of_card(self, node) -> bool:
        return any(
            isinstance(leaf, torch.Tensor) and leaf.device.type == "spyre"
            for leaf in pytree.tree_leaves(self.values.get(node))
        )

    def _attribute(self, node):
        value = functools.reduce(getattr, node.target.split("."), self.gm)
        if not isinstance(value, torch.Tensor):
            self.constants[node] = value
            return
        if value.device.type == "cpu" and value.dim() == 0:
            self.constants[node] = value.item()
            others = [user for user in _readers(node) if not self._takes_numbers(user)]
            if not others:
                return
            if any(self._is_of_card(user) and user.target not in _MOVES for user in others):
                value = scalar_to_card(value, self.device)
        self.ids[node] = self._input(node.name, value)
        self.inputs.append((self.ids[node], value))

    def _takes_numbers(self, node) -> bool:
        """Whether scalars of the host may be numbers here: they meet tensors of the card."""
        return (
            isinstance(node.target, OpOverload)
            and torch.Tag.pointwise in node.target.tags
            and any(self._is_of_card(argument) for argument in node.all_input_nodes)
        )

    def _input(self, name, tensor) -> int:
        try:
            value = self.graph.add_input(name, tensor)
        except _C.Unsupported as error:
            raise Inexpressible(str(error)) from error
        if dims := named_dims.dims_of(tensor):
            self.graph.name_dims(value, dims)
        return value

    def _call(self, node):
        if node.target is operator.getitem:
            self._item(node)
            return
        value = self.values[node]
        if not isinstance(node.target, OpOverload):
            if not isinstance(value, (int, float)):
                raise Inexpressible(str(node.target))
            # Arithmetic on sizes, which are what they are in this call.
            self.constants[node] = value
            return
        if node.target is _aten.copy_.default and node.args[0] in self.placeholders:
            self.updates.append((self.placeholders[node.args[0]], node.args[1]))
            self.ids[node] = self.ids[node.args[1]]
            return
        if effects.is_effect(node):
            if node.target not in effects.CHECKED:
                self.effects.append(node)
            return
        source = node.args[0] if node.args else None
        if node.target in _COPIES and source in self.constants:
            self.constants[node] = self.constants[source]
            if source not in self.ids:
                return
        results = list(value) if isinstance(value, (tuple, list)) else [value]
        if not all(isinstance(result, torch.Tensor) or result is None for result in results):
            if any(isinstance(result, torch.Tensor) for result in results):
                raise Inexpressible(f"{node.target}: results of several kinds")
            self.constants[node] = value
            return
        self._add(node, results, not isinstance(value, (tuple, list)))

    def _add(self, node, results, single):
        arguments = handover.positional(node.target, node.args, node.kwargs)
        arguments = [self.resolve(node, argument) for argument in arguments]
        first = next((result for result in results if result is not None), None)
        if first is None:
            raise Inexpressible(f"{node.target}: no result")
        types = [
            handover.result_type(result, result.device.type == "spyre")
            if result is not None
            else (first.dtype, False, [0], [1], 0)  # an absent result
            for result in results
        ]
        try:
            number, outputs = self.graph.add_node(
                node.name,
                self._op_name(node, arguments),
                handover.encode(arguments, self._id),
                types,
                location(node),
            )
        except (_C.Unsupported, RuntimeError) as error:
            raise Inexpressible(f"{node.target}: {error}") from error
        scopes = hint_scopes.scopes_of(node)
        hint_scopes.hand_over(self.graph, number, node, scopes)
        if any(scope.about_dims for scope in scopes):
            self._find_unnamed(node)
        assert number == len(self.nodes)
        self.nodes.append(node)
        self.ids[node] = outputs[0] if single else outputs

    def _op_name(self, node, arguments) -> str:
        """One that no row of the compiler has, when PyTorch's kernel does not take the dtypes: it
        then says so on the host."""
        values = [pytree.tree_map(self._value, argument) for argument in arguments]
        accepted = operand_dtypes.are_accepted(node.target, values)
        return handover.op_name(node.target) if accepted else f"host.{node.target}"

    def _value(self, argument):
        return self.values[argument] if isinstance(argument, torch.fx.Node) else argument

    def _find_unnamed(self, node) -> None:
        for source in node.all_input_nodes:
            if self.dims.get(source) == "":
                size = tuple(self.values[source].shape)
                self.unnamed.append(f"{source.name} of size {size} ({location(node)})")

    def _item(self, node):
        source, index = node.args
        if source in self.constants:
            self.constants[node] = self.constants[source][index]
        else:
            self.ids[node] = self.ids[source][index]

    def resolve(self, reader, argument):
        """An argument of a node, numbers in the place of the nodes that stand for them."""
        if isinstance(argument, torch.fx.Node):
            if argument in self.constants and (
                argument not in self.ids or self._takes_numbers(reader)
            ):
                return self.constants[argument]
            return argument
        if isinstance(argument, (list, tuple)):
            return [self.resolve(reader, item) for item in argument]
        return argument

    def _id(self, value):
        return self.ids[value] if isinstance(value, torch.fx.Node) else None

    def _output(self, node):
        self.outputs = list(node.args[0])
        for result in self.outputs:
            if isinstance(result, torch.fx.Node) and result in self.ids:
                self.graph.add_output(self.ids[result])
        inputs = list(self.placeholders)
        latest = dict(self.updates)
        for index, source in self.updates:
            old, new = self.values[inputs[index]], self.values[source]
            if latest[index] is source and (old.dtype, old.shape) == (new.dtype, new.shape):
                self.graph.add_update(self.ids[source], self.ids[inputs[index]])
            else:
                self.graph.add_output(self.ids[source])
        for effect in self.effects:
            for source in effect.all_input_nodes:
                if source in self.ids:
                    self.graph.add_output(self.ids[source])


_COPIES = {
    _aten.lift_fresh_copy.default,
    _aten.lift_fresh.default,
    _aten.detach.default,
    _aten.alias.default,
    _aten.clone.default,
}
_MOVES = {_aten._to_copy.default, torch.ops.prims.device_put.default}


def _readers(node):
    """The nodes that read a value or a copy of it."""
    for user in node.users:
        if user.target in _COPIES:
            yield from _readers(user)
        else:
            yield user


def scalar_to_card(number, device):
    """A tensor of the host without dimensions; the card has no float64."""
    return number.to(device, torch.float32 if number.dtype == torch.float64 else number.dtype)


def location(node: torch.fx.Node) -> str | None:
    return _innermost_line(node.meta.get("stack_trace") or "")


@functools.lru_cache(4096)
def _innermost_line(stack_trace: str) -> str | None:
    """ "model.py:12 in forward": the user's line that made the node."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', stack_trace)
    if not frames:
        return None
    path, line, function = frames[-1]
    return f"{os.path.basename(path)}:{line} in {function}"
