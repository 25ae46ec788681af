# SPDX-License-Identifier: Apache-2.0
"""How far the operators of a block are from float64: `torch.spyre.numerics()`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._fallback import user_line
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, DispatchMode, Keywords, OpOverload
from ..compile import attention

_aten = torch.ops.aten
# Bits behind the point of a result's format: SEN169_FP16 has 9, of which bfloat16 shows 7.
_FRACTION = {torch.float16: 9, torch.bfloat16: 7, torch.float32: 23}
_LARGEST = {torch.float16: 65504.0, torch.bfloat16: 2.0**33 - 2.0**24, torch.float32: math.inf}
_MOVES = {_aten._to_copy, _aten.copy_, _aten.clone, _aten._local_scalar_dense}
MOST_ROWS = 4096  # a row is an operator at a line; what comes later is counted only


class OpError(NamedTuple):
    """The worst of all calls of an operator at a line. Errors compare the card's result with
    float64's of the same operands, element by element."""

    op: str  # "aten.exp.default"
    dtype: str  # of the result: "float16"
    line: str  # "train.py:12"
    calls: int
    max_error: float
    relative: float  # the largest error by the largest finite result
    ulp: float  # in units of the last place of the result's format
    conversion: float  # of `relative`: what rounding float64's result to the format would lose
    saturated: int  # elements that float64 has in range and the card does not
    nans: int  # elements that are NaN in float64


class Numerics:
    """A context that runs the card's operators one by one and compares each with float64.

    Compiled functions run operator by operator inside. Each operator is computed a second time on
    the CPU, so a block takes as long as it would there in float64, and longer. Operators that
    float64 has no kernel of, random ones, and copies are passed over.

    Attributes:
        rows: one for each operator and line, the largest relative error first.
        first: the first call whose relative error is above `bound`, or None.
    """

    def __init__(self, bound: float = 1e-2):
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
        self._mode.__enter__()  # type: ignore[no-untyped-call]
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
        if self.first is None and row.relative > self.bound:
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
            lines.append(
                f"first above {self.bound:g}: {self.first.op} at {self.first.line}, "
                f"relative error {self.first.relative:.2g}"
            )
        return "\n".join(lines)


def numerics(bound: float = 1e-2) -> Numerics:
    """How far the operators of a block are from float64 on the same operands:

        with torch.spyre.numerics(bound=0.02) as found:
            model(x)
        print(found)

    Args:
        bound: the relative error above which `found.first` names the first operator.

    Raises: ValueError for a bound that is not positive.
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

    def __torch_dispatch__(
        self, op: Any, types: Any, args: Arguments = (), kwargs: Keywords | None = None
    ) -> Any:
        kwargs = kwargs or {}
        wide = _wide_operands(op, args, kwargs)
        results = op(*args, **kwargs)
        if wide is not None:
            for row in _rows_of(op, results, *wide):
                self.found.add(row)
        return results


def _is_compared(op: OpOverload, args: Arguments, kwargs: Keywords) -> bool:
    if op.is_view or op.overloadpacket in _MOVES or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    leaves = pytree.tree_leaves((args, kwargs))
    return any(isinstance(x, Tensor) and x.device.type == "spyre" for x in leaves)


def _wide_operands(op: OpOverload, args: Arguments, kwargs: Keywords) -> tuple[Any, Any] | None:
    """Copies of the operands on the CPU, floats as float64; None for what is passed over."""
    if not _is_compared(op, args, kwargs):
        return None

    def wide(value: Any) -> Any:
        if isinstance(value, Tensor):
            copy = value.detach().to("cpu", copy=True)
            return copy.double() if copy.is_floating_point() else copy
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value

    made: tuple[Any, Any] = pytree.tree_map(wide, (tuple(args), dict(kwargs)))
    return made


def _exact(op: OpOverload, args: Any, kwargs: Any) -> Any:
    """float64's results; None where it has no kernel."""
    if op is attention.FUSED:
        args, kwargs = attention.single_node_arguments(*args, **kwargs)
        op = attention.ATTENTION
    try:
        return op(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError):
        return None


def _rows_of(op: OpOverload, results: Any, args: Any, kwargs: Any) -> Iterator[OpError]:
    name, line = str(op), user_line()
    exact = _leaves(_exact(op, args, kwargs))
    for result, wanted in zip(_leaves(results), exact, strict=False):
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
    card = result.cpu().double()
    rounded = wanted.float().to("spyre").to(dtype).cpu().double()  # once, by the card
    usual = wanted.isfinite() & card.isfinite()
    error = torch.where(usual, (card - wanted).abs(), 0.0)
    lost = torch.where(usual, (rounded - wanted).abs().nan_to_num(0.0, 0.0), 0.0)
    top = float(torch.where(usual, wanted.abs(), 0.0).max())
    least = 2.0**-14 if dtype is torch.float16 else 2.0**-31
    exponent = wanted.abs().clamp(min=least).log2().floor()
    units = torch.where(usual, error / torch.exp2(exponent - _FRACTION[dtype]), 0.0)
    outside = wanted.isfinite() & (wanted.abs() <= _LARGEST[dtype]) & ~card.isfinite()
    return OpError(
        op=name,
        dtype=str(dtype).removeprefix("torch."),
        line=line,
        calls=1,
        max_error=float(error.max()),
        relative=float(error.max()) / top if top else float(error.max()),
        ulp=float(units.max()),
        conversion=float(lost.max()) / top if top else 0.0,
        saturated=int(outside.sum()),
        nans=int(wanted.isnan().sum()),
    )


__all__ = ["MOST_ROWS", "Numerics", "OpError", "numerics"]
