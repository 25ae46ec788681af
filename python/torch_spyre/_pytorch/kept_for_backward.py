# SPDX-License-Identifier: Apache-2.0
"""What a forward pass keeps for the backward pass, which PyTorch decides on the graph of both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

Passes = tuple[torch.fx.GraphModule, torch.fx.GraphModule]

# Of an element on the card, where that is not what the host has.
_CARD_BYTES = {torch.bool: 2, torch.int64: 4}


@contextlib.contextmanager
def _sizes_of_card() -> Iterator[None]:
    """The partitioner counts bytes as tensors have them on the card."""
    from torch._functorch import partitioners

    def nbytes(numel: int, dtype: torch.dtype) -> int:
        return numel * _CARD_BYTES.get(dtype, dtype.itemsize)

    known = partitioners._tensor_nbytes
    partitioners._tensor_nbytes = nbytes
    try:
        yield
    finally:
        partitioners._tensor_nbytes = known


def keep_least(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Passes:
    """The fewest bytes are kept; what is cheap to compute is computed anew."""
    from torch._functorch import partitioners

    with _sizes_of_card():
        return partitioners.min_cut_rematerialization_partition(joint, inputs, **options)


def keep_all(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Passes:
    """Whatever the forward pass has and the backward pass reads is kept."""
    from torch._functorch import partitioners

    return partitioners.default_partition(joint, inputs, **options)


def dtypes_of_products(joint: torch.fx.GraphModule) -> set[torch.dtype]:
    """Those of matrix products, convolutions and the like."""
    from torch._functorch import partitioners

    costly = partitioners.get_default_op_list().compute_intensive_ops
    found = set[torch.dtype]()
    for node in joint.graph.nodes:
        if getattr(node.target, "_overloadpacket", None) in costly:
            value = node.meta.get("val")
            value = value[0] if isinstance(value, (tuple, list)) else value
            if isinstance(value, torch.Tensor):
                found.add(value.dtype)
    return found
