# SPDX-License-Identifier: Apache-2.0
"""Operators that users teach the compiler, or take away from it.

    @register_spyre_decomposition(torch.ops.mylib.swiglu.default)
    def swiglu(x, y):
        return torch.nn.functional.silu(x) * y

    @register_fallback(torch.ops.aten.erfinv.default)     # always on the host
    def erfinv(x): return x.erfinv()

A decomposition is applied when AOTAutograd traces a graph, so that passes see what it is made of; a
lowering is applied when the graph is handed to the compiler, so that passes see the operator
itself. Both are Python functions of tensors, and also what the operator does outside torch.compile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeVar

import torch

from . import _C
from ._pytorch.dispatch import (
    OpOverload,
    OpOverloadPacket,
    call_parts,
    has_own_kernel,
    is_decomposed_by_autograd,
    overload_names,
    schema_of,
)
from ._pytorch.dynamo import untraced
from .compile import customops
from .compile.registered import fallback_ops, spyre_decompositions, spyre_lowerings
from .eager.decomposed import NOT_TAKEN
from .eager.operand_dtypes import checked
from .eager.operator_program import operator_of
from .eager.run_on_cpu import run_on_cpu

Operators = OpOverload | OpOverloadPacket | Iterable["Operators"]
Function = TypeVar("Function", bound=Callable[..., Any])
MaybeFunction = TypeVar("MaybeFunction", bound=Callable[..., Any] | None)
_libraries: dict[tuple[str, str], torch.library.Library] = {}
_differentiable: dict[str, torch.library.Library] = {}


def overloads(operators: Operators) -> list[OpOverload]:
    """The overloads that an operator, one of its overloads, or a list of these stands for.

    Raises: TypeError for anything else.
    """
    if isinstance(operators, OpOverload):
        return [operators]
    if isinstance(operators, OpOverloadPacket):
        return [getattr(operators, name) for name in overload_names(operators)]
    found = []
    if isinstance(operators, Iterable) and not isinstance(operators, str):
        found = [op for operator in operators for op in overloads(operator)]
    if not found:
        raise TypeError(f"expected an operator of torch.ops or a list of them, got {operators!r}")
    return found


def _implement(op: OpOverload, function: Callable[..., Any]) -> None:
    """Gives the operator a kernel for tensors of the card: one program of what `function` does,
    where it is one, else the function; what it answers with NotImplemented is the host's. An equal
    call of an operator of PyTorch's without another kernel finds its program without this one."""
    namespace, name = schema_of(op).name.split("::")
    suffix = f".{schema_of(op).overload_name}" if schema_of(op).overload_name else ""
    aliases = [a.alias_info for a in schema_of(op).arguments]
    writes = any(alias is not None and alias.is_write for alias in aliases)
    is_found = namespace == "aten" and not writes and not has_own_kernel(op)

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        if spyre_decompositions.get(op) is function and not writes:
            operator = operator_of(op)
            return operator.kernel(args, kwargs) if is_found else operator(args, kwargs)
        result = function(*args, **kwargs)
        if result is not NotImplemented:
            return result
        return run_on_cpu(op, args, kwargs, NOT_TAKEN)

    key = "PrivateUse2" if is_found else "PrivateUse1"
    if (namespace, key) not in _libraries:
        _libraries[namespace, key] = torch.library.Library(namespace, "IMPL", key)  # noqa: TOR901
    _libraries[namespace, key].impl(name + suffix, untraced(kernel), allow_override=True)
    if is_found:
        _C.register_operator(name + suffix)  # looks for programs, and goes on to PrivateUse2


def _differentiate(op: OpOverload, function: Callable[..., Any]) -> None:
    """Has PyTorch differentiate the parts of a decomposition where it would those of its own: with
    a kernel of the device alone the operator has no gradient in a traced graph."""
    namespace, name = schema_of(op).name.split("::")
    suffix = f".{schema_of(op).overload_name}" if schema_of(op).overload_name else ""
    if not is_decomposed_by_autograd(f"{namespace}::{name}{suffix}"):
        return
    if namespace not in _differentiable:
        key = "AutogradPrivateUse1"
        _differentiable[namespace] = torch.library.Library(namespace, "IMPL", key)  # noqa: TOR901

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if result is not NotImplemented else call_parts(op, *args, **kwargs)

    _differentiable[namespace].impl(name + suffix, untraced(kernel), allow_override=True)


def _into(
    table: MutableMapping[OpOverload, Callable[..., Any]], operators: Operators
) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        if not callable(function):
            raise TypeError(f"expected a function of tensors, got {function!r}")
        for op in overloads(operators):
            table[op] = checked(op, function)
            _implement(op, table[op])
            if table is spyre_decompositions:
                _differentiate(op, table[op])
        return function

    return register


def register_spyre_decomposition(operators: Operators) -> Callable[[Function], Function]:
    """Decorator: the function says what the operators are made of, on the card only. It takes the
    operator's arguments and returns what the operator does, in the same shapes.

    Raises: TypeError for what is no operator or no function.
    """
    return _into(spyre_decompositions, operators)


def register_spyre_lowering(operators: Operators) -> Callable[[Function], Function]:
    """Decorator: as register_spyre_decomposition, applied after all passes over the graph.

    Raises: TypeError for what is no operator or no function.
    """
    return _into(spyre_lowerings, operators)


def register_fallback(operators: Operators) -> Callable[[MaybeFunction], MaybeFunction]:
    """Decorator, or called with None: the operators run on the host, by PyTorch's own kernel or by
    the function of CPU tensors; the card is not tried.

    Raises: TypeError for what is no operator or neither function nor None.
    """

    def register(function: MaybeFunction) -> MaybeFunction:
        if function is not None and not callable(function):
            raise TypeError(f"expected a function of CPU tensors or None, got {function!r}")
        for op in overloads(operators):
            fallback_ops[op] = function
        _C.forget_operators()
        return function

    return register


def listing() -> list[tuple[str, str, str]]:
    """(operator, kind, function) in order of the operators: what is registered here
    ("decomposition", "lowering", "fallback"), the operators that the compiler knows itself
    ("compiler"), and those of torch.ops.spyre that are made of other ones ("composite")."""
    known = set(_C.op_names())
    rows = [(name, "compiler", "") for name in known]
    for name, function in customops.composites():
        if name not in known:
            rows.append((name, "composite", _place(function)))
    tables: dict[str, Mapping[OpOverload, Callable[..., Any] | None]] = {
        "decomposition": spyre_decompositions,
        "lowering": spyre_lowerings,
        "fallback": fallback_ops,
    }
    for kind, table in tables.items():
        rows += [(str(op), kind, _place(function)) for op, function in table.items()]
    return sorted(rows)


def _place(function: Callable[..., Any] | None) -> str:
    return f"{function.__module__}.{function.__qualname__}" if function else ""
