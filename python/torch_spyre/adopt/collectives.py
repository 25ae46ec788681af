# SPDX-License-Identifier: Apache-2.0
"""Operators of compiled collectives, which torch-spyre registers in C++. PyTorch's functional ones
start them on the group's backend and know by the result's storage what to wait for."""

from __future__ import annotations

from typing import Any

import torch

from .._pytorch import distributed

_functional: Any = torch.ops._c10d_functional


def broadcast_async(input: torch.Tensor, src_rank: int, group_name: str) -> torch.Tensor:
    """Starts it; the result is a tensor of its own."""
    started: torch.Tensor = _functional.broadcast(input, src_rank, group_name)
    return started


def all_gather_async(
    input: torch.Tensor, group_size: int = 1, group_name: str = "default"
) -> torch.Tensor:
    """The ranks' tensors one after the other, when they are there: each in a tensor like the input
    and then in its rows of the result, as torch-spyre's. The package has no copy of rows that are
    not whole sticks into one part of a flat buffer, which the functional one needs."""
    parts = [torch.empty_like(input) for _ in range(group_size)]
    torch.distributed.all_gather(parts, input, distributed.group_of(group_name))
    result = input.new_empty((group_size * input.shape[0], *input.shape[1:]))
    for rows, part in zip(result.split(input.shape[0]), parts, strict=True):
        rows.copy_(part)
    return result


def all_reduce_async(
    input: torch.Tensor, reduce_op: str = "sum", group_name: str = "default"
) -> torch.Tensor:
    """Starts it, in place."""
    summed: torch.Tensor = _functional.all_reduce_(input, reduce_op, group_name)
    return summed


def wait_work(tensor: torch.Tensor) -> torch.Tensor:
    """Returns once what was started on the tensor is done."""
    done: torch.Tensor = _functional.wait_tensor(tensor)
    return done


SCHEMAS = {
    broadcast_async: "(Tensor input, int src_rank, str group_name) -> Tensor",
    all_gather_async: '(Tensor input, SymInt group_size=1, str group_name="default") -> Tensor',
    all_reduce_async: (
        '(Tensor(a!) input, str reduce_op="sum", str group_name="default") -> Tensor(a)'
    ),
    wait_work: "(Tensor(a!) tensor) -> Tensor(a)",
}


def register() -> torch.library.Library | None:
    """Makes them known where PyTorch has collectives. They live as long as the result."""
    if not torch.distributed.is_available():
        return None
    library = torch.library.Library("spyre", "FRAGMENT")
    for function, schema in SCHEMAS.items():
        library.define(function.__name__ + schema)
        library.impl(function.__name__, function, "PrivateUse1")
    return library
