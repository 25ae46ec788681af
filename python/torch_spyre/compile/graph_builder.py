# SPDX-License-Identifier: Apache-2.0
"""An ATen graph, handed over to the compiler node by node."""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload
from .._pytorch.fx import arguments_of, overload_of
from ..eager import operand_dtypes
from . import effects, node_arguments, scalars
from .hints import hint_scopes, named_dims
from .integers import integer_overflow
from .traced_sizes import NodeValues

_aten = torch.ops.aten

Ids = dict[torch.fx.Node, int | list[int]]  # a list of a node with several results


class Inexpressible(Exception):
    """The graph contains something that the compiler cannot represent."""


class GraphBuilder:
    """Hands a graph over, node by node."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        values: NodeValues,
        device: torch.device,
        call: scalars.Call | None = None,
        keeps_narrow: bool = False,
        place: str | None = None,
    ):
        self.gm = gm
        self.place = place  # of nodes that no line of the user made
        self.keeps_narrow = keeps_narrow  # integers that fit 32 bits by the maker's account
        self.values = values
        self.device = device
        self.numbers = call.numbers if call else {}
        self.parameters = call.parameters if call else {}  # arguments that each launch gives
        self.graph = _C.Graph()
        self.ids: Ids = {}
        self.constants: dict[torch.fx.Node, Any] = {}  # numbers and other non-tensors
        # Of each value, by id: an index into args, or a tensor of the module.
        self.inputs: list[tuple[int, int | torch.Tensor]] = []
        self.nodes: list[torch.fx.Node] = []  # by the compiler's node id
        # (index into args, source): copies into inputs, after all else
        self.updates: list[tuple[int, torch.fx.Node]] = []
        self.casts: dict[int, torch.fx.Node] = {}  # of floating numbers to int64, by value id
        self.effects: list[torch.fx.Node] = []  # checks and the like, which return nothing
        self.placeholders: dict[torch.fx.Node, int] = {}
        self.moved: set[int] = set()  # inputs of the host that the card reads
        self.dims: dict[torch.fx.Node, str] = {}  # of inputs with dims: their names, or ""
        self.unnamed: list[str] = []  # such inputs without names where a hint speaks of names
        self.outputs: list[Any] = []  # nodes and constants
        self.folded = scalars.constants_of_host(gm, values, _COPIES | CASTS)

    def build(self, args: Sequence[Any]) -> None:
        """Hands all nodes over; `args` are the arguments of the call, one a placeholder.

        Raises: Inexpressible for a graph that the compiler cannot represent.
        """
        handlers: dict[str, Callable[[torch.fx.Node], None]] = {
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

    def _placeholder(self, node: torch.fx.Node, args: Sequence[Any]) -> None:
        index = len(self.placeholders)
        self.placeholders[node] = index
        value = self.numbers.get(node, args[index])
        if not isinstance(value, torch.Tensor):
            self.constants[node] = value
            return
        if value.device.type == "cpu" and value.dim() == 0 and self._card_reads(node):
            value = scalar_to_card(value, self.device)
            self.moved.add(index)
        if value.dim() > 0:
            self.dims[node] = named_dims.dims_of(value)
        self.ids[node] = number = self._input(node.name, value)
        self.inputs.append((number, index))

    def _card_reads(self, node: torch.fx.Node) -> bool:
        return any(self._is_of_card(user) for user in node.users if user.op == "call_function")

    def _is_of_card(self, node: torch.fx.Node) -> bool:
        return any(
            isinstance(leaf, torch.Tensor) and leaf.device.type == "spyre"
            for leaf in pytree.tree_leaves(self.values.get(node))
        )

    def _attribute(self, node: torch.fx.Node) -> None:
        value: Any = functools.reduce(getattr, str(node.target).split("."), self.gm)
        if not isinstance(value, torch.Tensor):
            self.constants[node] = value
            return
        if value.device.type == "cpu" and value.dim() == 0:
            self.constants[node] = value.item()
            others = [user for user in _readers(node) if not self._takes_numbers(user)]
            if not others:
                return
            if any(self._is_of_card(user) and user.target not in CASTS for user in others):
                value = scalar_to_card(value, self.device)
        self.ids[node] = number = self._input(node.name, value)
        self.inputs.append((number, value))

    def _input(self, name: str, tensor: torch.Tensor) -> int:
        try:
            value = self.graph.add_input(name, tensor)
        except _C.Unsupported as error:
            raise Inexpressible(str(error)) from error
        if dims := named_dims.dims_of(tensor):
            self.graph.name_dims(value, dims)
        return value

    def _call(self, node: torch.fx.Node) -> None:
        if node.target is operator.getitem:
            self._item(node)
            return
        if node in self.numbers:
            self.constants[node] = self.numbers[node]
            return
        value = self.values[node]
        if not isinstance(node.target, OpOverload):
            if not isinstance(value, (int, float)):
                raise Inexpressible(str(node.target))
            # Arithmetic on sizes, which are what they are in this call.
            self.constants[node] = value
            return
        args = arguments_of(node)
        source = args[0] if args else None
        if self._is_update(node):
            made = self._copied(args[1])
            self.updates.append((self.placeholders[args[0]], made))
            self.ids[node] = self.ids[made]
            return
        if effects.is_effect(node):
            if node.target not in effects.CHECKED:
                self.effects.append(node)
            return
        if node.target in _COPIES and source in self.constants:
            self.constants[node] = self.constants[source]
            if source not in self.ids:
                return
        if node.target in CASTS and isinstance(source, (int, float)):  # of functorch's vmap
            self.constants[node] = _as_held(source, value.dtype)
            return
        if (number := self._number_of_host(node, value)) is not None:
            self.constants[node] = number
            return
        results = list(value) if isinstance(value, (tuple, list)) else [value]
        if not all(isinstance(result, torch.Tensor) or result is None for result in results):
            if any(isinstance(result, torch.Tensor) for result in results):
                raise Inexpressible(f"{node.target}: results of several kinds")
            self.constants[node] = value
            return
        self._add(node, results, not isinstance(value, (tuple, list)))

    def _number_of_host(self, node: torch.fx.Node, value: Any) -> int | float | None:
        """What the node puts into a tensor of the host without dimensions that only operators of
        the card read, or others of such numbers, as a number; None for another node."""
        if node in self.folded:
            all_take = all(map(self._takes_numbers, _readers(node)))
            return self.folded[node] if all_take else None
        if node.target not in _FILLED or value.device.type != "cpu" or value.dim() > 0:
            return None
        arguments = node_arguments.positional(overload_of(node), node.args, node.kwargs)
        given = arguments[_FILLED[node.target]]
        number = self.constants.get(given) if isinstance(given, torch.fx.Node) else given
        readers = list(_readers(node))
        if not isinstance(number, (int, float)) or not readers:
            return None
        if not all(scalars.takes_numbers(reader) for reader in readers):
            return None
        return _as_held(number, value.dtype)

    def _takes_numbers(self, reader: torch.fx.Node) -> bool:
        return reader in self.folded or scalars.takes_numbers(reader)

    def _add(
        self, node: torch.fx.Node, results: Sequence[torch.Tensor | None], single: bool
    ) -> None:
        op = overload_of(node)
        arguments = node_arguments.positional(op, node.args, node.kwargs)
        arguments = [self.resolve(node, argument) for argument in arguments]
        first = next((result for result in results if result is not None), None)
        if first is None:
            raise Inexpressible(f"{node.target}: no result")
        types = [
            node_arguments.result_type(result, result.device.type == "spyre")
            if result is not None
            else (first.dtype, False, [0], [1], 0)  # an absent result
            for result in results
        ]
        try:
            number, outputs = self.graph.add_node(
                node.name,
                self._op_name(node, arguments),
                node_arguments.encode(self._with_parameters(node, arguments), self._id),
                types,
                location(node) or self.place,
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
        operands = [self.values[source] for source in node.all_input_nodes]
        if not self.keeps_narrow and integer_overflow.may_saturate(op, first, operands):
            self.casts[outputs[0]] = node

    def _with_parameters(self, node: torch.fx.Node, arguments: Sequence[Any]) -> list[Any]:
        return [self.parameters.get((node, i), value) for i, value in enumerate(arguments)]

    def _op_name(self, node: torch.fx.Node, arguments: Sequence[Any]) -> str:
        """One that no row of the compiler has, when PyTorch's kernel does not take the dtypes: it
        then says so on the host."""
        op = overload_of(node)
        values = [pytree.tree_map(self._value, argument) for argument in arguments]
        return (
            node_arguments.op_name(op) if operand_dtypes.are_accepted(op, values) else f"host.{op}"
        )

    def _value(self, argument: object) -> Any:
        return self.values[argument] if isinstance(argument, torch.fx.Node) else argument

    def _find_unnamed(self, node: torch.fx.Node) -> None:
        for source in node.all_input_nodes:
            if self.dims.get(source) == "":
                size = tuple(self.values[source].shape)
                self.unnamed.append(f"{source.name} of size {size} ({location(node)})")

    def _item(self, node: torch.fx.Node) -> None:
        source, index = arguments_of(node)
        if source in self.constants:
            self.constants[node] = self.constants[source][index]
            return
        ids = self.ids[source]
        assert isinstance(ids, list), f"{source.name} has one result"
        self.ids[node] = ids[index]

    def resolve(self, reader: torch.fx.Node, argument: Any) -> Any:
        """An argument of a node, numbers in the place of the nodes that stand for them."""
        if isinstance(argument, torch.fx.Node):
            if argument in self.constants and (
                argument not in self.ids or scalars.takes_numbers(reader)
            ):
                return self.constants[argument]
            return argument
        if isinstance(argument, (list, tuple)):
            return [self.resolve(reader, item) for item in argument]
        return argument

    def _id(self, value: object) -> int | None:
        """Of a node with one result; None for what is no node."""
        if not isinstance(value, torch.fx.Node):
            return None
        ids = self.ids[value]
        assert isinstance(ids, int), f"{value.name} has several results"
        return ids

    def _is_update(self, node: torch.fx.Node) -> bool:
        """A copy over a placeholder."""
        args = arguments_of(node)
        return node.target is _aten.copy_.default and args[0] in self.placeholders

    def _copied(self, node: torch.fx.Node) -> torch.fx.Node:
        """What an assignment (`x.copy_(y)` without its mutation) copies, where that is a value of
        the graph's own and no result; else the node."""
        if node.target is not _aten.copy.default or len(node.users) > 1:
            return node
        made = arguments_of(node)[1]
        if not isinstance(made, torch.fx.Node) or made in self.placeholders or made not in self.ids:
            return node
        if any(user.op == "output" for user in made.users):
            return node
        old, new = self.values[node], self.values[made]
        return made if (old.dtype, old.shape) == (new.dtype, new.shape) else node

    def _add_output(self, node: torch.fx.Node) -> None:
        number = self._id(node)
        assert number is not None
        self.graph.add_output(number)

    def _output(self, node: torch.fx.Node) -> None:
        self.outputs = list(arguments_of(node)[0])
        for result in self.outputs:
            if not isinstance(result, torch.fx.Node) or result not in self.ids:
                continue
            if not self._is_update(result):  # which is an output as such
                self._add_output(result)
        inputs = list(self.placeholders)
        latest = dict(self.updates)
        for index, source in self.updates:
            old, new = self.values[inputs[index]], self.values[source]
            made, given = self._id(source), self._id(inputs[index])
            same = (old.dtype, old.shape) == (new.dtype, new.shape)
            in_place = latest[index] is source and same and not self.casts
            if in_place and made is not None and given is not None:
                self.graph.add_update(made, given)
            else:
                self._add_output(source)
        for value, cast in self.casts.items():  # Program computes anew where they saturate
            self.graph.add_output(value)
            source = cast.all_input_nodes[0]
            if source not in self.placeholders:
                self._add_output(source)
        for effect in self.effects:
            for source in effect.all_input_nodes:
                if source in self.ids:
                    self._add_output(source)


_COPIES = {
    _aten.lift_fresh_copy.default,
    _aten.lift_fresh.default,
    _aten.detach.default,
    _aten.alias.default,
    _aten.clone.default,
}

CASTS = {_aten._to_copy.default, torch.ops.prims.device_put.default}  # dtype, device or both


# Operators that make a tensor of a number, and where that is among their arguments.
_FILLED: dict[object, int] = {_aten.scalar_tensor.default: 0, _aten.full.default: 1}


def _as_held(number: float, dtype: torch.dtype) -> int | float:
    """What a tensor of that dtype holds of a number."""
    held: int | float = torch.full((), number, dtype=dtype).item()
    return held


def _readers(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The nodes that read a value or a copy of it."""
    for user in node.users:
        if user.target in _COPIES:
            yield from _readers(user)
        else:
            yield user


def scalar_to_card(number: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host without dimensions; the card has no float64."""
    return number.to(device, torch.float32 if number.dtype == torch.float64 else number.dtype)


def location(node: torch.fx.Node) -> str | None:
    """Where the program made a node: "model.py:12 in forward"; where no frame is the program's, as
    of a Sequential that was compiled by itself, the module, "model.0: Linear"."""
    return _innermost_line(node.meta.get("stack_trace") or "") or _module_of(node)


def _module_of(node: torch.fx.Node) -> str | None:
    for key in ("nn_module_stack", "fwd_nn_module_stack"):
        if stack := node.meta.get(key):
            path, kind = list(stack.values())[-1]
            inside = re.sub(r"^L\['\w+'\]", "", path).strip(".")
            name = kind if isinstance(kind, str) else kind.__name__
            return f"model{'.' if inside else ''}{inside}: {name.rpartition('.')[2]}"
    return None


@functools.lru_cache(4096)
def _innermost_line(stack_trace: str) -> str | None:
    """ "model.py:12 in forward": the user's line that made the node."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', stack_trace)
    if not frames:
        return None
    path, line, function = frames[-1]
    return f"{os.path.basename(path)}:{line} in {function}"
