# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on the device: the backend spyreccl."""

import torch
import torch.distributed as dist
from rank_processes import run_ranks


def card(*sizes, dtype=torch.float16, value=0.0):
    return torch.full(sizes, value, dtype=dtype).to("spyre")


def reduce_every_dtype(rank, size):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64):
        for shape in ((), (1,), (5,), (3, 70), (64, 128), (2, 3, 65)):
            x = torch.arange(torch.Size(shape).numel()).reshape(shape) % 7 + rank
            y = x.to(dtype).to("spyre")
            dist.all_reduce(y)
            expected = sum(torch.arange(x.numel()).reshape(shape) % 7 + r for r in range(size))
            assert torch.equal(y.cpu(), expected.to(dtype)), (dtype, shape)


def reduce_with_every_operation(rank, size):
    for op, expected in (
        (dist.ReduceOp.SUM, size * (size + 1) / 2),
        (dist.ReduceOp.AVG, (size + 1) / 2),
        (dist.ReduceOp.MAX, size),
        (dist.ReduceOp.MIN, 1),
        (dist.ReduceOp.PRODUCT, torch.arange(1, size + 1).prod().item()),
    ):
        x = card(3, 5, value=rank + 1)
        dist.all_reduce(x, op)
        assert torch.equal(x.cpu(), torch.full((3, 5), expected, dtype=torch.float16)), op


def test_all_reduce_of_two():
    run_ranks(2, reduce_every_dtype, reduce_with_every_operation)
