# SPDX-License-Identifier: Apache-2.0
"""Higher-order operators of an ATen graph: those that take functions.

Two that PyTorch defines by other operators (flex attention, nested regions) are replaced by them.
Of the others (`cond`, `while_loop`, `scan`, ..) the course depends on data, so the graph is cut
there: what lies between is compiled as graphs of their own, and so is each function that such an
operator takes; PyTorch's own definition of the operator calls those.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from .._pytorch import fake
from .._pytorch.dispatch import HigherOrderOperator, definition_of
from . import decomposition_table

_HOPS = torch.ops.higher_order
_DEFINED = frozenset({_HOPS.flex_attention, _HOPS.flex_attention_backward, _HOPS.invoke_subgraph})
_aten = torch.ops.aten
_EMPTY = frozenset({_aten.empty_strided.default, _aten.new_empty_strided.default})

Node = torch.fx.Node
# Of a graph and its inputs, fake tensors and numbers; as `backend.compile_aten`.
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[[list[Any]], list[Any]]]


def _is_higher_order(node: Node) -> bool:
    return isinstance(node.target, HigherOrderOperator)


class _Definitions(torch.fx.Interpreter):
    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is _HOPS.invoke_subgraph:
            body, _name, *operands = args
            return body(*operands)
        if target in _DEFINED:
            target = definition_of(target)
        return super().call_function(target, args, kwargs)


def expand(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> torch.fx.GraphModule:
    """The graph with definitions in the place of what has them; itself when nothing has."""
    if not any(node.target in _DEFINED for node in gm.graph.nodes):
        return gm
    table: dict[Any, Callable[..., Any]] = {**decomposition_table.table()}
    with torch.fx.traceback.preserve_node_meta(), fake.mode_of(inputs):
        traced: torch.fx.GraphModule = make_fx(
            torch.func.functionalize(lambda *args: _Definitions(gm).run(*args)),
            decomposition_table=table,
            _allow_non_fake_inputs=True,
        )(*inputs)
    _copy_into_nothing(traced.graph)
    traced.graph.eliminate_dead_code()  # block masks, too, which definitions do not read
    return traced


def _copy_into_nothing(graph: torch.fx.Graph) -> None:
    """Copies over tensors without contents, which definitions use for their strides, are clones."""
    for node in graph.find_nodes(op="call_function", target=_aten.copy.default):
        place, source = node.args
        if place.target in _EMPTY and place.meta["val"].dtype == source.meta["val"].dtype:
            node.target, node.args = _aten.clone.default, (source,)


def is_cut(gm: torch.fx.GraphModule) -> bool:
    """Whether an operator is left at which the graph has to be cut."""
    return any(map(_is_higher_order, gm.graph.nodes))


def _complete(gm: torch.fx.GraphModule) -> None:
    """What the backward graph of a checkpoint draws again has the sizes of what it calls; PyTorch's
    partitioner leaves them out."""
    for node in gm.graph.find_nodes(op="call_function", target=_HOPS.run_with_rng_state):
        if "val" in node.meta:
            continue
        (_state, op, *args), kwargs = torch.fx.map_arg(
            (node.args, node.kwargs), lambda operand: operand.meta["val"]
        )
        with fake.mode_of([place.meta["val"] for place in gm.graph.find_nodes(op="placeholder")]):
            node.meta["val"] = op(*args, **kwargs)


class _Compiled(torch.nn.Module):
    """A graph that gives `single` result or a tuple."""

    def __init__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], compile_graph: Compile):
        super().__init__()
        output = gm.graph.output_node()
        self.single = isinstance(output.args[0], Node)
        if self.single:
            output.args = ((output.args[0],),)
        self.run = compile_graph(gm, inputs)

    def forward(self, *args: Any) -> Any:
        results = self.run(list(args))
        return results[0] if self.single else tuple(results)


class _Cutter:
    """Makes the graph of the parts."""

    def __init__(self, gm: torch.fx.GraphModule, compile_graph: Compile):
        self.gm = gm
        self.compile_graph = compile_graph
        self.top = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        self.made: dict[Node, Node] = {}  # in `top`, by node of the graph
        self.held: list[str] = []

    def cut(self) -> torch.fx.GraphModule:
        run: list[Node] = []  # of operators without a cut between them
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.made[node] = self.top.graph.node_copy(node)
            elif node.op == "get_attr":
                continue
            elif node.op == "output" or self._cuts(node):
                self._add_run(run)
                run = []
                self.made[node] = self.top.graph.node_copy(node, self._operand)
            else:
                run.append(node)
        self.top.recompile()
        return self.top

    def _cuts(self, node: Node) -> bool:
        of_cut = node.target is operator.getitem and self._cuts(node.all_input_nodes[0])
        return _is_higher_order(node) or of_cut

    def _hold(self, value: Any) -> str:
        """The name of an attribute of `top` that holds a module or a tensor."""
        name = f"held_{len(self.held)}"
        self.held.append(name)
        setattr(self.top, name, value)
        return name

    def _operand(self, node: Node) -> Node:
        """In `top`; a function is compiled for each operator that takes it."""
        if node.op != "get_attr":
            return self.made[node]
        value: Any = functools.reduce(getattr, str(node.target).split("."), self.gm)
        if isinstance(value, torch.fx.GraphModule):
            places = value.graph.find_nodes(op="placeholder")
            value = _Compiled(value, [p.meta.get("val") for p in places], self.compile_graph)
        return self.top.graph.get_attr(self._hold(value))

    def _add_run(self, run: Sequence[Node]) -> None:
        """Compiles them as one graph."""
        if not run:
            return
        own = set(run)
        results = [node for node in run if any(user not in own for user in node.users)]
        sources = dict.fromkeys(s for node in run for s in node.all_input_nodes if s not in own)
        inputs = [source for source in sources if source.op != "get_attr"]
        part = torch.fx.Graph()
        inner: dict[Node, Node] = {}
        for source in inputs:
            inner[source] = part.placeholder(source.name)
            inner[source].meta = dict(source.meta)
        for node in (*(s for s in sources if s.op == "get_attr"), *run):
            inner[node] = part.node_copy(node, inner.__getitem__)
        part.output(tuple(inner[node] for node in results))
        values = [source.meta.get("val") for source in inputs]
        compiled = _Compiled(torch.fx.GraphModule(self.gm, part), values, self.compile_graph)
        operands = tuple(self.made[source] for source in inputs)
        call = self.top.graph.call_module(self._hold(compiled), operands)
        for index, node in enumerate(results):
            self.made[node] = self.top.graph.call_function(operator.getitem, (call, index))


def compile_parts(
    gm: torch.fx.GraphModule, compile_graph: Compile
) -> Callable[[list[Any]], list[Any]]:
    """A function as `backend.compile_aten` gives, of a graph that is cut."""
    _complete(gm)
    top = _Cutter(gm, compile_graph).cut()

    def run(args: list[Any]) -> list[Any]:
        return list(torch.fx.Interpreter(top).run(*args))

    run._boxed_call = True  # type: ignore[attr-defined]  # as compile_aten's
    return run
