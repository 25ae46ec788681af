# SPDX-License-Identifier: Apache-2.0
"""A graph at the ends of the buckets that its lengths are in (lengths.py).

What a node makes of arguments with zeros behind their length has the right elements up to the
length and any numbers behind it, as long as every operator works by elements or along other dims.
Where elements meet along a length, what is behind it is left out: attention and softmax get a
mask, sums and products zeros. Where a number behind it could fail (an index), it becomes zero. A
node that is none of these sees what is behind: Seen is
raised, and the graph keeps a program a length.

The graph must not hold a length as a number, or one program would not take all of a bucket: the
places of the last rows are arguments behind those that the graph has.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sympy
import torch

from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload, schema_of
from .._pytorch.fake import FakeTensorMode
from .._pytorch.fx import SYMBOLIC, arguments_of, overload_of, results_of
from . import buckets
from .graph_builder import location
from .grown_arguments import Growing
from .sizes import fake_of, node_values

_aten = torch.ops.aten
Node = torch.fx.Node


class Measure(NamedTuple):
    """A length: the size that it follows, and what is added; None for one that is no such sum."""

    symbol: sympy.Symbol
    more: int | None


class Seen(Exception):
    """A node sees what is behind a length."""


class Form(NamedTuple):
    """The graph at the ends of its buckets."""

    gm: torch.fx.GraphModule
    arguments: list[tuple[int, dict[int, int]]]  # of the graph, their lengths by dim
    places: list[tuple[sympy.Expr, int]]  # arguments behind them: a length, and rows before it
    cuts: list[dict[int | None, int]]  # by result: lengths by dim, {None: length} for a size


def measures(gm: torch.fx.GraphModule, lengths: set[sympy.Symbol]) -> list[Measure]:
    """The lengths that tensors of the graph have or are made with."""
    found = dict[Measure, None]()
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            takes = [user.op == "output" or user.target in _TAKES_SIZES for user in node.users]
            sizes: Iterable[Any] = [value] if any(takes) else []
        else:
            sizes = (size for part in pytree.tree_leaves(value)
                     if isinstance(part, torch.Tensor) for size in part.shape)  # fmt: skip
        for size in sizes:
            measure = _measure(size, lengths)
            if measure and measure.more is not None:
                found[measure] = None
    return list(found)


def _measure(size: Any, lengths: set[sympy.Symbol]) -> Measure | None:
    """None for a number that has no length in it."""
    if not isinstance(size, SYMBOLIC) or not size.node.expr.free_symbols & lengths:
        return None
    symbol = min(size.node.expr.free_symbols & lengths, key=str)
    more = size.node.expr - symbol
    return Measure(symbol, int(more) if more.is_Integer else None)


def make(
    gm: torch.fx.GraphModule, growing: Sequence[Growing], args: Sequence[Any],
    of: Sequence[Measure], lengths: Sequence[int], ends: Sequence[int],
) -> Form:  # fmt: skip
    """The form for arguments that have grown. Raises: Seen."""
    return _Rewriting(gm, growing, args, of, lengths, ends).form()


_BY_ELEMENT = {
    _aten.clone.default, _aten._to_copy.default, _aten.alias.default, _aten.detach.default,
    torch.ops.prims.convert_element_type.default,
}  # fmt: skip
_VIEWS = {
    _aten.expand.default, _aten.unsqueeze.default, _aten.squeeze.dim, _aten.squeeze.dims,
    _aten.permute.default, _aten.transpose.int, _aten.t.default,
}  # fmt: skip
_SHAPES = {_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default}
# Made of sizes, by the place of these among the arguments.
_MADE = {
    _aten.arange.default: 0, _aten.full.default: 0, _aten.zeros.default: 0, _aten.ones.default: 0,
    _aten.empty.memory_format: 0, _aten.new_ones.default: 1, _aten.new_zeros.default: 1,
    _aten.new_full.default: 1,
}  # fmt: skip
_MADE_LIKE = {_aten.fill.Scalar, _aten.full_like.default, _aten.zeros_like.default,
              _aten.ones_like.default, _aten.empty_like.default}  # fmt: skip
# Of integers, they raise for some numbers.
_RAISES = {"floor_divide", "remainder", "fmod", "div", "bitwise_left_shift", "bitwise_right_shift",
           "pow"}  # fmt: skip
# Of two tensors, the other one may be a length.
_TAKES_NUMBER = {"add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge"}
_TAKES_SIZES = {*_VIEWS, *_SHAPES, *_MADE, _aten.slice.Tensor, _aten.arange.start,
                _aten.arange.start_step}  # fmt: skip
# What stands behind a length where elements meet along it.
_FILLED = {
    **dict.fromkeys((
        _aten._softmax.default, _aten.softmax.int, _aten._log_softmax.default,
        _aten.amax.default, _aten.max.default, _aten.max.dim, _aten.argmax.default,
        _aten.logsumexp.default,
    ), -torch.inf),
    **dict.fromkeys((
        _aten.amin.default, _aten.min.default, _aten.min.dim, _aten.argmin.default,
    ), torch.inf),
    **dict.fromkeys((
        _aten.sum.dim_IntList, _aten.sum.default, _aten.cumsum.default, _aten.any.default,
        _aten.any.dim, _aten.any.dims,
    ), 0.0),
    **dict.fromkeys((
        _aten.all.default, _aten.all.dim, _aten.all.dims, _aten.prod.dim_int, _aten.prod.default,
        _aten.cumprod.default,
    ), 1.0),
}  # fmt: skip
# Divided by how many elements there are.
_MEANS = {_aten.mean.default, _aten.mean.dim, _aten.var.correction, _aten.std.correction}
_BY_PLACE = {_aten.tril.default, _aten.triu.default}  # counted from the first elements on
_SUMMED = {torch.float16, torch.bfloat16, torch.float32}
_SORTS = {_aten.sort.default, _aten.sort.stable, _aten.topk.default}
_PRODUCTS = {_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default}


class _Rewriting:
    """Makes a form."""

    def __init__(
        self, gm: torch.fx.GraphModule, growing: Sequence[Growing], args: Sequence[Any],
        of: Sequence[Measure], lengths: Sequence[int], ends: Sequence[int],
    ) -> None:  # fmt: skip
        self.gm, self.growing = gm, growing
        self.measures, self.lengths, self.ends = of, list(lengths), ends
        self.symbols = {measure.symbol for measure in of}
        self.graph = torch.fx.Graph()
        self.made: dict[Node, Any] = {}  # by node of the graph: its node here, or a number
        self.places: dict[tuple[sympy.Expr, int], Node] = {}
        self.valid: dict[int, Node] = {}
        self.kept: set[Node] = set()  # zeros behind their only length
        self.counts: set[Node] = set()  # each element is its place
        self.written: dict[Node, Node] = {}  # arguments with rows more
        self.values = node_values(gm, args)
        self.mode = FakeTensorMode()
        self.sources = list(gm.graph.find_nodes(op="placeholder"))

    def form(self) -> Form:
        arguments = self._arguments()
        for node in self.gm.graph.nodes:
            if node.op == "call_function" and (node.users or _writes(node)):
                self._call(node)
            elif node.op == "get_attr":
                self.made[node] = self.graph.node_copy(node)
        results = results_of(self.gm.graph)
        cuts = [self._cut(r) for r in results]
        self.graph.output(torch.fx.map_arg(results, self.made.__getitem__))
        self.graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output") or _writes(n))
        gm = torch.fx.GraphModule(self.gm, self.graph)
        return Form(gm, arguments, list(self.places), cuts)

    def _arguments(self) -> list[tuple[int, dict[int, int]]]:
        arguments = []
        for index, node in enumerate(self.sources):
            value = node.meta.get("val")
            if isinstance(value, SYMBOLIC):
                self.made[node] = self._size(node)
                continue
            dims = self._dims(node)
            if dims and not self.values[node].is_contiguous():
                raise Seen(f"{node.name} is not contiguous")
            if set(dims) not in [{g.dim} for g in self.growing if g.argument == index] and (
                index in {g.argument for g in self.growing}
            ):
                raise Seen(f"{node.name} has another size that is as long as it is")
            self.last = self.made[node] = self.graph.placeholder(node.name)
            self.made[node].meta = {**node.meta, "val": self._at_end(node)}
            arguments.append((index, dims))
            if len(dims) == 1:
                self.kept.add(node)
        self.device = next(
            node.meta["val"].device
            for node in self.sources
            if isinstance(node.meta["val"], torch.Tensor)
        )
        return arguments

    def _place(self, number: int, rows: int) -> Node:
        """The places of the last rows of a length."""
        measure = self.measures[number]
        return self._argument(measure.symbol + measure.more, rows)

    def _argument(self, length: sympy.Expr, rows: int) -> Node:
        """One behind all that the graph has: the numbers of rows before a length."""
        if (length, rows) not in self.places:
            with self.graph.inserting_after(self.last):
                self.last = self.graph.placeholder(f"places_{len(self.places)}")
            with self.mode:
                self.last.meta["val"] = torch.empty(rows, dtype=torch.int64, device=self.device)
            self.places[length, rows] = self.last
        return self.places[length, rows]

    # ---- sizes

    def _length(self, size: Any) -> int | None:
        """Of the length that a size is, None for one that has none in it; the first of equal ones.
        Raises: Seen."""
        size = size.meta.get("val") if isinstance(size, Node) else size
        measure = _measure(size, self.symbols)
        if measure is None:
            return None
        if measure not in self.measures:
            raise Seen(f"a size is {size.node.expr}")
        return self.lengths.index(self.lengths[self.measures.index(measure)])

    def _dims(self, node: object) -> dict[int, int]:
        """The lengths of a tensor, by dim."""
        value = node.meta.get("val") if isinstance(node, Node) else None
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else ()
        return {dim: number for dim, size in sizes if (number := self._length(size)) is not None}

    def _cut(self, result: object) -> dict[int | None, int]:
        value = result.meta.get("val") if isinstance(result, Node) else None
        if not isinstance(value, SYMBOLIC):
            return dict[int | None, int](self._dims(result).items())
        number = self._length(value)
        return {} if number is None else {None: number}

    def _size(self, node: Node) -> Any:
        """A number of the graph, where its length ends; None for one that has a length in it."""
        measure = _measure(node.meta["val"], self.symbols)
        if measure is None:
            return self.values[node]
        number = self._length(node) if measure in self.measures else None
        return None if number is None else self.ends[number]

    def _at_end(self, node: Node) -> torch.Tensor:
        value: torch.Tensor = self.values[node]
        dims = self._dims(node)
        if not dims:
            return value
        sizes = [self.ends[dims[d]] if d in dims else size for d, size in enumerate(value.shape)]
        with self.mode:
            return torch.empty(sizes, dtype=value.dtype, device=value.device)

    def _trailing(self, node: Node) -> list[tuple[int, int]]:
        """Length and elements of one step along it, outermost first."""
        value, dims = self.values[node], self._dims(node)
        return [(n, value.shape[d + 1 :].numel()) for d, n in dims.items()]

    # ---- nodes

    def _emit(self, op: Any, args: Sequence[Any], like: Node, **kwargs: Any) -> Node:
        """A node whose value is what the operator makes of those of its operands."""
        node = self.graph.call_function(op, tuple(args), kwargs)

        def of(source: Node) -> Any:
            value = source.meta["val"]
            return fake_of(self.mode, value, value.shape, value.stride(), value.storage_offset())

        given = torch.fx.map_arg((node.args, kwargs), of)
        try:
            with self.mode:
                value = op(*given[0], **given[1])
        except RuntimeError as error:  # sizes that do not fit at the ends
            raise Seen(f"{like.format_node()}: {error}") from error
        node.meta = {**like.meta, "val": value}
        return node

    def _given(self, node: Node) -> tuple[Any, Any]:
        """Arguments of the node here."""
        given: tuple[Any, Any] = torch.fx.map_arg((node.args, node.kwargs), self.made.__getitem__)
        return given

    def _call(self, node: Node) -> None:
        if isinstance(node.meta.get("val"), SYMBOLIC):
            self.made[node] = self._size(node)
            return
        if node.target is operator.getitem:
            self.made[node] = self._part(node)
            return
        ragged = [n for n in node.all_input_nodes if self._dims(n)]
        measured = [n for n in node.all_input_nodes
                    if _measure(n.meta.get("val"), self.symbols) is not None]  # fmt: skip
        if not ragged and not measured and not self._dims(node):
            self.made[node] = self._copied(node)
            return
        made = (self._written(node) or self._attention(node) or self._met(node)
                or self._multiplied(node) or self._last_rows(node) or self._taken(node)
                or self._joined(node) or self._padded(node) or self._with_number(node)
                or self._mean(node) or self._ordered(node) or self._flipped(node))  # fmt: skip
        if made is None:
            if not self._is_blind(node, ragged, measured):
                raise Seen(f"{node.format_node()}, {location(node)}")
            args, kwargs = self._given(node)
            made = self._emit(node.target, args, node, **kwargs)
        self.made[node] = made

    def _part(self, node: Node) -> Node:
        """One of several results."""
        of, index = arguments_of(node)
        made = self.graph.call_function(operator.getitem, (self.made[of], index))
        made.meta = {**node.meta, "val": self.made[of].meta["val"][index]}
        return made

    def _copied(self, node: Node) -> Node:
        """A node without lengths; what views it makes follows from how its operands lie here."""
        if any(self._lies_otherwise(operand) for operand in node.all_input_nodes):
            args, kwargs = self._given(node)
            return self._emit(node.target, args, node, **kwargs)
        made = self.graph.node_copy(node, self.made.__getitem__)
        made.meta = {**node.meta, "val": self.values[node]}
        return made

    def _lies_otherwise(self, node: Node) -> bool:
        value, made = self.values.get(node), self.made[node]
        if not isinstance(value, torch.Tensor) or not isinstance(made, Node):
            return False
        here = made.meta["val"]
        there = value.stride(), value.storage_offset()
        return bool((here.stride(), here.storage_offset()) != there)

    def _is_blind(self, node: Node, ragged: Sequence[Node], measured: Sequence[Node]) -> bool:
        """Whether elements up to a length depend on none behind it."""
        op, args = node.target, arguments_of(node)
        if any(self.made[size] is None for size in measured):
            return False
        if op in _MADE:
            if op is _aten.arange.default:
                self.counts.add(node)
            sizes = pytree.tree_leaves(args[_MADE[op]])
            return all(any(size is s for s in sizes) for size in measured)
        if op is _aten.arange.start and args[0] == 0:
            self.counts.add(node)
            return True
        if op in _VIEWS or op in _SHAPES:
            return self._is_view(node, ragged)
        if op is _aten.slice.Tensor:
            return self._is_whole(node)
        if measured:
            return False
        if op in _MADE_LIKE:
            return True
        self._keep(node, ragged, op in _BY_ELEMENT)
        if op in _BY_ELEMENT or op is _aten.copy.default:
            return True
        if op is _aten.add.Tensor and args[1] == 0 and args[0] in self.counts:
            self.counts.add(node)
        if op is _aten.copy_.default:
            return self.written.get(args[1]) is args[0]
        if op in _BY_PLACE:
            return True
        if op in buckets.MEETS:
            dims = buckets.MEETS[op](args, args[0].meta["val"].shape)
            return len(ragged) == 1 and ragged[0] is args[0] and not (
                {d % args[0].meta["val"].dim() for d in dims} & set(self._dims(args[0]))
            )  # fmt: skip
        if not isinstance(op, OpOverload) or torch.Tag.pointwise not in op.tags:
            return False
        whole = not self.values[node].dtype.is_floating_point
        by_number = len(args) > 1 and type(args[1]) is int and args[1] > 0
        return not schema_of(op).is_mutable and not (
            whole and op.overloadpacket.__name__.rstrip("_") in _RAISES and not by_number
        )

    def _keep(self, node: Node, ragged: Sequence[Node], same: bool) -> None:
        """Notes zeros behind the length, where the node has the elements of one that has them."""
        alone = same and len(ragged) == 1 and len(self._dims(node)) == 1
        if alone and ragged[0] in self.kept and ragged[0] is arguments_of(node)[0]:
            self.kept.add(node)

    def _is_view(self, node: Node, ragged: Sequence[Node]) -> bool:
        op, source = node.target, arguments_of(node)[0]
        self._keep(node, ragged, True)
        if source in self.counts and len(self._dims(node)) == 1:
            self.counts.add(node)
        return op not in _SHAPES or self._trailing(source) == self._trailing(node)

    def _is_whole(self, node: Node) -> bool:
        """Whether a slice is along no length, or of the first elements of what there is: all up to
        a length that is no longer, or of a table that reaches to its end."""
        args = arguments_of(node)
        defaults = (None, 0, None, None, 1)
        tensor, dim, first, last, step = args + defaults[len(args) :]
        size = tensor.meta["val"].shape[dim]
        number, end = self._length(size), self._length(last)
        if self._length(first) is not None:
            return False
        if number is None and end is None:
            return True
        made = self._length(node.meta["val"].shape[dim])
        if step == 1 and made == number and last in (None, sys.maxsize):
            self._keep(node, [tensor], True)
            return True
        if not isinstance(first, int | None) or first or step != 1 or end is None:
            return False
        there = self.values[tensor].shape[dim] if number is None else self.ends[number]
        return there >= self.ends[end] and made == end

    def _last_rows(self, node: Node) -> Node | None:
        """The rows before a length; the places of these."""
        op, args = node.target, arguments_of(node)
        sliced = op is _aten.slice.Tensor and len(args) == 4
        if not sliced and op not in (_aten.arange.start, _aten.arange.start_step):
            return None
        dim, (first, last) = (args[1], args[2:]) if sliced else (0, args[:2])
        from_end = sliced and isinstance(first, int) and first < 0 and last == sys.maxsize
        if from_end:
            last = args[0].meta["val"].shape[dim]
        number = self._length(last)
        if number is None or self._length(node.meta["val"].shape[dim]) is not None:
            return None
        rows = self.values[node].shape[dim]
        if not from_end and self.values[last] - self.values.get(first, -1) != rows:
            return None
        places = self._place(number, rows)
        if sliced:
            return self._emit(_aten.index_select.default, (self.made[args[0]], dim, places), node)
        return self._emit(_aten._to_copy.default, (places,), node, dtype=node.meta["val"].dtype)

    def _with_number(self, node: Node) -> Node | None:
        """Arithmetic with a length."""
        op, args = node.target, arguments_of(node)
        if not isinstance(op, OpOverload) or torch.Tag.pointwise not in op.tags or len(args) != 2:
            return None
        size = args[1].meta["val"] if isinstance(args[1], Node) else None
        takes = isinstance(size, torch.SymInt) and op.overloadpacket.__name__ in _TAKES_NUMBER
        if size is None or not takes or _measure(size, self.symbols) is None:
            return None
        length = self._argument(size.node.expr + 1, 1)
        length = self._emit(_aten.view.default, (length, []), node)
        pair = (self.made[args[0]], length)
        return self._emit(op.overloadpacket.Tensor, pair, node, **node.kwargs)

    def _written(self, node: Node) -> Node | None:
        """Rows that grown_arguments.py writes behind an argument."""
        args = arguments_of(node)
        argument = args[0] if args else None
        for grown in self.growing:
            wanted = (_aten.slice_scatter.default, grown.dim, -grown.rows)
            if argument is self.sources[grown.argument] and (node.target, *args[2:4]) == wanted:
                places = self._place(self._dims(argument)[grown.dim], grown.rows)
                self.written[node] = argument
                self.kept |= {argument} & self.kept and {node}
                few = self.made[args[1]]
                return self._emit(
                    _aten.index_copy.default, (self.made[argument], grown.dim, places, few), node
                )
        return None

    def _taken(self, node: Node) -> Node | None:
        """Rows of a table at an index with a length."""
        op, args = node.target, arguments_of(node)
        if op is _aten.embedding.default and not self._dims(args[0]):
            index = self._without(args[1], 0)
            return self._emit(op, (self.made[args[0]], index, *args[2:]), node)
        if op is _aten.index_select.default:
            tensor, dim, index = args
            made, lengths = self._without(index, 0), self._dims(tensor)
            if dim in lengths:
                made = self._from_end(made, lengths[dim], index)
            return self._emit(op, (self.made[tensor], dim, made), node)
        if op is _aten.gather.default:
            return self._emit(op, (self.made[args[0]], args[1], self._without(args[2], 0)), node)
        if op is not _aten.index.Tensor:
            return None
        tensor, indices = args
        lengths, given = self._dims(tensor), list[Any]()
        for dim, index in enumerate(indices):
            if index is None:
                given.append(None)
            elif index.meta["val"].dtype is torch.bool:
                return None
            elif index in self.counts and set(self._dims(index).values()) == {lengths.get(dim)}:
                given.append(self.made[index])
            else:
                made = self._without(index, 0)
                given.append(self._from_end(made, lengths[dim], index) if dim in lengths else made)
        return self._emit(op, (self.made[tensor], given), node)

    def _from_end(self, index: Node, number: int, like: Node) -> Node:
        """An index along a length, those from its end counted from its begin."""
        last = self._emit(_aten.view.default, (self._place(number, 1), []), like)
        length = self._emit(_aten.add.Tensor, (last, 1), like)
        negative = self._emit(_aten.lt.Scalar, (index, 0), like)
        moved = self._emit(_aten.add.Tensor, (index, length), like)
        return self._emit(_aten.where.self, (negative, moved, index), like)

    def _joined(self, node: Node) -> Node | None:
        """A concatenation: along no length, or of a length and rows before and behind it."""
        op, args = node.target, arguments_of(node)
        if op not in (_aten.cat.default, _aten.stack.default):
            return None
        parts, *rest = args
        dim = (rest[0] if rest else 0) % node.meta["val"].dim()
        lengths = [self._dims(part).get(dim) for part in parts]
        if op is _aten.stack.default or lengths == [None] * len(parts):
            return self._emit(op, self._given(node)[0], node)
        there = self._dims(node).get(dim)
        kinds = {part.meta["val"].dtype for part in parts}
        if len(parts) - lengths.count(None) > 1 or there is None or len(kinds) > 1:
            return None
        (at,) = (place for place, number in enumerate(lengths) if number is not None)
        end = self.ends[there]
        if self.ends[lengths[at] or 0] != end:
            return None
        made: Node = self.made[parts[at]]
        if at:
            before = [self.made[part] for part in parts[:at]]
            made = self._emit(op, ([*before, made], dim), node)
            made = self._emit(_aten.slice.Tensor, (made, dim, 0, end), node)
        few = [self.made[part] for part in parts[at + 1 :]]
        if few:
            rows = few[0] if len(few) == 1 else self._emit(op, (few, dim), node)
            places = self._place(there, rows.meta["val"].shape[dim])
            made = self._emit(_aten.index_copy.default, (made, dim, places, rows), node)
        if parts[at] in self.kept and self._dims(node).keys() == {dim}:
            self.kept.add(node)
        return made

    def _padded(self, node: Node) -> Node | None:
        """Rows of a number before and behind a length."""
        op, args = node.target, arguments_of(node)
        if op is not _aten.constant_pad_nd.default:
            return None
        pads = buckets.padded(args[1], args[0].meta["val"].dim())
        along = pads.keys() & self._dims(args[0])
        if pads.keys() != along or any(type(n) is not int or n < 0 for d in pads for n in pads[d]):
            return None
        made: Node = self.made[args[0]]
        for dim, (before, behind) in pads.items():
            there = self._dims(node).get(dim)
            if there is None or self.ends[there] != made.meta["val"].shape[dim]:
                return None
            if before:
                made = self._emit(
                    _aten.cat.default, ([self._rows(node, dim, before), made], dim), node
                )
                made = self._emit(_aten.slice.Tensor, (made, dim, 0, self.ends[there]), node)
            if behind:
                places, rows = self._place(there, behind), self._rows(node, dim, behind)
                made = self._emit(_aten.index_copy.default, (made, dim, places, rows), node)
        return made

    def _rows(self, node: Node, dim: int, count: int) -> Node:
        """What a padding adds along one of its dims."""
        value, number = self._at_end(node), [*arguments_of(node), 0][2]
        sizes = [count if d == dim else size for d, size in enumerate(value.shape)]
        made = {"dtype": value.dtype, "device": value.device}
        return self._emit(_aten.full.default, (sizes, number), node, **made)

    def _met(self, node: Node) -> Node | None:
        """A softmax or sum along a length."""
        op, args = node.target, arguments_of(node)
        if op not in _FILLED:
            return None
        rank = args[0].meta["val"].dim()
        dims = args[1] if len(args) > 1 and args[1] not in (None, []) else range(rank)
        met = {dim % rank for dim in ([dims] if isinstance(dims, int) else dims)}
        given, kwargs = self._given(node)
        operand = self._without(args[0], _FILLED[op], met)
        return self._emit(op, (operand, *given[1:]), node, **kwargs)

    def _mean(self, node: Node) -> Node | None:
        """A mean, or a variance, along a length, in float32."""
        op = node.target
        if op not in _MEANS:
            return None
        given = _named(node)
        operand = given["self"]
        of = operand.meta["val"]
        dims = {dim % of.dim() for dim in given.get("dim") or range(of.dim())}
        if of.dtype not in _SUMMED or not dims & set(self._dims(operand)):
            return None
        values = self._without(operand, 0, dims)
        values = self._emit(_aten._to_copy.default, (values,), node, dtype=torch.float32)
        count = self._count(operand, dims)
        if op not in (_aten.mean.default, _aten.mean.dim):
            values = self._squares(operand, values, count, dims)
            less = given.get("correction")
            count = self._emit(_aten.sub.Tensor, (count, 1 if less is None else less), node)
        keeps = bool(given.get("keepdim"))
        made = self._emit(_aten.sum.dim_IntList, (values, sorted(dims), keeps), node)
        made = self._emit(_aten.div.Tensor, (made, count), node)
        if op is _aten.std.correction:
            made = self._emit(_aten.sqrt.default, (made,), node)
        return self._emit(_aten._to_copy.default, (made,), node, dtype=node.meta["val"].dtype)

    def _squares(self, operand: Node, values: Node, count: Node, dims: Collection[int]) -> Node:
        """Of the distances of an operand's values from their mean, 0 behind the length."""
        sums = self._emit(_aten.sum.dim_IntList, (values, sorted(dims), True), operand)
        mean = self._emit(_aten.div.Tensor, (sums, count), operand)
        apart = self._emit(_aten.sub.Tensor, (values, mean), operand)
        squares = self._emit(_aten.mul.Tensor, (apart, apart), operand)
        return self._without(operand, 0, dims, squares)

    def _count(self, operand: Node, dims: Collection[int]) -> Node:
        """How many elements an operand has along dims, float32 without dimensions."""
        lengths, of = self._dims(operand), self.values[operand]
        ((dim, number),) = [pair for pair in lengths.items() if pair[0] in dims]
        last = self._emit(_aten.view.default, (self._place(number, 1), []), operand)
        last = self._emit(_aten._to_copy.default, (last,), operand, dtype=torch.float32)
        length = self._emit(_aten.add.Tensor, (last, 1), operand)
        others = [size for d, size in enumerate(of.shape) if d in dims and d != dim]
        return self._emit(_aten.mul.Tensor, (length, float(torch.Size(others).numel())), operand)

    def _ordered(self, node: Node) -> Node | None:
        """A sort or the first of one along a length: what is behind sorts last."""
        op = node.target
        if op not in _SORTS:
            return None
        given = _named(node)
        falls = given.get("largest", True) if op is _aten.topk.default else given.get("descending")
        of = given["self"].meta["val"]
        dim = given.get("dim", -1) % of.dim()
        if dim not in self._dims(given["self"]):
            return None
        last = -torch.inf if falls else torch.nan if of.dtype.is_floating_point else torch.inf
        operand = self._without(given["self"], last, {dim})
        _first, *rest = self._given(node)[0]
        return self._emit(op, (operand, *rest), node, **node.kwargs)

    def _flipped(self, node: Node) -> Node | None:
        """A flip: elements from the end of a length on."""
        op, args = node.target, arguments_of(node)
        if op is not _aten.flip.default:
            return None
        of = args[0].meta["val"]
        made, others = self.made[args[0]], []
        for dim in (dim % of.dim() for dim in args[1]):
            number = self._dims(args[0]).get(dim)
            if number is None:
                others.append(dim)
                continue
            kind = {"device": self.device, "pin_memory": False}
            places = self._emit(_aten.arange.default, (self.ends[number],), node, **kind)
            places = self._emit(_aten.sub.Tensor, (self._place(number, 1), places), node)
            places = self._emit(_aten.clamp_min.default, (places, 0), node)
            made = self._emit(_aten.index_select.default, (made, dim, places), node)
        return self._emit(op, (made, others), node) if others else made

    def _multiplied(self, node: Node) -> Node | None:
        """A product along a length."""
        op, args = node.target, arguments_of(node)
        if op not in _PRODUCTS:
            return None
        given, kwargs = self._given(node)
        left, right = args[-2:]
        pair = [self._without(operand, 0, {operand.meta["val"].dim() + dim})
                for operand, dim in ((left, -1), (right, -2))]  # fmt: skip
        return self._emit(op, (*given[:-2], *pair), node, **kwargs)

    def _without(
        self, operand: Node, value: float, dims: Collection[int] | None = None,
        instead: Node | None = None,
    ) -> Node:  # fmt: skip
        """The operand, or what has its sizes, with a number behind its length, where that is along
        one of some dims."""
        made: Node = instead or self.made[operand]
        lengths = {d: n for d, n in self._dims(operand).items() if dims is None or d in dims}
        if not lengths or (operand in self.kept and value == 0 and instead is None):
            return made
        if len(lengths) > 1:
            raise Seen(f"several lengths of {operand.name}")
        ((dim, number),) = lengths.items()
        of = operand.meta["val"]
        shape = [-1, *[1] * (of.dim() - 1 - dim)]
        valid = self._emit(_aten.view.default, (self._valid(number, operand), shape), operand)
        nothing = self._scalar(value, made.meta["val"].dtype, operand)
        return self._emit(_aten.where.self, (valid, made, nothing), operand)

    def _attention(self, node: Node) -> Node | None:
        if node.target is not _aten.scaled_dot_product_attention.default:
            return None
        query, key, value, *rest = (*arguments_of(node), None, 0.0, False)[:6]
        mask, _dropout, causal = rest
        of_keys, of_mask = self._dims(key), self._dims(mask)
        place = key.meta["val"].dim() - 2
        number = of_keys.get(place)
        last = mask.meta["val"].dim() - 1 if mask is not None else 0
        if (
            number is None or causal or self._dims(query) or set(of_keys) != {place}
            or self._dims(value) != of_keys or of_mask not in ({}, {last: number})
        ):  # fmt: skip
            return None
        args, kwargs = self._given(node)
        made = self._masked(number, self.made.get(mask), query, node)
        copy = self.graph.call_function(
            node.target, (args[0], self._without(key, 0), self._without(value, 0), made, *args[4:]),
            kwargs,
        )  # fmt: skip
        copy.meta = {**node.meta, "val": self.values[node]}
        return copy

    def _masked(self, number: int, mask: Node | None, query: Node, like: Node) -> Node:
        """An attention mask that leaves out the keys behind a length."""
        valid = self._valid(number, like)
        if mask is not None and mask.meta["val"].dtype is torch.bool:
            return self._emit(_aten.bitwise_and.Tensor, (mask, valid), like)
        dtype = (mask if mask is not None else query).meta["val"].dtype
        nothing = self._scalar(-torch.inf, dtype, like)
        if mask is None:
            mask = self._scalar(0.0, dtype, like)
        return self._emit(_aten.where.self, (valid, mask, nothing), like)

    def _scalar(self, value: float, dtype: torch.dtype, like: Node) -> Node:
        if dtype is torch.bool:
            value = bool(value)
        elif not dtype.is_floating_point:  # the card has 32 bits of int64
            ends = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
            value = int(min(max(value, ends.min), ends.max))
        kind = {"dtype": dtype, "device": self.device}
        return self._emit(_aten.scalar_tensor.default, (value,), like, **kind)

    def _valid(self, number: int, like: Node) -> Node:
        """Which places are before the length: bool [1, end]."""
        if number not in self.valid:
            last, kind = self._place(number, 1), {"device": self.device, "pin_memory": False}
            all_places = self._emit(_aten.arange.default, (self.ends[number],), like, **kind)
            shaped = self._emit(_aten.view.default, (last, [1, 1]), like)
            self.valid[number] = self._emit(_aten.le.Tensor, (all_places, shaped), like)
        return self.valid[number]


def _named(node: Node) -> dict[str, Any]:
    """The arguments of a node that it is called with, by name."""
    names = [argument.name for argument in schema_of(overload_of(node)).arguments]
    return {**dict(zip(names, arguments_of(node), strict=False)), **node.kwargs}


def _writes(node: Node) -> bool:
    return node.target is _aten.copy_.default or node.is_impure()
