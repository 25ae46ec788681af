# SPDX-License-Identifier: Apache-2.0
"""How far the operators of a block are from float64: `torch.spyre.numerics()`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._fallback import fallback, user_line
from .._pytorch import pytree
from .._pytorch.autograd import calling_node_number, last_node_number
from .._pytorch.dispatch import Arguments, DispatchMode, Keywords, OpOverload, schema_of
from ..compile.decompositions import attention_gradient
from ..compile.layers import attention

_aten = torch.ops.aten
# Bits behind the point of a result's format on the card, and its least normal exponent; float16
# and bfloat16 are SEN169_FP16 there.
_FRACTION = {torch.float16: 9, torch.bfloat16: 9, torch.float32: 23}
_LEAST = {torch.float16: -31, torch.bfloat16: -31, torch.float32: -126}
_CASTS = {_aten._to_copy, _aten.copy_}  # compared where they change the format
_UNCOMPARED = {
    _aten.clone, _aten._unsafe_view, _aten._local_scalar_dense, _aten.resize_, _aten.set_,
    _aten.empty_like, _aten.new_empty, _aten.new_empty_strided,
}  # fmt: skip
MOST_ROWS = 4096  # a row is an operator at a line; what comes later is counted only
MOST_LINES = 1 << 20  # lines of operators that are remembered for a backward pass


class OpError(NamedTuple):
    """The worst of all calls of an operator at a line. Errors compare the card's result with
    float64's of the same operands, element by element."""

    op: str  # "aten.exp.default"
    dtype: str  # of the result: "float16"
    line: str  # "train.py:12", "backward of train.py:12"
    calls: int
    max_error: float
    relative: float  # the largest error by the largest finite result
    ulp: float  # in units of the last place of the result's format
    conversion: float  # of `relative`: what rounding float64's result to the format would lose
    saturated: int  # elements that are finite in float64 and infinite on the card
    nans: int  # elements that are NaN in float64


class Numerics:
    """A context that runs the card's operators one by one and compares each with float64.

    Compiled functions run operator by operator inside. Each operator is computed a second time on
    the CPU, so a block takes as long as it would there in float64, and longer. Operands and results
    are what the card holds: in 16 bits up to 2^33, which a copy to the CPU would show as infinite.
    Operators that float64 has no kernel of, random ones, and copies within a format do not count.

    Attributes:
        rows: one for each operator and line, the largest relative error first.
        first: the first call whose relative error is above `bound`, or that saturates; or None.
    """

    def __init__(self, bound: float = 1e-2):
        if isinstance(bound, bool) or not isinstance(bound, (int, float)):
            raise TypeError(f"bound: {bound!r} is not a number")
        if not bound > 0:
            raise ValueError(f"bound: {bound} is not positive")
        self.bound = bound
        self.first: OpError | None = None
        self.dropped = 0  # calls without a row
        self._rows: dict[tuple[str, str, str], OpError] = {}
        self._mode = _Mode(self)
        self._stance: Any = None

    def __enter__(self) -> Numerics:
        self._stance = torch.compiler.set_stance("force_eager")
        self._stance.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._mode.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self._stance.__exit__(kind, error, trace)

    @property
    def rows(self) -> list[OpError]:
        return sorted(self._rows.values(), key=lambda row: -row.relative)

    def add(self, row: OpError) -> None:
        """Joins the row with the one of the same operator, dtype and line."""
        if self.first is None and (row.relative > self.bound or row.saturated):
            self.first = row
        key = (row.op, row.dtype, row.line)
        known = self._rows.get(key)
        if known is None and len(self._rows) >= MOST_ROWS:
            self.dropped += 1
            return
        self._rows[key] = row if known is None else _join(known, row)

    def json(self) -> str:
        """{"bound": .., "first": row or null, "rows": [..]}; a row has the fields of OpError."""
        first = self.first._asdict() if self.first else None
        rows = [row._asdict() for row in self.rows]
        return json.dumps({"bound": self.bound, "first": first, "rows": rows}, indent=1)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes numerics.txt, which `spyre explore` shows, and numerics.json into a folder.

        A folder that is missing is made."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "numerics.txt").write_text(f"{self}\n")
        (folder / "numerics.json").write_text(self.json())

    def __str__(self) -> str:
        head = ("operator", "dtype", "calls", "max error", "relative", "ulp", "conversion",
                "saturated", "NaN", "line")  # fmt: skip
        table = [head, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(head))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
                 for line in table]  # fmt: skip
        if self.first:
            lost = f"relative error {self.first.relative:.2g}"
            if self.first.saturated:
                lost += f", {self.first.saturated} saturated"
            lines.append(
                f"first above {self.bound:g}: {self.first.op} at {self.first.line}, {lost}"
            )
        return "\n".join(lines)


def numerics(bound: float = 1e-2) -> Numerics:
    """How far the operators of a block are from float64 on the same operands:

        with torch.spyre.numerics(bound=0.02) as found:
            model(x)
        print(found)

    Args:
        bound: the relative error above which `found.first` names the first operator.

    Raises: TypeError for a bound that is no number, ValueError for one that is not positive.
    """
    return Numerics(bound)


def _join(one: OpError, other: OpError) -> OpError:
    return one._replace(
        calls=one.calls + other.calls,
        max_error=max(one.max_error, other.max_error),
        relative=max(one.relative, other.relative),
        ulp=max(one.ulp, other.ulp),
        conversion=max(one.conversion, other.conversion),
        saturated=one.saturated + other.saturated,
        nans=one.nans + other.nans,
    )


def _cells(row: OpError) -> tuple[str, ...]:
    numbers = (row.max_error, row.relative, row.ulp, row.conversion)
    return (row.op, row.dtype, str(row.calls), *(f"{n:.2g}" for n in numbers),
            str(row.saturated), str(row.nans), row.line)  # fmt: skip


class _Mode(DispatchMode):
    """Sees every operator below autograd."""

    def __init__(self, found: Numerics):
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = found
        self.lines: dict[int, str] = {}  # of the operators that have a node of autograd
        self.first_node = 0

    def __enter__(self) -> _Mode:
        self.first_node = last_node_number() + 1
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_dispatch__(
        self, op: Any, types: Any, args: Arguments = (), kwargs: Keywords | None = None
    ) -> Any:
        kwargs = kwargs or {}
        line = self._line()
        wide = _wide_operands(op, args, kwargs) if _is_compared(op, args, kwargs) else None
        results = op(*args, **kwargs)
        if wide is not None:
            exact = _exact(op, *wide)
            given = (results, exact) if results is not None else (
                _written(op, args, kwargs), _written(op, *wide))  # fmt: skip
            for row in _rows_of(str(op), line, *given):
                self.found.add(row)
        return results

    def _line(self) -> str:
        """The line of the program that is running; in a backward pass that of the operator whose
        gradient it is, if it ran in the block."""
        calling = calling_node_number()
        if calling is not None:
            line = self.lines.get(calling)
            return user_line() if line is None else f"backward of {line}"
        line, number = user_line(), last_node_number()
        if number >= self.first_node and len(self.lines) < MOST_LINES:
            self.lines.setdefault(number, line)
        return line


def _is_compared(op: OpOverload, args: Arguments, kwargs: Keywords) -> bool:
    if op.is_view or op.overloadpacket in _UNCOMPARED:
        return False
    if torch.Tag.nondeterministic_seeded in op.tags and not _is_exact_attention(op, args, kwargs):
        return False
    if op.overloadpacket in _CASTS:
        return _changes_format(op, args, kwargs)
    leaves = pytree.tree_leaves((args, kwargs))
    return any(isinstance(x, Tensor) and x.device.type == "spyre" for x in leaves)


def _is_exact_attention(op: OpOverload, args: Arguments, kwargs: Keywords) -> bool:
    """Whether this is attention without dropout: its tag is of any dropout."""
    if op is not attention.FUSED:
        return False
    dropout = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
    return bool(dropout == 0)


def _changes_format(op: OpOverload, args: Arguments, kwargs: Keywords) -> bool:
    """Of a cast: whether both sides are floats of the card and differ in their dtype."""
    source = args[1] if op.overloadpacket is _aten.copy_ else args[0]
    device = args[0].device if op.overloadpacket is _aten.copy_ else kwargs.get("device")
    dtype = args[0].dtype if op.overloadpacket is _aten.copy_ else kwargs.get("dtype")
    on_card = source.device.type == "spyre" and (device is None or device.type == "spyre")
    return on_card and dtype in _FRACTION and source.dtype in _FRACTION and dtype != source.dtype


def _held(tensor: Tensor) -> Tensor:
    """A copy on the CPU of what the card holds, floats as float64."""
    tensor = tensor.detach()
    if not tensor.is_floating_point():
        return tensor.to("cpu", copy=True)
    if tensor.device.type == "spyre" and tensor.dtype in (torch.float16, torch.bfloat16):
        with fallback("silent"):
            tensor = tensor.float()
    return tensor.to("cpu", copy=True).double()


def _wide_operands(op: OpOverload, args: Arguments, kwargs: Keywords) -> tuple[Any, Any]:
    """Copies of the operands on the CPU, floats as float64."""

    def wide(value: Any) -> Any:
        if isinstance(value, Tensor):
            return _held(value)
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value

    made: tuple[Any, Any] = pytree.tree_map(wide, (tuple(args), dict(kwargs)))
    return made


def _exact(op: OpOverload, args: Any, kwargs: Any) -> Any:
    """float64's results; None where it has no kernel."""
    if op is attention.BACKWARD and args[12] == 0:  # without dropout
        return attention_gradient.gradients(*args[:6], causal=args[13], **kwargs)
    if op is attention.FUSED:
        args, kwargs = attention.single_node_arguments(*args, **kwargs)
        op = attention.ATTENTION
    try:
        return op(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError):
        return None


def _written(op: OpOverload, args: Arguments, kwargs: Keywords) -> list[Any]:
    """The operands that an operator without results writes into."""
    arguments = schema_of(op).arguments
    given = [(a, args[i] if i < len(args) else kwargs.get(a.name)) for i, a in enumerate(arguments)]
    return [value for a, value in given if a.alias_info is not None and a.alias_info.is_write]


def _rows_of(name: str, line: str, results: Any, exact: Any) -> Iterator[OpError]:
    for result, wanted in zip(_leaves(results), _leaves(exact), strict=False):
        if not isinstance(result, Tensor) or not isinstance(wanted, Tensor):
            continue
        if result.dtype not in _FRACTION or result.shape != wanted.shape or not result.numel():
            continue
        yield _compare(name, line, result.detach(), wanted.double())


def _leaves(value: Any) -> Sequence[Any]:
    leaves: Sequence[Any] = pytree.tree_leaves(value)
    return leaves


def _compare(name: str, line: str, result: Tensor, wanted: Tensor) -> OpError:
    dtype = result.dtype
    card = _held(result)
    rounded = _held(wanted.float().to("spyre").to(dtype))  # once, by the card
    usual = wanted.isfinite() & card.isfinite()
    error = torch.where(usual, (card - wanted).abs(), 0.0)
    lost = torch.where(usual, (rounded - wanted).abs().nan_to_num(0.0, 0.0), 0.0)
    top = float(torch.where(usual, wanted.abs(), 0.0).max())
    exponent = wanted.abs().clamp(min=2.0 ** _LEAST[dtype]).log2().floor()
    units = torch.where(usual, error / torch.exp2(exponent - _FRACTION[dtype]), 0.0)
    return OpError(
        op=name,
        dtype=str(dtype).removeprefix("torch."),
        line=line,
        calls=1,
        max_error=float(error.max()),
        relative=float(error.max()) / top if top else float(error.max()),
        ulp=float(units.max()),
        conversion=float(lost.max()) / top if top else 0.0,
        saturated=int((wanted.isfinite() & card.isinf()).sum()),
        nans=int(wanted.isnan().sum()),
    )


__all__ = ["MOST_ROWS", "Numerics", "OpError", "numerics"]
