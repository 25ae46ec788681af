# SPDX-License-Identifier: Apache-2.0
"""Whether an operator takes operands of several dtypes, or a number beyond their range.

Element-wise operators promote, most others demand one dtype, norms take 16 bits beside float32
parameters: each CPU kernel of PyTorch has a rule of its own, which its kernels for the device
`meta` often do not check. So the CPU kernel itself is asked, with operands of a single zero, or of
a one, which integers can be divided by, once for an operator and a combination of dtypes. A call
that it refuses is the host's, whose kernel
raises PyTorch's error. Some kernels refuse a number that their dtype does not hold, others do not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, OpOverload, hint_of, schema_of, without_modes
from ..compile import node_arguments
from .run_on_cpu import call

_aten = torch.ops.aten

# The device has rules of its own for these, or PyTorch has checked them on the way.
_NOT_ASKED = {
    _aten.scaled_dot_product_attention.default,
    _aten._scaled_dot_product_fused_attention_overrideable.default,
    _aten._scaled_mm.default,
}
REFUSAL = "it does not take operands of these dtypes, or this number, together"
_accepted: set[tuple[object, ...]] = set()  # operators with the kinds of their arguments
_MOST_ACCEPTED = 1 << 12  # then all are asked anew: lists of any length have kinds of their own


def are_accepted(op: OpOverload, values: Arguments) -> bool:
    """Whether PyTorch's CPU kernel takes the dtypes of op(*values); `values` are in the order of
    the schema, their tensors of any device or fake."""
    leaves = pytree.leaves(values)
    large = [value for value in leaves if _is_beyond(value, _ends(leaves))]
    kinds = [_kind(value) for value in leaves]
    if not large and _is_plain(op, values) or op in _NOT_ASKED or op.namespace != "aten":
        return True
    if torch.Tag.nondeterministic_seeded in op.tags or _is_backward(op):
        return True
    key = (op, *kinds)
    if key in _accepted and not large:
        return True
    # fill() of a single element takes any number.
    accepted = (
        _runs(op, values, _few if large else _one_element)
        or _runs(op, values, _whole)
        or _runs(op, values, _few if large else _one_element, 1)
    )
    if accepted and not large:
        if len(_accepted) >= _MOST_ACCEPTED:
            _accepted.clear()
        _accepted.add(key)
    return accepted


def _is_plain(op: OpOverload, values: Arguments) -> bool:
    """Whether the operands have one dtype of numbers that every operator takes."""
    operands = set(_operand_kinds(op, values))
    floats = all(isinstance(kind, torch.dtype) and kind.is_floating_point for kind in operands)
    factors = (v for a, v in zip(schema_of(op).arguments, values, strict=True)
               if str(a.type) == "number")  # fmt: skip
    return len(operands) < 2 and floats and not any(isinstance(v, bool) for v in factors)


def _is_backward(op: OpOverload) -> bool:
    """Backward functions get what the device's forward function kept, whose dtypes may be others
    than the CPU's."""
    return "backward" in schema_of(op).name


def checked(op: OpOverload, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition of an operator, NotImplemented where PyTorch's CPU kernel of the whole does
    not take the operands' dtypes; its parts may promote them."""

    @functools.wraps(decomposition)
    def function(*args: Any, **kwargs: Any) -> Any:
        differ = _may_differ(args) or bool(kwargs)
        if differ and not are_accepted(op, node_arguments.positional(op, args, kwargs)):
            return NotImplemented
        return decomposition(*args, **kwargs)

    return function


def _may_differ(args: Arguments) -> bool:
    if any(isinstance(value, (list, tuple)) for value in args):
        return True
    return len({value.dtype for value in args if isinstance(value, torch.Tensor)}) > 1


def _kind(value: object) -> torch.dtype | type:
    """What a dtype rule may look at."""
    if isinstance(value, torch.Tensor):
        return value.dtype
    return value if isinstance(value, torch.dtype) else type(value)


def _ends(values: Sequence[object]) -> tuple[float, float]:
    """The lowest and the largest number that floats and integers among the tensors all hold."""
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)}
    numbers = [dtype for dtype in dtypes - {torch.bool} if not dtype.is_complex]
    ends = [_info(dtype) for dtype in (torch.float32, *numbers)]
    return max(end.min for end in ends), min(end.max for end in ends)


def _info(dtype: torch.dtype) -> torch.finfo | torch.iinfo:
    return torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)


def _is_beyond(value: object, ends: tuple[float, float]) -> bool:
    """Whether it is a finite number beyond those."""
    if not isinstance(value, (int, float)) or ends[0] <= value <= ends[1]:
        return False
    return abs(value) < math.inf


def _operand_kinds(op: OpOverload, values: Arguments) -> Iterator[torch.dtype | type]:
    """Of tensors, and of numbers in the place of tensors."""
    for argument, value in zip(schema_of(op).arguments, values, strict=True):
        takes_tensors = "Tensor" in str(argument.type)
        for leaf in pytree.leaves(value):
            if isinstance(leaf, torch.Tensor):
                yield leaf.dtype
            elif takes_tensors and isinstance(leaf, (bool, int, float)):
                yield type(leaf)


def _one_element(sizes: Sequence[Any]) -> list[int]:
    """Sizes that suit each other in every operator but those that are told sizes."""
    return [1] * len(sizes)


def _few(sizes: Sequence[Any]) -> list[int]:
    return [min(hint_of(size), 2) for size in sizes]


def _whole(sizes: Sequence[Any]) -> list[int]:
    return [hint_of(size) for size in sizes]


def _runs(
    op: OpOverload,
    values: Arguments,
    sizes_of: Callable[[Sequence[Any]], list[int]],
    element: int = 0,
) -> bool:
    def of_elements(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.full(sizes_of(value.shape), element, dtype=value.dtype)
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return hint_of(value)

    arguments = schema_of(op).arguments
    with without_modes(), torch.no_grad():
        given = pytree.mapped(of_elements, values)
        named = {a.name: v for a, v in zip(arguments, given, strict=True) if a.kwarg_only}
        try:
            call(op, given[: len(given) - len(named)], named)
        except Exception:  # of whatever class the operator's own kernel raises
            return False
    return True
