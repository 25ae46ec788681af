# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own ways to divide a model between cards, unmodified, against one card."""

import copy

import torch
import torch.distributed as dist
import torch_spyre
from rank_processes import run_ranks
from small_block import Block
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


def model():
    torch.manual_seed(3)
    return nn.Sequential(Block(), Block()).half().to("spyre")


def batch(rank):
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randn(4, 64, generator=generator).half().to("spyre")


def train(net, inputs, steps=3):
    """Losses of some steps of SGD, the mean over the ranks' batches."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sum(net(x).float().pow(2).mean() for x in inputs) / len(inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


def mean_over_ranks(losses):
    losses = losses.to("spyre")
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    return losses.cpu()


def train_in_parallel(rank, size):
    expected = train(model(), [batch(r) for r in range(size)])
    ddp = nn.parallel.DistributedDataParallel(model())
    torch.testing.assert_close(mean_over_ranks(train(ddp, [batch(rank)])), expected)


def train_sharded(rank, size):
    expected = train(model(), [batch(r) for r in range(size)])
    net = model()
    mesh = init_device_mesh("spyre", (size,))
    for block in net:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    # A weight that lies in a flat buffer is multiplied on the host where its rows do not fill
    # sticks of it; it rounds once less.
    with torch_spyre.fallback("error", allow=["aten.addmm"]):
        losses = train(net, [batch(rank)])
    torch.testing.assert_close(mean_over_ranks(losses), expected, rtol=1e-3, atol=0)


def split_a_tensor(rank, size):
    mesh = init_device_mesh("spyre", (size,))
    whole = torch.arange(8 * 64, dtype=torch.float16).reshape(8, 64)
    x = distribute_tensor(whole.to("spyre"), mesh, [Shard(0)])
    assert x.to_local().shape == (8 // size, 64)
    assert torch.equal(x.full_tensor().cpu(), whole)
    assert torch.equal(x.redistribute(mesh, [Shard(1)]).full_tensor().cpu(), whole)
    y = x.redistribute(mesh, [Replicate()]) + x
    assert torch.equal(y.full_tensor().cpu(), whole + whole)


def divide_linears(rank, size):
    torch.manual_seed(5)
    whole = Block().half().to("spyre")
    x = batch(0)
    mesh = init_device_mesh("spyre", (size,))
    part = parallelize_module(
        copy.deepcopy(whole), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    close = {"rtol": 2e-3, "atol": 8e-3}  # partial sums are rounded to float16, too
    torch.testing.assert_close(part(x).cpu(), whole(x).cpu(), **close)
    whole(x).pow(2).sum().backward()
    part(x).pow(2).sum().backward()
    grad = part.up.weight.grad.full_tensor()
    torch.testing.assert_close(grad.cpu(), whole.up.weight.grad.cpu(), rtol=2e-2, atol=2e-2)


def test_data_parallel_training_equals_one_card():
    run_ranks(2, train_in_parallel)


def test_fully_sharded_training_equals_one_card():
    run_ranks(2, train_sharded)


def test_dtensor():
    run_ranks(2, split_a_tensor)


def test_tensor_parallel_equals_one_card():
    run_ranks(2, divide_linears)
