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

import itertools
import math
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
from ..constants import DEVICE_NAME
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


Factors = tuple[tuple[bool, int], ...]  # of joined dims, outermost first: a length, or a size


class Seen(Exception):
    """A node sees what is behind a length."""


class Places(NamedTuple):
    """An argument of a form: the numbers of the rows before a length; of all rows up to the end of
    its bucket, whose number is `end_of`; without rows, a number itself, in float32."""

    length: sympy.Expr
    rows: int
    end_of: int | None = None


class Form(NamedTuple):
    """The graph at the ends of its buckets."""

    gm: torch.fx.GraphModule
    arguments: list[tuple[int, dict[int, int]]]  # of the graph, their lengths by dim
    places: list[Places]  # arguments behind them
    cuts: list[dict[int | None, int]]  # by result: lengths by dim, {None: length} for a size
    offset: int  # the most that a size differs from the end of a bucket


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
    of: Sequence[Measure], alike: Sequence[int], ends: Sequence[int],
) -> Form:  # fmt: skip
    """The form for arguments that have grown. `alike` has for each length the first that is as
    long. Raises: Seen."""
    return _Rewriting(gm, growing, args, of, alike, ends).form()


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
_TAKES_NUMBER = {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"}
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
_MEET_ANYWHERE = {_aten._softmax.default, _aten.softmax.int, _aten.sum.dim_IntList,
                  _aten.amax.default, _aten.amin.default}  # fmt: skip
# Divided by how many elements there are.
_MEANS = {_aten.mean.default, _aten.mean.dim, _aten.var.correction, _aten.std.correction}
_BY_PLACE = {_aten.tril.default, _aten.triu.default}  # counted from the first elements on
_SUMMED = {torch.float16, torch.bfloat16, torch.float32}
_SORTS = {_aten.sort.default, _aten.sort.stable, _aten.topk.default}
_PRODUCTS = {_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default}


def device_of(values: Iterable[Any]) -> torch.device:
    """Where a graph with these arguments computes: on the card, if one is there."""
    devices = [value.device for value in values if isinstance(value, torch.Tensor)]
    return next((device for device in devices if device.type == DEVICE_NAME), devices[0])


class _Rewriting:
    """Makes a form."""

    def __init__(
        self, gm: torch.fx.GraphModule, growing: Sequence[Growing], args: Sequence[Any],
        of: Sequence[Measure], alike: Sequence[int], ends: Sequence[int],
    ) -> None:  # fmt: skip
        self.gm, self.growing = gm, growing
        self.measures, self.alike, self.ends = of, alike, list(ends)
        self.offset = 0
        self.products: list[sympy.Expr] = []  # sizes behind the measures
        self.orders: dict[int, Factors] = {}  # of these, once a view has told
        self.symbols = {measure.symbol for measure in of}
        self.graph = torch.fx.Graph()
        self.made: dict[Node, Any] = {}  # by node of the graph: its node here, or a number
        self.places: dict[Places, Node] = {}
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
        return Form(gm, arguments, list(self.places), cuts, self.offset)

    def _arguments(self) -> list[tuple[int, dict[int, int]]]:
        arguments = []
        for index, node in enumerate(self.sources):
            value = node.meta.get("val")
            if isinstance(value, SYMBOLIC):
                self.made[node] = self._size(node)
                continue
            dims = self._dims(node)
            if any(map(self._is_product, dims.values())):
                raise Seen(f"dims of {node.name} are joined")
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
        self.device = device_of([node.meta["val"] for node in self.sources])
        return arguments

    def _place(self, number: int, rows: int) -> Node:
        """The places of the last rows of a length."""
        if self._is_product(number):
            raise Seen(f"places in joined dims, {self.products[number - len(self.measures)]}")
        measure = self.measures[number]
        return self._argument(Places(measure.symbol + measure.more, rows))

    def _all_places(self, number: int) -> Node:
        """Those up to the end of a length's bucket."""
        end = self.ends[number]
        return self._argument(Places(sympy.Integer(end), end, number))

    def _argument(self, places: Places) -> Node:
        """One behind all that the graph has."""
        if places not in self.places:
            with self.graph.inserting_after(self.last):
                self.last = self.graph.placeholder(f"places_{len(self.places)}")
            kind = torch.int64 if places.rows else torch.float32
            with self.mode:
                made = torch.empty(places.rows or 1, dtype=kind, device=self.device)
            self.last.meta["val"] = made
            self.places[places] = self.last
        return self.places[places]

    # ---- sizes

    def _length(self, size: Any) -> int | None:
        """Of the length that a size is, None for one that has none in it; the first of equal ones.
        Raises: Seen."""
        size = size.meta.get("val") if isinstance(size, Node) else size
        measure = _measure(size, self.symbols)
        if measure is None:
            return None
        if measure.more is None:
            return self._product(size.node.expr)
        return self._number(measure)

    def _number(self, measure: Measure) -> int:
        if measure not in self.measures:
            raise Seen(f"a size is {measure.symbol + measure.more}")
        return self.alike[self.measures.index(measure)]

    def _product(self, size: sympy.Expr) -> int:
        """Of a size along which views join dims: rows are not one behind another there."""
        if size not in self.products:
            of = self._factors(size)
            self.products.append(size)
            self.ends.append(math.prod(self.ends[n] if is_length else n for is_length, n in of))
        return len(self.measures) + self.products.index(size)

    def _factors(self, size: sympy.Expr) -> Factors:
        found: list[tuple[bool, int]] = []
        for factor, times in size.as_powers_dict().items():
            if factor.is_Integer and times == 1:
                found.append((False, int(factor)))
            elif factor in self.symbols and times.is_Integer and times > 0:
                found += [(True, self._number(Measure(factor, 0)))] * int(times)
            else:
                raise Seen(f"a size is {size}")
        return tuple(found)

    def _is_product(self, number: int | None) -> bool:
        return number is not None and number >= len(self.measures)

    def _joins(self, node: Node) -> bool:
        """Whether dims are joined in a node, or in what it is made of."""
        numbers = [self._known_length(source) for source in node.all_input_nodes]
        for each in (node, *node.all_input_nodes):
            numbers += self._dims(each).values()
        return any(map(self._is_product, numbers))

    def _dims(self, node: object) -> dict[int, int]:
        """The lengths of a tensor, by dim."""
        value = node.meta.get("val") if isinstance(node, Node) else None
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else ()
        return {dim: number for dim, size in sizes if (number := self._length(size)) is not None}

    def _cut(self, result: object) -> dict[int | None, int]:
        if not isinstance(result, Node):
            return {}
        value, here = result.meta.get("val"), self.values[result]
        if not isinstance(value, SYMBOLIC):
            dims = self._dims(result)
            is_tensor = isinstance(here, torch.Tensor)
            if is_tensor and (here.storage_offset() or dims and not here.is_contiguous()):
                raise Seen("a result is a view")
            if any(map(self._is_product, dims.values())):
                raise Seen("dims of a result are joined")
            return dict[int | None, int](dims.items())
        number = self._length(value)
        if self._is_product(number):
            raise Seen(f"a result is {value.node.expr}")
        return {} if number is None else {None: number}

    def _size(self, node: Node) -> Any:
        """A number of the graph, where its length ends; None for one that has a length in it."""
        measure = _measure(node.meta["val"], self.symbols)
        if measure is None:
            return self.values[node]
        number = self._known_length(node)
        return None if number is None else self.ends[number]

    def _known_length(self, node: Node) -> int | None:
        """That of a number, None for one that no tensor is as long as."""
        if not isinstance(node.meta.get("val"), SYMBOLIC):
            return None
        try:
            return self._length(node)
        except Seen:
            return None

    def _at_end(self, node: Node) -> torch.Tensor:
        value: torch.Tensor = self.values[node]
        dims = self._dims(node)
        if not dims:
            return value
        sizes = [self.ends[dims[d]] if d in dims else size for d, size in enumerate(value.shape)]
        strides = value.stride()
        order = sorted(range(value.dim()), key=lambda d: (-strides[d], d))
        with self.mode:
            made = torch.empty([sizes[d] for d in order], dtype=value.dtype, device=value.device)
            return made.permute([order.index(d) for d in range(value.dim())])

    def _trailing(self, node: Node, order: Factors = ()) -> list[tuple[int, int, list[int]]]:
        """Of each length, outermost first, what one step along it goes over: elements of other
        dims, and lengths. `order` is of products that have none yet."""
        found = []
        elements, behind = 1, list[int]()
        dims = self._dims(node)
        for dim in reversed(range(self.values[node].dim())):
            number, size = dims.get(dim), self.values[node].shape[dim]
            factors: Factors = ((number is not None, size if number is None else number),)
            if number is not None and self._is_product(number):
                factors = self.orders.get(number, order)
            for is_length, n in reversed(factors):
                if is_length:
                    found.append((n, elements, sorted(behind)))
                    behind.append(n)
                else:
                    elements *= n
        return found

    def _is_same(self, source: Node, node: Node) -> bool:
        """Whether a view in another shape has every element of a length where it was. The first
        that joins dims tells their order for all of the graph."""
        numbers = [*self._dims(source).values(), *self._dims(node).values()]
        open_ones = {n for n in numbers if self._is_product(n) and n not in self.orders}
        if not open_ones:
            return self._trailing(source) == self._trailing(node)
        if len(open_ones) > 1:
            return False
        (number,) = open_ones
        of = self._factors(self.products[number - len(self.measures)])
        for order in itertools.permutations(of):
            if self._trailing(source, order) == self._trailing(node, order):
                self.orders[number] = order
                return True
        return False

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
        except (RuntimeError, ValueError) as error:  # sizes that do not fit at the ends
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
        if self._joins(node):
            self.made[node] = self._joined_dims(node, ragged, measured)
            return
        made = (self._written(node) or self._attention(node) or self._met(node)
                or self._multiplied(node) or self._last_rows(node) or self._moved_up(node)
                or self._selected(node) or self._counted(node) or self._taken(node)
                or self._joined(node) or self._padded(node) or self._with_number(node)
                or self._mean(node) or self._ordered(node) or self._flipped(node))  # fmt: skip
        self.made[node] = made or self._same(node, ragged, measured)

    def _same(self, node: Node, ragged: Sequence[Node], measured: Sequence[Node]) -> Node:
        """The node as it is."""
        if not self._is_blind(node, ragged, measured):
            raise Seen(f"{node.format_node()}, {location(node)}")
        args, kwargs = self._given(node)
        return self._emit(node.target, args, node, **kwargs)

    def _joined_dims(self, node: Node, ragged: Sequence[Node], measured: Sequence[Node]) -> Node:
        """A node of joined dims: one that does not ask where an element is along them."""
        op = node.target
        if op in _BY_PLACE or op in (_aten.arange.default, _aten.arange.start, _aten.index.Tensor):
            raise Seen(f"places in joined dims: {node.format_node()}, {location(node)}")
        met = self._met(node) if op in _MEET_ANYWHERE else None
        return (met or self._attention(node) or self._multiplied(node)
                or self._same(node, ragged, measured))  # fmt: skip

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
        return op not in _SHAPES or self._is_same(source, node)

    def _is_whole(self, node: Node) -> bool:
        """Whether a slice is along no length, or of the first elements of what there is: all up to
        a length that is no longer, or of a table that reaches to its end."""
        args = arguments_of(node)
        defaults = (None, 0, None, None, 1)
        tensor, dim, first, last, step = args + defaults[len(args) :]
        size = tensor.meta["val"].shape[dim]
        number, end = self._length(size), self._length(last)
        if self._length(first) is not None or self._is_product(end):
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

    def _moved_up(self, node: Node) -> Node | None:
        """Some of the first rows, or those up to a length without the first ones or some of the
        last; what is behind them may be anything."""
        op, args = node.target, arguments_of(node)
        if op is not _aten.slice.Tensor:
            return None
        tensor, dim, first, _last, step = args + (None, 0, None, None, 1)[len(args) :]
        number, made = (self._length(n.meta["val"].shape[dim]) for n in (tensor, node))
        first = first or 0
        if number is None or step != 1 or type(first) is not int or first < 0:
            return None
        if made is None:
            last = first + self.values[node].shape[dim]
            return self._emit(op, (self.made[tensor], dim, first, last), node)
        if first == 0 and self._is_whole(node):
            return None
        there, end = self.ends[number], self.ends[made]
        behind = max(first + end - there, 0)
        self.offset = max(self.offset, first)
        if behind > first:
            return None
        rows = self._emit(op, (self.made[tensor], dim, first, first + end - behind), node)
        if not behind:
            return rows
        others = self._emit(op, (self.made[tensor], dim, 0, behind), node)
        return self._emit(_aten.cat.default, ([rows, others], dim), node)

    def _selected(self, node: Node) -> Node | None:
        """One row of those before a length."""
        if node.target is not _aten.select.int:
            return None
        tensor, dim, index = arguments_of(node)
        number = self._length(tensor.meta["val"].shape[dim])
        if number is None or type(index) is not int:
            return None
        if index >= 0:
            return self._emit(_aten.select.int, (self.made[tensor], dim, index), node)
        place = self._emit(_aten.slice.Tensor, (self._place(number, -index), 0, 0, 1), node)
        row = self._emit(_aten.index_select.default, (self.made[tensor], dim, place), node)
        return self._emit(_aten.squeeze.dim, (row, dim), node)

    def _with_number(self, node: Node) -> Node | None:
        """Arithmetic with a number that follows from a length."""
        op, args = node.target, arguments_of(node)
        if not isinstance(op, OpOverload) or torch.Tag.pointwise not in op.tags or len(args) != 2:
            return None
        size = args[1].meta["val"] if isinstance(args[1], Node) else None
        takes = isinstance(size, SYMBOLIC) and op.overloadpacket.__name__ in _TAKES_NUMBER
        if size is None or not takes or _measure(size, self.symbols) is None:
            return None
        number = size.node.expr
        is_whole = isinstance(size, torch.SymInt)
        given = self._argument(Places(number + 1, 1) if is_whole else Places(number, 0))
        pair = (self.made[args[0]], self._emit(_aten.view.default, (given, []), node))
        return self._emit(op.overloadpacket.Tensor, pair, node, **node.kwargs)

    def _counted(self, node: Node) -> Node | None:
        """The numbers up to a length."""
        op, args = node.target, arguments_of(node)
        if op not in (_aten.arange.default, _aten.arange.start):
            return None
        if node.meta["val"].device != self.device:
            return None
        last = int(op is _aten.arange.start)
        number = self._length(args[last]) if isinstance(args[last], Node) else None
        if number is None or self._is_product(number) or (last and args[0] != 0):
            return None
        self.counts.add(node)
        dtype = node.meta["val"].dtype
        return self._emit(_aten._to_copy.default, (self._all_places(number),), node, dtype=dtype)

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
            self.offset = max(self.offset, *(n.meta["val"].shape[dim] for n in before))
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
            self.offset = max(self.offset, before)
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
        """A mean, or a variance, along a length: what the compiler makes of one, with numbers that
        follow from the length."""
        op = node.target
        if op not in _MEANS:
            return None
        given = _named(node)
        operand = given["self"]
        of = operand.meta["val"]
        dims = {dim % of.dim() for dim in given.get("dim") or range(of.dim())}
        if of.dtype not in _SUMMED or not dims & set(self._dims(operand)):
            return None
        keeps = bool(given.get("keepdim"))
        if op in (_aten.mean.default, _aten.mean.dim):
            made = self._mean_of(operand, self.made[operand], dims, keeps)
        else:
            less = given.get("correction")
            made = self._variance(operand, dims, keeps, 1 if less is None else less)
        if op is _aten.std.correction:
            made = self._emit(_aten.sqrt.default, (made,), node)
        return self._emit(_aten._to_copy.default, (made,), node, dtype=node.meta["val"].dtype)

    def _mean_of(self, operand: Node, instead: Node, dims: Collection[int], keeps: bool) -> Node:
        """Of what has an operand's sizes, in its dtype."""
        dtype = operand.meta["val"].dtype
        values = self._without(operand, 0, dims, instead)
        values = self._emit(_aten._to_copy.default, (values,), operand, dtype=torch.float32)
        made = self._emit(_aten.sum.dim_IntList, (values, sorted(dims), keeps), operand)
        made = self._times(made, 1 / self._count(operand, dims), operand)
        return self._emit(_aten._to_copy.default, (made,), operand, dtype=dtype)

    def _variance(self, operand: Node, dims: Collection[int], keeps: bool, less: float) -> Node:
        """In float32; by distances from the mean, and the mean of these."""
        mean = self._mean_of(operand, self.made[operand], dims, True)
        apart = self._emit(_aten.sub.Tensor, (self.made[operand], mean), operand)
        squares = self._emit(_aten.mul.Tensor, (apart, apart), operand)
        wide = [
            self._emit(_aten._to_copy.default, (mean,), operand, dtype=torch.float32)
            for mean in (self._mean_of(operand, each, dims, keeps) for each in (squares, apart))
        ]
        rest = self._emit(_aten.mul.Tensor, (wide[1], wide[1]), operand)
        made = self._emit(_aten.sub.Tensor, (wide[0], rest), operand)
        made = self._emit(_aten.clamp_min.default, (made, 0), operand)
        count = self._count(operand, dims)
        return self._times(made, count / (count - less), operand) if less else made

    def _times(self, made: Node, number: sympy.Expr, like: Node) -> Node:
        """A product with a number that follows from lengths."""
        given = self._argument(Places(number, 0))
        given = self._emit(_aten.view.default, (given, []), like)
        return self._emit(_aten.mul.Tensor, (made, given), like)

    def _count(self, operand: Node, dims: Collection[int]) -> sympy.Expr:
        """How many elements an operand has along dims."""
        lengths, of = self._dims(operand), self.values[operand]
        count = sympy.Integer(1)
        for dim in dims:
            if dim not in lengths:
                count *= of.shape[dim]
                continue
            if self._is_product(lengths[dim]):
                count *= self.products[lengths[dim] - len(self.measures)]
                continue
            measure = self.measures[lengths[dim]]
            assert measure.more is not None
            count *= measure.symbol + measure.more
        return count

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
            places = self._all_places(number)
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
        of = operand.meta["val"]
        for dim, number in lengths.items():
            shape = [-1, *[1] * (of.dim() - 1 - dim)]
            valid = self._emit(_aten.view.default, (self._valid(number, operand), shape), operand)
            nothing = self._scalar(value, made.meta["val"].dtype, operand)
            made = self._emit(_aten.where.self, (valid, made, nothing), operand)
        return made

    def _attention(self, node: Node) -> Node | None:
        if node.target is not _aten.scaled_dot_product_attention.default:
            return None
        given = _named(node)
        operands = [given[name] for name in ("query", "key", "value")]
        rows = operands[1].meta["val"].dim() - 2
        queries, keys, values = (
            {d: n for d, n in self._dims(o).items() if d >= rows} for o in operands
        )
        is_causal, number = given.get("is_causal", False), keys.get(rows)
        if keys != values or {*queries, *keys} - {rows} or (is_causal and queries != keys):
            return None
        if self._is_product(number):
            return None
        made = dict(torch.fx.map_arg(given, self.made.__getitem__))
        if number is not None:
            made["key"], made["value"] = (self._without(o, 0, {rows}) for o in operands[1:])
            if not is_causal:  # else no row up to the length sees one behind it
                made["attn_mask"] = self._masked(number, made.get("attn_mask"), operands[0], node)
        operands = [made.pop(name) for name in ("query", "key", "value")]
        copy = self.graph.call_function(node.target, tuple(operands), made)
        copy.meta = {**node.meta, "val": self._at_end(node)}
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
        if self._is_product(number):
            return self._valid_of_joined(number, like)
        if number not in self.valid:
            places, last = self._all_places(number), self._place(number, 1)
            shaped = self._emit(_aten.view.default, (last, [1, 1]), like)
            self.valid[number] = self._emit(_aten.le.Tensor, (places, shaped), like)
        return self.valid[number]

    def _valid_of_joined(self, number: int, like: Node) -> Node:
        made: Node | None = None
        if number not in self.orders:
            raise Seen(f"dims joined in no order, {like.format_node()}")
        for is_length, n in self.orders[number]:
            kind = {"dtype": torch.bool, "device": self.device}
            part = self._valid(n, like) if is_length else self._emit(
                _aten.full.default, ([1, n], True), like, **kind)  # fmt: skip
            if made is None:
                made = part
                continue
            made = self._emit(_aten.view.default, (made, [-1, 1]), like)
            made = self._emit(_aten.bitwise_and.Tensor, (made, part), like)
            made = self._emit(_aten.view.default, (made, [1, -1]), like)
        assert made is not None
        return made


def _named(node: Node) -> dict[str, Any]:
    """The arguments of a node that it is called with, by name."""
    names = [argument.name for argument in schema_of(overload_of(node)).arguments]
    return {**dict(zip(names, arguments_of(node), strict=False)), **node.kwargs}


def _writes(node: Node) -> bool:
    return node.target is _aten.copy_.default or node.is_impure()
