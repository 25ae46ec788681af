# SPDX-License-Identifier: Apache-2.0
"""A model whose weights, gradients and optimizer are divided between cards by FSDP2, and its losses
beside those of one card:

    torchrun --nproc-per-node=4 examples/sharded_training.py

Every rank has a part of the batch; before a block computes, its weights come together from all
ranks, and afterwards its gradients are reduced to the parts."""

import torch
import torch.distributed as dist
import torch_spyre
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

BATCH, STEPS, WIDTH = 8, 4, 128
dist.init_process_group("cpu:gloo,spyre:spyreccl")
rank, size = dist.get_rank(), dist.get_world_size()
whole = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(1)).half()


def build() -> nn.Sequential:
    torch.manual_seed(0)  # the same weights on every rank
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)]
    return nn.Sequential(*layers).half().to("spyre")


def train(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    """The loss of each step on this rank's data, on the CPU."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(data) - data).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


with torch_spyre.fallback("silent"):  # products with weights in flat buffers run on the host
    expected = train(build(), whole.to("spyre"))
    model = build()
    mesh = init_device_mesh("spyre", (size,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    losses = train(fully_shard(model, mesh=mesh), whole.chunk(size)[rank].to("spyre"))
dist.all_reduce(losses, dist.ReduceOp.SUM)
if rank == 0:
    for step, (one, several) in enumerate(zip(expected, losses / size, strict=True)):
        print(f"step {step}: loss {one:.4f} on one card, {several:.4f} on {size}")
    parts = sum(p.to_local().nelement() for p in model.parameters())
    print(f"elements here: {parts} of {sum(p.nelement() for p in model.parameters())}")
dist.destroy_process_group()
