# SPDX-License-Identifier: Apache-2.0
"""Whether int64 arithmetic stays within the 32 bits in which the card computes integers, and
whether integers are divided by 0.

PyTorch promises 64 bits. The smallest and largest value of each operand give an interval for the
result; where that leaves 32 bits, the host computes. Operands are read for it, which costs little
beside the exactness: integers of 64 bits are positions, lengths and indices. A quotient of integers
has no value where a divisor is 0: the host then raises PyTorch's error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from .._pytorch.fx import arguments_of, overload_of
from ..constants import DEVICE_NAME

_aten = torch.ops.aten

# What integers the device has.
_WHOLE = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
_CASTS = {_aten._to_copy, torch.ops.prims.convert_element_type}
Range = tuple[float, float]  # smallest and largest value; of integers these are int
Known = dict[torch.fx.Node, Range]
# Of a tensor or a parameter of a call: least, most, whether 0 is left out (core/eager.c).
Bound = tuple[torch.Tensor | int, int, int, bool]
Found = dict[int, Range] | None  # of inputs, by id; None before there are any
LEAVES = "its int64 values leave 32 bits"
_ZERO = "a divisor may be 0"
CARD: Range = (-(2**31), 2**31 - 1)
_WIDE: Range = (-(2**63), 2**63 - 1)
_UNBOUNDED: Range = (-math.inf, math.inf)  # of floating values that nothing bounds


class _Nonzero(tuple[float, float]):
    """A range that goes across 0 of values that are not 0."""

    __slots__ = ()


def _has_zero(found: Range) -> bool:
    return found[0] <= 0 <= found[1] and not isinstance(found, _Nonzero)


def fits(found: Range) -> bool:
    """Whether the card's integers hold all values of the range."""
    return CARD[0] <= found[0] and found[1] <= CARD[1]


def range_of_tensor(tensor: torch.Tensor) -> Range:
    """Of a tensor's values, cut towards zero, but for infinities and NaN: what integer they become
    is undefined in PyTorch, and on the card an end of 32 bits."""
    if tensor.device.type == DEVICE_NAME and tensor.dtype in _WHOLE:
        least, most, has_zero = _C.integer_range(tensor)
        return (least, most) if has_zero else _Nonzero((least, most))
    values = tensor.cpu()
    if tensor.is_floating_point():
        values = values[values.isfinite()]
    if values.numel() == 0:
        return 0, 0
    low, high = (end.item() for end in values.aminmax())
    if not (_WIDE[0] <= low and high <= _WIDE[1]):
        return _WIDE
    found = int(low), int(high)
    return _Nonzero(found) if _has_zero(found) and bool(values.all()) else found


def bound(tensor: torch.Tensor, found: Range) -> Bound:
    """As core/eager.c takes it."""
    return tensor, int(found[0]), int(found[1]), not _has_zero(found)


def _bits_of(found: Range) -> int:
    return max(int(abs(end)).bit_length() for end in found)


def _of_bits(found: Range, bits: int, with_zero: bool) -> Range:
    """A range of the same signs, of numbers of so many bits."""
    most = 2**bits - 1
    wider = (
        min(found[0], -most if found[0] < 0 else 0),
        max(found[1], most if found[1] > 0 else 0),
    )
    return wider if with_zero or _has_zero(found) else _Nonzero(wider)


def widest(found: Sequence[Range], holds: Callable[[list[Range]], bool]) -> list[Range]:
    """Ranges around those that hold, which hold as well: what grows, or is another number the next
    time, stays within them for long. Those of divisors stay without 0."""
    least = max(map(_bits_of, found), default=31)
    for with_zero, bits in itertools.product((True, False), range(31, least - 1, -1)):
        wider = [_of_bits(one, bits, with_zero) for one in found]
        if all(map(fits, wider)) and holds(wider):
            return wider
    return list(found)


# ---- results of operators: (values of the arguments, ranges of its tensors and numbers) -> range


def _hull(numbers: Iterable[float]) -> Range:
    numbers = list(numbers)
    return min(numbers), max(numbers)


def _sum(x: Range, y: Range, factor: float = 1) -> Range:
    low, high = _hull(factor * end for end in y)
    return x[0] + low, x[1] + high


def _joined(ranges: Sequence[Range]) -> Range:
    """Of values that are among those of some range."""
    found = _hull(end for one in ranges for end in one)
    return found if any(map(_has_zero, ranges)) else _Nonzero(found)


def _product(x: Range, y: Range) -> Range:
    return _hull(a * b for a in x for b in y)


def _absolute(x: Range) -> Range:
    return _hull([abs(x[0]), abs(x[1]), *([0] if x[0] <= 0 <= x[1] else [])])


def _clamped(x: Range, least: Range | None, most: Range | None) -> Range:
    """The bounds' own ranges; None where there is none."""
    low, high = x
    if least:
        low, high = max(low, least[0]), max(high, least[1])
    if most:
        low, high = min(low, most[0]), min(high, most[1])
    return low, high


def _power(x: Range, exponent: int) -> Range:
    if exponent < 0:
        return _WIDE  # PyTorch's error
    if exponent > 64:
        return (-1, 1) if x[0] >= -1 and x[1] <= 1 else _WIDE
    return _hull([x[0] ** exponent, x[1] ** exponent, *([0] if x[0] <= 0 <= x[1] else [])])


def _summed(values: Arguments, x: Range) -> Range:
    """Of the elements of each sum."""
    size, dims = values[0].shape, values[1]
    dims = [dims] if isinstance(dims, int) else dims
    count = values[0].numel()
    if size and isinstance(dims, (list, tuple)) and dims:
        count = math.prod(size[dim] for dim in dims)
    return _product(x, (count, count))


def _products(values: Arguments, x: Range) -> Range:
    """Of as many factors as prod and cumprod multiply, and of fewer."""
    size, dim = values[0].shape, values[1]
    count = size[dim] if size and isinstance(dim, int) else values[0].numel()
    most = max(abs(x[0]), abs(x[1]), 1)
    if count > 64 and most > 1:
        return _WIDE
    return (0 if x[0] >= 0 else -(most**count)), most**count


def _shifted(x: Range, y: Range) -> Range:
    ends = [2 ** max(0, min(int(end), 64)) for end in y]
    return _hull([0, *(a * b for a in x for b in ends)])


def _running_sum(x: Range, size: torch.Size, dim: int) -> Range:
    count = size[dim] if size else 1
    return _hull([x[0], x[1], count * x[0], count * x[1]])


def _comers(name: str, values: Arguments) -> int:
    """How many elements of the source may join one place."""
    index = values[1] if name in _PUTS else values[2]
    if isinstance(index, torch.Tensor):
        along = name.startswith("scatter") and index.dim() > 0
        return int(index.shape[values[1]] if along else index.numel())
    return math.prod(torch.broadcast_shapes(*(i.shape for i in index if i is not None)))


def _is_product(name: str, values: Arguments) -> bool:
    return name in _REDUCED and values[4] == "prod"


def _joined_to(name: str, values: Arguments, x: Range, source: Range) -> Range:
    """Of what the elements of a source join, by sum or product."""
    count = _comers(name, values)
    if _is_product(name, values):
        most = max(abs(source[0]), abs(source[1]), 1)
        all_of_source = _WIDE if count > 64 and most > 1 else (-(most**count), most**count)
        return _hull([*x, *_product(x, all_of_source), *all_of_source])
    factor = values[4] if name == "index_add" else 1
    ends = [count * factor * end for end in source]
    return x[0] + min(0, *ends), x[1] + max(0, *ends)


def _whole(x: Range) -> Range:
    """Without infinite ends, which come from floating values."""
    return int(max(x[0], _WIDE[0])), int(min(x[1], _WIDE[1]))


def _remainder(_x: Range, y: Range) -> Range:
    return min(0, y[0] + 1), max(0, y[1] - 1)


def _signed_rest(x: Range, y: Range) -> Range:
    most = max(abs(y[0]), abs(y[1])) - 1
    return max(-most, min(x[0], 0)), min(most, max(x[1], 0))


def _quotient(x: Range, y: Range) -> Range:
    near = [end for end in (-1, 1) if y[0] <= end <= y[1]]
    return _hull(q for a in x for b in (*y, *near) if b for q in (a // b, -(-a // b)))


def _bits(x: Range, y: Range) -> Range:
    """Of or and xor: as many bits as the longer operand has."""
    bits = max((int(end) if end >= 0 else ~int(end)).bit_length() for end in (*x, *y))
    return (0 if min(x[0], y[0]) >= 0 else -(2**bits)), 2**bits - 1


def _common_bits(x: Range, y: Range) -> Range:
    """Of and: no more than an operand that has no sign."""
    most = [end for least, end in (x, y) if least >= 0]
    return (0, min(most)) if most else _bits(x, y)


# By what has no 0.
_DIVISIONS: dict[str, Callable[[Range, Range], Range]] = {
    "remainder": _remainder, "fmod": _signed_rest, "floor_divide": _quotient, "div": _quotient,
}  # fmt: skip
_BITWISE: dict[str, Callable[[Range, Range], Range]] = {
    "bitwise_and": _common_bits, "bitwise_or": _bits, "bitwise_xor": _bits,
}  # fmt: skip
_PRODUCTS = ("prod", "cumprod")
_PUTS = ("index_put", "_unsafe_index_put", "_index_put_impl", "put")
_REDUCED = ("scatter_reduce", "index_reduce")
_JOINING = ("scatter_add", "index_add", *_REDUCED, *_PUTS)
_SUMS = ("sum", "nansum")
_LEFT_SHIFTS = ("__lshift__", "bitwise_left_shift")
_RIGHT_SHIFTS = ("__rshift__", "bitwise_right_shift")
_RULES: dict[str, Callable[..., Range]] = {
    **{
        name: lambda values, x, y, of=of: _WIDE if _has_zero(y) else of(_whole(x), _whole(y))
        for name, of in _DIVISIONS.items()
    },
    **dict.fromkeys(_LEFT_SHIFTS, lambda values, x, y: _shifted(x, y)),
    **dict.fromkeys(_PRODUCTS, _products),
    **{
        name: lambda values, x, source, name=name: _joined_to(name, values, x, source)
        for name in _JOINING
    },
    "add": lambda values, x, y: _sum(x, y, values[2]),
    "sub": lambda values, x, y: _sum(x, y, -values[2]),
    "rsub": lambda values, x, y: _sum(y, x, -values[2]),
    "mul": lambda values, x, y: _product(x, y),
    "neg": lambda values, x: (-x[1], -x[0]),
    "abs": lambda values, x: _absolute(x),
    "square": lambda values, x: _power(x, 2),
    "pow": lambda values, x, _exponent: _power(x, values[1]),
    "cumsum": lambda values, x: _running_sum(x, values[0].shape, values[1]),
    **dict.fromkeys(_SUMS, _summed),
    "_to_copy": lambda values, x: x,
}
# Of these, what a floating result has a range by, and how far rounding may move its ends.
_FLOATING = {"add", "sub", "rsub", "mul", "neg", "abs", "_to_copy"}
_ROUNDING = 2.0**-7
# dtypes with values beyond 32 bits: of float16 the infinities
_BEYOND_INT32 = {torch.float32, torch.bfloat16, torch.float16}
_PAIRS = {"add", "sub", "rsub", "mul", "pow", *_LEFT_SHIFTS, *_DIVISIONS}  # the others have one


def _operands(name: str, values: Sequence[Any]) -> Sequence[Any]:
    if name in _JOINING:
        return values[0], values[2 if name in _PUTS else 3]
    return values[: 2 if name in _PAIRS else 1]


def _rule(op: OpOverload) -> str | None:
    name = schema_of(op).name.removeprefix("aten::")
    exponent_is_tensor = name == "pow" and op is not _aten.pow.Tensor_Scalar
    return name if name in _RULES and not exponent_is_tensor else None


def _number_types(values: Arguments) -> set[torch.dtype]:
    return {value.dtype for value in values if isinstance(value, torch.Tensor)}


def is_at_risk(op: OpOverload, values: Arguments) -> bool:
    """Whether the operator, its arguments in the order of the schema, has an int64 result that may
    need more bits than its operands."""
    name = _rule(op)
    if name is None:
        return False
    if name == "_to_copy":
        return values[1] is torch.int64 and bool(_number_types(values[:1]) & _BEYOND_INT32)
    operands = _operands(name, values)
    dtypes = _number_types(operands)
    if name in _SUMS:
        return bool(dtypes & {torch.int64, torch.int32})
    whole = not any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)
    if name in _PRODUCTS:
        return whole and dtypes != {torch.bool} and values[-1] in (None, torch.int64)
    if name == "cumsum":
        return whole
    if name in _PUTS and not values[3] or name in _REDUCED and values[4] in ("amax", "amin"):
        return False
    whole = whole and all(isinstance(value, (torch.Tensor, int)) for value in operands)
    if name in _DIVISIONS:
        by_tensor = isinstance(values[1], torch.Tensor)
        at_all = by_tensor or values[1] == -1 and torch.int64 in dtypes
        return whole and at_all and (name != "div" or values[2:3] not in ([], [None]))
    return whole and torch.int64 in dtypes


def may_saturate(op: OpOverload, result: torch.Tensor, operands: Arguments) -> bool:
    """Whether the operator makes int64 of floating numbers inside a graph, where their range is not
    known before. The card cuts them to 32 bits, PyTorch to 64."""
    return (
        op.overloadpacket in _CASTS
        and result.dtype is torch.int64
        and any(isinstance(x, torch.Tensor) and x.dtype.is_floating_point for x in operands)
    )


def is_saturated(tensor: torch.Tensor, source: torch.Tensor | None) -> bool:
    """Whether an int64 tensor that the card made of the floating `source` has an end of 32 bits
    in the place of a number beyond."""
    least, most = range_of_tensor(tensor)
    if CARD[0] < least and most < CARD[1]:
        return False
    return source is None or not fits(range_of_tensor(source))


# Operators of which numbers may vary as those of tensors do.
_SPREADING = {"add", "sub", "rsub", "mul"}


def bounds_of(op: OpOverload, values: Arguments) -> list[Range] | None:
    """Ranges of the first two operands of an operator at risk that has results with these: with all
    other numbers within them it has results, too. None where values themselves tell."""
    name = _rule(op)
    if (
        name is None
        or name in (*_PRODUCTS, *_JOINING)
        or not all(_is_whole(v) for v in _operands(name, values))
    ):
        return None
    ranges = [_range_of_value(value) for value in values]
    count = len(_operands(name, values))
    spread = [i for i in range(count)
              if isinstance(values[i], torch.Tensor) or name in _SPREADING]  # fmt: skip

    def holds(wider: list[Range]) -> bool:
        given = list(ranges)
        for place, one in zip(spread, wider, strict=True):
            given[place] = one
        is_divided = name in _DIVISIONS and _has_zero(given[1])
        return not is_divided and fits(_result(op, values, given))

    for place, one in zip(spread, widest([ranges[i] for i in spread], holds), strict=True):
        ranges[place] = one
    return ranges[:count]


def _is_whole(value: object) -> bool:
    return type(value) is int or isinstance(value, torch.Tensor) and value.dtype in _WHOLE


def why_not(op: OpOverload, values: Arguments) -> str | None:
    """Why the card has no result of an operator at risk with these tensors."""
    name = _rule(op)
    if name in _PRODUCTS:
        made = op(values[0].cpu().double(), *values[1:-1]).abs().max().item()
        leaves = not made <= CARD[1]
    else:
        ranges = [_range_of_value(value) for value in values]
        if name in _DIVISIONS and _has_zero(ranges[1]):
            return _ZERO
        leaves = not fits(_result(op, values, ranges))
    return "its int64 result may leave the card's 32-bit integers" if leaves else None


def _range_of_value(value: object) -> Range:
    if isinstance(value, torch.Tensor):
        return range_of_tensor(value)
    return (value, value) if isinstance(value, int) else _WIDE


def _result(op: OpOverload, values: Arguments, ranges: Sequence[Range]) -> Range:
    name = _rule(op)
    assert name is not None
    return _RULES[name](values, *_operands(name, ranges))


# ---- segments of a compiled graph

# Results, or second results, are positions among the values of the first operand.
_POSITIONS = {"argmax", "argmin", "argsort"}
_ENDS = {"zeros", "zeros_like", "ones", "ones_like"}
_RANKING = {"topk", "sort", "max", "min", "kthvalue", "median", "mode"}

# Results are among the values of the operands, numbers included.
_KEEPING = {
    "_unsafe_view", "clone", "cat", "stack", "where", "index", "gather", "index_select", "amax",
    "amin", "flip", "repeat", "masked_fill", "copy", "lift_fresh_copy", "_to_copy",
    "prims::convert_element_type",
}  # fmt: skip

# Of these, the ones whose results are among the values of the first operand: others say where.
_LOOKING_UP = {"index", "gather", "index_select"}


def _numbers(arguments: Arguments) -> list[float]:
    return [value for value in arguments if type(value) in (int, float)]


def _is_within(now: Range, known: Range) -> bool:
    zero_is_known = not isinstance(known, _Nonzero) or not _has_zero(now)
    return known[0] <= now[0] and now[1] <= known[1] and zero_is_known


class Watch:
    """The int64 arithmetic of one card segment and the inputs that it depends on. What it makes of
    floating numbers, `casts`, is known behind the launch."""

    def __init__(
        self,
        nodes: Sequence[torch.fx.Node],
        inputs: set[int],
        ids: Mapping[torch.fx.Node, int | list[int]],
        fakes: Mapping[torch.fx.Node, Any],
        positional: Callable[[OpOverload, Arguments, Keywords], list[Any]],
        casts: Collection[int] = (),  # ids of outputs
    ) -> None:
        self.casts = set(casts)
        self.ids, self.fakes, self.inputs, self.positional = ids, fakes, inputs, positional
        self.risky = [node for node in nodes if self._is_risky(node)]
        self.order = self._operands_first(nodes)
        self.read: set[int] = set()
        known: Known = {}
        for node in self.order:
            self._range(node, known)
        self.proved: dict[bool, dict[int, Range]] = {}  # before and behind the launch

    def _is_risky(self, node: torch.fx.Node) -> bool:
        fake = self.fakes.get(node)
        if not isinstance(fake, torch.Tensor) or fake.dtype.is_floating_point:
            return False
        op = overload_of(node)
        name = _rule(op)
        if name in (None, "_to_copy") or name not in _DIVISIONS and fake.dtype is not torch.int64:
            return False
        return is_at_risk(op, self._values(node))

    def _values(self, node: torch.fx.Node) -> list[Any]:
        """Arguments in the order of the schema, fake tensors for nodes."""
        return [
            torch.fx.map_arg(value, lambda node: self.fakes[node])
            for value in self.positional(overload_of(node), node.args, node.kwargs)
        ]

    def _operands_first(self, nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
        """The nodes that ranges of risky ones depend on, in the order of the graph: each range is
        known before it is asked for, however long a chain of nodes is."""
        needed = set(self.risky)
        for node in reversed(nodes):
            if node in needed and self._depends_on_operands(node):
                needed.update(node.all_input_nodes)
        return [node for node in nodes if node in needed]

    def _depends_on_operands(self, node: torch.fx.Node) -> bool:
        fake = self.fakes.get(node)
        if not isinstance(fake, torch.Tensor):
            return False
        of_aten = isinstance(node.target, OpOverload)
        return of_aten and fake.dtype is not torch.bool and self.ids.get(node) not in self.inputs

    def failing(self, values: dict[int, torch.Tensor]) -> tuple[torch.fx.Node, str] | None:
        """A node that the card may have no result of with these values of the inputs, and of the
        casts where they are among them, and why."""
        is_behind = self.casts <= values.keys()
        ids = self.read | self.casts if is_behind else self.read
        found = {id: range_of_tensor(values[id]) for id in ids}
        proved = self.proved.get(is_behind)
        if proved is not None and all(_is_within(now, proved[id]) for id, now in found.items()):
            return None
        if node := self._overflowing(found):
            is_division = _rule(overload_of(node)) in _DIVISIONS
            return node, _ZERO if is_division else LEAVES
        ranges = widest(list(found.values()), lambda wider: self._holds(found, wider))
        self.proved[is_behind] = dict(zip(found, ranges, strict=True))
        return None

    def bounds(self) -> dict[int, Range] | None:
        """Of inputs, the ranges within which the card has results; None where casts say more, or
        nothing is proved yet."""
        return None if self.casts else self.proved.get(True)

    def _holds(self, found: Mapping[int, Range], wider: Sequence[Range]) -> bool:
        return self._overflowing(dict(zip(found, wider, strict=True))) is None

    def _overflowing(self, found: dict[int, Range]) -> torch.fx.Node | None:
        """A node that leaves 32 bits, or divides by 0, with inputs of these ranges."""
        known: Known = {}
        for node in self.order:
            self._range(node, known, found)
        return next((node for node in self.risky if not fits(known[node])), None)

    def _range(self, node: torch.fx.Node, known: Known, found: Found = None) -> Range:
        """Of a node's values; inputs of the segment are noted in `read`."""
        if node not in known:
            known[node] = self._compute(node, known, found)
        return known[node]

    def _compute(self, node: torch.fx.Node, known: Known, found: Found) -> Range:
        fake = self.fakes.get(node)
        if not isinstance(fake, torch.Tensor):
            return (fake, fake) if isinstance(fake, int) else _WIDE
        if fake.dtype is torch.bool:
            return 0, 1
        value = self.ids.get(node)
        if isinstance(value, int) and value in self.inputs and not fake.dtype.is_floating_point:
            self.read.add(value)
            return CARD if found is None else found[value]
        if isinstance(value, int) and value in self.casts:
            return CARD if found is None else found.get(value, (0, 0))
        if fake.dtype.is_floating_point and value in self.inputs:
            return _UNBOUNDED  # not read
        if not isinstance(node.target, OpOverload):
            return _UNBOUNDED if fake.dtype.is_floating_point else self._positions(node)
        op = overload_of(node)
        arguments = self.positional(op, node.args, node.kwargs)
        ranges = [self._argument(argument, known, found) for argument in arguments]
        if fake.dtype.is_floating_point and _rule(op) in _FLOATING:
            low, high = _result(op, self._values(node), ranges)
            ends = low - abs(low) * _ROUNDING, high + abs(high) * _ROUNDING
            return _UNBOUNDED if any(map(math.isnan, ends)) else ends
        if self._is_risky(node):
            result = _result(op, self._values(node), ranges)
            return result if fits(result) or found is not None else CARD
        kept = self._kept(op, arguments, known, found)
        if kept is None and not fake.dtype.is_floating_point:
            return self._wrapped(node, fake.dtype, ranges)
        if kept is None:
            return _UNBOUNDED
        if may_saturate(op, fake, self._values(node)):
            return _clamped(kept, (CARD[0], CARD[0]), (CARD[1], CARD[1]))
        return kept

    def _wrapped(self, node: torch.fx.Node, dtype: torch.dtype, ranges: Sequence[Range]) -> Range:
        """Of integers of at most 32 bits that PyTorch computes modulo their range, and of those of
        64 that are not at risk."""
        ends = torch.iinfo(torch.int32 if dtype is torch.int64 else dtype)
        op = overload_of(node)
        if _rule(op) in (None, "_to_copy"):
            return ends.min, ends.max
        low, high = _result(op, self._values(node), ranges)
        return (low, high) if ends.min <= low and high <= ends.max else (ends.min, ends.max)

    def _positions(self, node: torch.fx.Node) -> Range:
        """Of the second result of an operator that finds values and where they are."""
        source, *index = arguments_of(node) or (None,)
        op = getattr(source, "target", None)
        if node.op != "call_function" or not isinstance(op, OpOverload) or index != [1]:
            return CARD
        if schema_of(op).name.removeprefix("aten::") not in _RANKING:
            return CARD
        return 0, max(self.fakes[source.args[0]].numel() - 1, 0)

    def _argument(self, argument: object, known: Known, found: Found) -> Range:
        if isinstance(argument, torch.fx.Node):
            return self._range(argument, known, found)
        return (argument, argument) if isinstance(argument, (int, float)) else _WIDE

    def _kept(
        self, op: OpOverload, arguments: Arguments, known: Known, found: Found
    ) -> Range | None:
        """Of an operator that makes no new values; None where it is not known to be one."""
        name = schema_of(op).name.removeprefix("aten::")
        if op.is_view:
            is_other = op is _aten.view.dtype  # the same bytes as other numbers
            return None if is_other else self._argument(arguments[0], known, found)
        if name == "arange":
            return _hull([0, *_numbers(arguments)])
        if name in _ENDS:
            return 0, 1
        if name in _POSITIONS:
            return 0, max(self.fakes[arguments[0]].numel() - 1, 0)
        if name in ("full", "full_like", "scalar_tensor", "fill"):
            numbers = _numbers(arguments)
            return _hull(numbers) if numbers else None
        if name == "clamp":
            bounds = [None if bound is None else self._argument(bound, known, found)
                      for bound in (*arguments[1:3], None, None)]  # fmt: skip
            return _clamped(self._argument(arguments[0], known, found), bounds[0], bounds[1])
        if name in _DIVISIONS and type(arguments[1]) is int and arguments[1] != 0:
            x = _whole(self._argument(arguments[0], known, found))
            return _DIVISIONS[name](x, (arguments[1], arguments[1]))
        if name in _RIGHT_SHIFTS:
            x = _whole(self._argument(arguments[0], known, found))
            return _hull([*x, 0 if x[0] >= 0 else -1])
        if name in _BITWISE:
            x, y = [_whole(self._argument(value, known, found)) for value in arguments[:2]]
            return _BITWISE[name](x, y)
        if name in ("minimum", "maximum"):
            pair = [self._argument(value, known, found) for value in arguments[:2]]
            least, most = zip(*pair, strict=True)
            return (min(least), min(most)) if name == "minimum" else (max(least), max(most))
        if name not in _KEEPING:
            return None
        holding = arguments[:1] if name in _LOOKING_UP else arguments
        leaves = [leaf for leaf in pytree.tree_leaves(holding) if isinstance(leaf, torch.fx.Node)]
        ranges = [self._range(leaf, known, found) for leaf in leaves]
        if name in ("where", "masked_fill", "copy"):
            ranges += [(number, number) for number in _numbers(arguments)]
        return _joined(ranges) if ranges else None
