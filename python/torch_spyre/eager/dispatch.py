# SPDX-License-Identifier: Apache-2.0
"""Operators outside torch.compile.

Every operator takes one way. PyTorch calls core/eager/eager.c, which looks for a program of an
equal call; when there is none, the kernels here are called under the key PrivateUse2. They compile
a graph of the single node (operator_program.py) and tell core/eager/eager.c. What the compiler
refuses runs on the CPU: the tensors are copied there and back, a FallbackWarning names the operator
once, and the refusal is kept as well. Forms that write compute the functional form
(written_operands.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from ..compile import node_arguments
from . import data_dependent_sizes, fits_card, host_operands, made_on_host
from .operator_program import operator_of
from .run_on_cpu import overlaps, run_on_cpu
from .written_operands import (
    Kernel,
    functional_of,
    in_place,
    that_updates,
    with_out,
    without_writes,
)


def _make_kernel(op: OpOverload) -> Kernel:
    """The kernel that PyTorch calls: (args, kwargs) -> results."""
    if op in made_on_host.RANDOM_FILLS:
        return lambda args, kwargs: made_on_host.fill(op, args, kwargs)
    kernel = _kernel_of_card(op)
    numbers = host_operands.form_for_numbers(op)
    if host_operands.takes_indices(op):
        return lambda args, kwargs: kernel(
            host_operands.with_indices_on_card(op, args, kwargs), kwargs
        )
    if op in data_dependent_sizes.COUNTED:
        return _counted(data_dependent_sizes.COUNTED[op], kernel)
    if numbers is None:
        return kernel
    given = _kernel_of_card(numbers)

    def either(args: Arguments, kwargs: Keywords) -> Any:
        # Repeated elements take a number, no tensor: PyTorch's kernel says so.
        refused = schema_of(op).is_mutable and overlaps(args[0])
        if refused or not host_operands.holds_number(args):
            return kernel(args, kwargs)
        return given((*args[:-1], args[-1].item()), kwargs)

    return either


def _counted(function: Callable[..., Any], kernel: Kernel) -> Kernel:
    """`function` makes the result of several operators, where it takes the arguments."""

    def either(args: Arguments, kwargs: Keywords) -> Any:
        result = function(*args, **kwargs)
        return kernel(args, kwargs) if result is NotImplemented else result

    return either


def _kernel_of_card(op: OpOverload) -> Kernel:
    """The kernel for operands of which those of the host are numbers."""
    written = [a for a in schema_of(op).arguments if a.alias_info is not None]
    if not written:
        return operator_of(op).kernel
    functional = functional_of(op)
    if functional is not None and all(a.is_out for a in written):
        return with_out(op, functional)
    if functional is not None and written == schema_of(op).arguments[:1]:
        return in_place(op, functional)

    parallel = without_writes(op)
    if functional is None and parallel is not None:
        return that_updates(op, parallel)

    def kernel(args: Arguments, kwargs: Keywords) -> Any:
        fits_card.check_host(op, args, kwargs)
        return run_on_cpu(op, args, kwargs, "the compiler has no form of it that writes")

    return kernel


_kernels: dict[OpOverload, Kernel] = {}


def dispatch(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's fallback for the device: every operator without a kernel of its own."""
    kernel = _kernels.get(op)
    if kernel is None:
        kernel = _kernels[op] = _make_kernel(op)
    try:
        return kernel(args, kwargs)
    except _C.Unsupported:
        node_arguments.check_devices(op, args, kwargs)  # whose words are PyTorch's
        raise
