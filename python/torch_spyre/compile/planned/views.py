# SPDX-License-Identifier: Apache-2.0
"""From an index into a tensor to an index in each of its dims, as expressions (torch-spyre's
torch_spyre/_inductor/views.py, torch-spyre/torch-spyre at 01f8835).

The compiler does the same in C when it writes OpSpecs; for them, this gives what
`TensorArg.device_coordinates` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from ... import _C
from ..._pytorch.inductor.index_functions import CleanDiv, FloorDiv, ModularIndexing

__all__ = ["compute_coordinates"]


@dataclass
class _Term:
    """step * digit, where digit is a loop's symbol or some of its digits: 0 to extent - 1."""

    step: int
    digit: sympy.Expr
    extent: sympy.Expr


def compute_coordinates(
    size: Sequence[int],
    stride: Sequence[int],
    var_ranges: Mapping[sympy.Symbol, sympy.Expr],
    index: sympy.Expr,
    indirect_sizes: Mapping[sympy.Symbol, int] | None = None,
) -> list[sympy.Expr]:
    """One expression a dim for the element `index`, a sum of multiples of loops, of their quotients
    and remainders, and a number. Sizes and strides are of the host tensor or of a device layout
    (`device_size`, `stride_map`) alike. A stick is a pair of dims: quotient and remainder of one
    index by the elements of a stick. Dims of one element and those with strides of 0 or less get 0.

    Unsupported for a loop that runs backwards, an unknown symbol, and an index between elements."""
    moving = [d for d in range(len(size)) if size[d] > 1 and stride[d] > 0]
    above = {
        d: min((stride[o] for o in moving if stride[o] > stride[d]), default=0) for d in moving
    }
    extents = {**(indirect_sizes or {}), **var_ranges}
    coordinates: list[sympy.Expr] = [sympy.S.Zero] * len(size)
    rest = 0
    for addend in sympy.Add.make_args(sympy.expand(index)):
        if addend.is_Integer:
            rest += int(addend)
        else:
            _add_term(_term(addend, extents), stride, moving, above, coordinates)
    for d in sorted(moving, key=lambda d: -stride[d]):
        coordinates[d] += rest // stride[d] if rest > 0 else 0
        rest = rest % stride[d] if rest > 0 else rest
    if rest:
        raise _C.Unsupported(
            f"index {index}: {rest} elements are between those of strides {stride}"
        )
    return coordinates


def _add_term(
    term: _Term,
    stride: Sequence[int],
    moving: Sequence[int],
    above: Mapping[int, int],
    coordinates: list[sympy.Expr],
) -> None:
    """To the dim with the largest stride that the term's step reaches, and to those farther out
    that its range reaches."""
    if term.extent == 1:
        return
    end = term.step * term.extent
    reached = [d for d in moving if stride[d] <= term.step]
    dims = [max(reached, key=lambda d: stride[d])] if reached else []
    dims += [d for d in moving if stride[d] > term.step and _is_below(stride[d], end)]
    for d in dims:
        index = _scaled(term.step, term.digit, stride[d])
        if above[d] and _is_below(above[d], end):  # it goes on in the next dim
            if term.step % stride[d] == 0 and above[d] % stride[d] == 0:
                index = sympy.Mod(index, above[d] // stride[d])
            else:
                index = sympy.floor(sympy.Mod(term.step * term.digit, above[d]) / stride[d])
        coordinates[d] += index


def _scaled(step: int, digit: sympy.Expr, stride: int) -> sympy.Expr:
    return digit * (step // stride) if step % stride == 0 else sympy.floor(step * digit / stride)


def _is_below(number: int, end: sympy.Expr) -> bool:
    """Of an extent with a symbol: it is taken for large."""
    return not end.is_number or number < end


def _term(addend: sympy.Expr, extents: Mapping[sympy.Symbol, sympy.Expr]) -> _Term:
    step, factors = addend.as_coeff_Mul()
    if not step.is_Integer or step < 0:
        raise _C.Unsupported(
            f"index term {addend} runs backwards or between elements: a coordinate can only ascend"
        )
    inner, digit, extent = _digit(factors, extents)
    return _Term(int(step) * inner, digit, extent)


def _digit(
    digit: sympy.Expr, extents: Mapping[sympy.Symbol, sympy.Expr]
) -> tuple[int, sympy.Expr, sympy.Expr]:
    """As (step, digit, extent)."""
    if digit.is_Symbol and digit in extents:
        return 1, digit, sympy.sympify(extents[digit])
    if isinstance(digit, ModularIndexing):
        base, divisor, modulus = digit.args
        return _digit(sympy.Mod(_quotient(base, divisor), modulus), extents)
    if isinstance(digit, (FloorDiv, CleanDiv)):
        return _digit(_quotient(*digit.args), extents)
    if isinstance(digit, sympy.Mod):
        base, modulus = digit.args
        term = _term(base, extents)
        if modulus.is_Integer and modulus % term.step == 0:
            count = modulus / term.step
            return term.step, sympy.Mod(term.digit, count), sympy.Min(term.extent, count)
    if isinstance(digit, sympy.floor):
        (quotient,) = digit.args
        base, divisor = quotient.as_numer_denom()
        term = _term(base, extents)
        if divisor.is_Integer and term.step == 1:
            return 1, sympy.floor(term.digit / divisor), sympy.ceiling(term.extent / divisor)
    raise _C.Unsupported(f"index term {digit} is no loop, quotient or remainder of one")


def _quotient(base: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
    return base if divisor == 1 else sympy.floor(base / divisor)
