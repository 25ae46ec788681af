# SPDX-License-Identifier: Apache-2.0
"""Results that cannot fit the card: torch.OutOfMemoryError before anything is computed.

A tensor lies in one segment of 16 GiB. What the card cannot hold must not be computed on the host
either, whose memory it would exhaust on the way.
"""

from __future__ import annotations

import math

import torch

from .. import _C
from .._pytorch import pytree
from .._pytorch.dispatch import Arguments, Keywords, OpOverload, schema_of
from ..compile import node_arguments
from .result_metadata import results_of

_SEGMENT_BYTES = 1 << 34
_WIDEST_BYTES = 8


def check(name: str, results: object) -> None:
    """Raises torch.OutOfMemoryError when a tensor among `results`, of any device, exceeds a
    segment of the card. Repeated elements (stride 0) count once."""
    for result in pytree.leaves(results):
        if isinstance(result, torch.Tensor) and result.numel() * _WIDEST_BYTES > _SEGMENT_BYTES:
            _C.check_room(name, result.dtype, _elements(result))


def check_host(op: OpOverload, args: Arguments, kwargs: Keywords) -> None:
    """The same for an operator that runs on the host.

    PyTorch's rules for result sizes take as long as a small operator, so they are asked only where
    the operands allow a result above a segment."""
    if _fits(_most_elements((args, kwargs))):
        return
    written = {a.name for a in schema_of(op).arguments if a.is_out}
    values = node_arguments.positional(op, args, kwargs)
    names = [argument.name for argument in schema_of(op).arguments]
    operands = [v for name, v in zip(names, values, strict=True) if name not in written]
    if _fits(_most_elements(operands)):
        return
    if "device" in names:  # what makes a tensor of numbers makes it on the device `meta`
        values[names.index("device")] = torch.device("meta")
    try:
        results = results_of(op, values)
    except (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError):
        return  # not known before; wrong arguments are the operator's own to refuse
    check(str(op), results)


def _fits(elements: float) -> bool:
    return elements * _WIDEST_BYTES <= _SEGMENT_BYTES


def _most_elements(operands: object) -> float:
    """An element for each combination of the operands' elements, as in an outer product, and of
    numbers, which may be sizes, ends or steps."""
    most = 1.0
    for leaf in pytree.leaves(operands):
        if isinstance(leaf, torch.Tensor):
            most *= max(leaf.numel(), 1)
        elif isinstance(leaf, (int, float)) and leaf != 0 and math.isfinite(leaf):
            most *= max(abs(leaf), 1 / abs(leaf))
    return most


def _elements(tensor: torch.Tensor) -> int:
    """From the first to behind the last in memory."""
    if tensor.numel() == 0:
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in steps)
