# SPDX-License-Identifier: Apache-2.0
"""A model trained on several cards, each rank a process with a card of its own:

    torchrun --nproc-per-node=2 examples/distributed_training.py

Every rank has a part of the batch; DistributedDataParallel averages the gradients. Started without
torchrun, it is a group of one."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH, STEPS = 8, 4

if "RANK" in os.environ:
    dist.init_process_group("cpu:gloo,spyre:spyreccl")
else:
    dist.init_process_group("cpu:gloo,spyre:spyreccl", store=dist.HashStore(), rank=0, world_size=1)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # the same weights and data on every rank
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).half().to("spyre")
data = torch.randn(BATCH, 64).half()
mine = data.chunk(size)[rank].to("spyre")

model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = (model(mine) - mine).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    if rank == 0:
        print(f"step {step}: loss {mean.item():.3f}")
dist.destroy_process_group()
