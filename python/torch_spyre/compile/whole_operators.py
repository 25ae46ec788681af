# SPDX-License-Identifier: Apache-2.0
"""Operators that graphs of the card keep whole, although PyTorch's tracer takes them apart.

For some operators PyTorch has registered Python in the place of autograd's kernel (`py_impl`):
while a graph is traced, their parts are called in their stead, before a table of decompositions is
asked. Where the compiler, or a decomposition of its own (decompositions/), takes the operator, the
parts are the worse program: a bilinear resampling becomes four gathers for two products. So these
kernels are away while a graph of the card is traced, and autograd's own call the operator."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from .._pytorch.dispatch import (
    OpOverload,
    is_traced_in_parts,
    overload_names,
    resampled_sizes,
    schema_of,
    traced_as,
)
from .decomposition_table import taken
from .decompositions.padding import circular_pad

_aten = torch.ops.aten

IN_PARTS = {
    _aten.native_batch_norm.default,  # writes its statistics, which its schema does not say
    _aten.dropout.default,  # a number of its own for each call
    _aten.matmul.default,  # a product by the ranks of its operands
}

# PyTorch's own parts write one after the other into a new tensor.
IN_OTHER_PARTS: Mapping[OpOverload, Callable[..., Any] | None] = {
    _aten._pad_circular.default: circular_pad,
}


def _overloads() -> Iterator[OpOverload]:
    """Of ATen's operators that the device takes."""
    for name in sorted({name.split(".")[1] for name in taken() if name.startswith("aten.")}):
        packet = getattr(_aten, name)
        for overload in overload_names(packet):
            op = getattr(packet, overload)
            if not schema_of(op).is_mutable:
                yield op


def _resampled(op: OpOverload) -> Callable[..., torch.Tensor]:
    """The overload `vec`, of sizes or factors: PyTorch's C++ reads its sizes as numbers, which a
    graph for all sizes must not."""

    def resampled(
        x: torch.Tensor,
        wanted: Sequence[Any] | None,
        *how: Any,  # of some, whether corners are aligned; last the factors
    ) -> torch.Tensor:
        *align, factors = how
        sizes = resampled_sizes(x.shape, wanted, factors)
        scales = factors or [None] * len(sizes)
        result: torch.Tensor = op.overloadpacket.default(x, sizes, *align, *scales)
        return result

    return resampled


@functools.cache
def kernels() -> Mapping[OpOverload, Callable[..., Any] | None]:
    """The operators of which PyTorch would trace parts, and functions that call them."""
    ops = (op for op in _overloads() if op not in IN_PARTS and is_traced_in_parts(op))
    whole = {op: _resampled(op) if op is _vec_of(op) else None for op in ops}
    return {**whole, **IN_OTHER_PARTS}


def _vec_of(op: OpOverload) -> OpOverload | None:
    return getattr(op.overloadpacket, "vec", None)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Graphs that are traced inside have these operators as nodes."""
    with traced_as(kernels()):
        yield
