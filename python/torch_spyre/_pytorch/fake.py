# SPDX-License-Identifier: Apache-2.0
"""Tensors without values, which PyTorch traces with."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake

from .dispatch import OpOverload

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "has_values",
    "is_surely",
    "mode_of",
    "of_symbolic_sizes",
    "refusals_are_raised",
    "symbol_of",
    "symbolic_size",
]


def has_values(tensor: torch.Tensor) -> bool:
    """False for tensors of the meta device and for those that are traced with."""
    return not (tensor.is_meta or is_fake(tensor))


def mode_of(inputs: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    """The mode of traced inputs: tensors that are made inside of no others are traced, too."""
    mode: contextlib.AbstractContextManager[Any] | None = detect_fake_mode(inputs)
    return mode or contextlib.nullcontext()


_log = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def refusals_are_raised() -> Iterator[None]:
    """What an operator refuses of traced tensors is raised; PyTorch's logger would print it as
    well, with a traceback."""

    def is_other(record: logging.LogRecord) -> bool:
        return not record.msg.startswith("failed while attempting to run meta")

    _log.addFilter(is_other)
    try:
        yield
    finally:
        _log.removeFilter(is_other)


def symbol_of(size: Any) -> Any:
    """The symbol that a traced size is; None of a number, and of an expression of symbols."""
    expression = size.node.expr if isinstance(size, torch.SymInt) else None
    return expression if expression is not None and expression.is_symbol else None


def is_surely(condition: Any) -> bool:
    """Whether a condition on sizes holds; False where it depends on symbols."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # imports sympy

    return guard_or_false(condition)


def of_symbolic_sizes(op: OpOverload) -> Callable[..., Any]:
    """What makes the result of an operator of symbolic sizes: some of PyTorch's kernels would take
    them for numbers."""
    import torch._refs

    return torch._refs.constant_pad_nd if op is torch.ops.aten.constant_pad_nd.default else op


def symbolic_size(hint: int) -> tuple[FakeTensorMode, torch.SymInt]:
    """A mode to trace with, and a size of it that is `hint` in this call."""
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    env, source = ShapeEnv(), ConstantSource("length")
    symbol = env.create_symbol(hint, source, DimDynamic.DYNAMIC)
    size = env.create_symintnode(symbol, hint=hint, source=source)
    assert isinstance(size, torch.SymInt)
    return FakeTensorMode(shape_env=env), size
