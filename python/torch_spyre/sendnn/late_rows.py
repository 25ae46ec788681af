# SPDX-License-Identifier: Apache-2.0
"""Results of a graph whose rows are computed when they are read.

A server asks the graph of a prompt for the logits of a block of tokens, and reads those of one: 63
of 64 products with the vocabulary, two fifths of a small model's time, would be for nothing. So
where a graph ends with a `Linear` that makes rows wider (and what is done to its elements one by
one), that end is cut off: the graph leaves the rows that it takes on the card, and its result is a
tensor `LateRows`. An index with a tensor in it, of which PyTorch makes a copy as well, computes the
rows that it names. Whatever else is done to such a tensor computes all of them first, once, so it
has the values and views of any other.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _C
from .._pytorch.dispatch import outside_inference_mode
from .._pytorch.late_tensor import LateTensor
from . import recording
from .block_tables import next_power

# [n, columns] of the rows that a list names, of all of them for None
Compute = Callable[[Sequence[int] | None], torch.Tensor]

_LINEAR = torch.nn.functional.linear
_ONE_BY_ONE = {"float", "half", "to", "tanh", "mul", "div", "mul_", "div_", torch.tanh,
               operator.mul, operator.truediv}  # fmt: skip


@dataclass
class Tail:
    """The end of a graph: of rows [n, width] it makes rows of `columns` elements."""

    place: int  # of its result among those of the graph
    parameters: list[int]  # inputs of the graph that it reads
    gm: torch.fx.GraphModule  # (rows, *parameters) -> rows
    columns: int
    dtype: torch.dtype
    programs: dict[int, Callable[..., torch.Tensor]] = field(default_factory=dict)  # by rows

    def placeholders(self) -> list[torch.fx.Node]:
        """Of the parameters."""
        return list(self.gm.graph.find_nodes(op="placeholder"))[1:]

    def compute(
        self,
        compile_graph: Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]],
        table: torch.Tensor,
        parameters: Sequence[Any],
        wanted: Sequence[int] | None,
    ) -> torch.Tensor:
        """Rows of the result on the CPU: those `wanted`, or the whole table's. There are programs
        for powers of two, and for the table."""
        count = table.shape[0] if wanted is None else len(wanted)
        step = recording.Step("rows", count)
        with recording.recorded(step), outside_inference_mode():
            rows = table if wanted is None else _taken(table, wanted)
            program = self.programs.get(rows.shape[0])
            if program is None:
                program = compile_graph(copy.deepcopy(self.gm), [rows, *parameters])
                self.programs[rows.shape[0]] = program
            (found,) = program(rows, *parameters)
            result: torch.Tensor = found.cpu()[:count]
            return result

    def result(self, leading: tuple[int, int], compute: Compute) -> torch.Tensor:
        """Of a call: `leading` dims and those of a row."""
        return LateRows.of((*leading, self.columns), self.dtype, compute)


def _taken(table: torch.Tensor, wanted: Sequence[int]) -> torch.Tensor:
    rows = table.new_empty(next_power(len(wanted)), table.shape[1])
    if not _C.copy_rows(rows, table, [(to, row, 1) for to, row in enumerate(wanted)]):
        for to, row in enumerate(wanted):
            rows[to].copy_(table[row])
    return rows


# ---- the graph


def cut(graph: torch.fx.Graph, placeholders: Sequence[torch.fx.Node], batch: Any) -> list[Tail]:
    """Takes the tails off a graph of Dynamo, which gives the tables [rows, width] that they begin
    with instead of their results. `batch` is dim 0 of a result that has one."""
    (output,) = graph.find_nodes(op="output")
    results = list(output.args[0])
    tails = []
    for place, result in enumerate(results):
        chain = _tail_of(result, placeholders, batch) if results.count(result) == 1 else []
        if not chain:
            continue
        tails.append(_tail(place, chain, placeholders))
        with graph.inserting_before(output):
            results[place] = graph.call_method("flatten", (chain[-1].args[0], 0, -2))
        output.args = (tuple(results),)
        for node in chain:
            graph.erase_node(node)
    return tails


def _tail_of(result: Any, placeholders: Sequence[torch.fx.Node], batch: Any) -> list[torch.fx.Node]:
    """The nodes of a tail, the last one first; none if the result has none, or one row only for
    each sequence of the batch."""
    chain, node = [], result
    while isinstance(node, torch.fx.Node) and len(node.users) == 1:
        chain.append(node)
        if node.target is _LINEAR:
            reads_inputs = all(a is None or a in placeholders for a in node.args[1:])
            return chain if reads_inputs and not node.kwargs and _widens(node, batch) else []
        if node.target not in _ONE_BY_ONE or any(
            isinstance(a, torch.fx.Node) for a in (*node.args[1:], *node.kwargs.values())
        ):
            return []
        node = node.args[0]
    return []


def _widens(linear: torch.fx.Node, batch: Any) -> bool:
    rows, weight = (_value(a) for a in linear.args[:2])
    if rows is None or weight is None or rows.dim() != 3 or str(rows.shape[0]) != str(batch):
        return False
    columns, width = weight.shape
    has_sizes = isinstance(columns, int) and isinstance(width, int)
    return has_sizes and columns > width and str(rows.shape[1]) != "1"


def _value(node: Any) -> torch.Tensor | None:
    found: torch.Tensor | None = node.meta.get("example_value")
    return found


def _tail(place: int, chain: list[torch.fx.Node], placeholders: Sequence[torch.fx.Node]) -> Tail:
    linear, value = chain[-1], _value(chain[0])
    assert value is not None
    graph = torch.fx.Graph()
    copies: dict[Any, torch.fx.Node] = {linear.args[0]: graph.placeholder("rows")}
    read = [a for a in linear.args[1:] if isinstance(a, torch.fx.Node)]
    for node in read:
        copies[node] = graph.node_copy(node)
    for node in reversed(chain):
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].meta.clear()
    graph.output((copies[chain[0]],))
    gm = torch.fx.GraphModule({}, graph)
    parameters = [placeholders.index(node) for node in read]
    return Tail(place, parameters, gm, int(value.shape[-1]), value.dtype)


# ---- what a program gets


class LateRows(LateTensor):
    """A tensor of the CPU that computes its rows late."""

    compute: Compute

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        dtype: torch.dtype,
        compute: Compute,
    ) -> LateRows:
        made: LateRows = cls.without_values(shape, dtype)
        made.compute = compute
        return made

    def values(self) -> torch.Tensor:
        return self.compute(None)[: self.shape[0] * self.shape[1]].view(self.shape)

    def indexed(self, index: Any) -> torch.Tensor | None:
        """tensor[index] if that is a copy of whole rows, and only some; otherwise None."""
        rows = _index_of_rows(index, self.dim())
        if rows is None:
            return None
        *leading, columns = self.shape
        count = math.prod(leading)
        wanted = torch.arange(count).view(leading)[rows]
        if not 0 < wanted.numel() <= count // 2:
            return None
        return self.compute(wanted.flatten().tolist()).view(*wanted.shape, columns)


def _index_of_rows(index: Any, rank: int) -> Any:
    """The index without that of the last dim, if it leaves that dim alone and has a tensor."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(part is None or type(part) in (int, slice, torch.Tensor) for part in parts):
        return None
    dtypes = {part.dtype for part in parts if isinstance(part, torch.Tensor)}
    if not dtypes or dtypes - {torch.bool, torch.int64}:
        return None
    taken = sum(
        part.dim() if isinstance(part, torch.Tensor) and part.dtype == torch.bool else 1
        for part in parts
        if part is not None
    )
    if taken < rank:
        return parts
    is_whole = isinstance(parts[-1], slice) and parts[-1] == slice(None)
    return parts[:-1] if taken == rank and is_whole else None
