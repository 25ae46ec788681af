# SPDX-License-Identifier: Apache-2.0
"""Whole programs of several cards: compiled, pipelined, in mixed precision, kept in files, started
again by torchrun."""

import copy
import functools
import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch_spyre
from rank_processes import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

HALF = {"rtol": 2e-3, "atol": 8e-3}


def host_may_help(body):
    """Products with weights in flat buffers, sums of clips and steps of optimizers."""

    @functools.wraps(body)
    def run(rank, size):
        with torch_spyre.fallback("silent"):
            body(rank, size)

    return run


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).half().to("spyre")


def data(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(2)).half().to("spyre")


def gradients_of(net, x):
    net(x).float().pow(2).mean().backward()
    return [p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
            for p in net.parameters()]  # fmt: skip


def sharded(net, size, **options):
    return fully_shard(net, mesh=init_device_mesh("spyre", (size,)), **options)


@host_may_help
def compile_what_is_parallel(rank, size):
    expected = gradients_of(model(), data(4, 64))
    ddp = torch.compile(nn.parallel.DistributedDataParallel(model()))
    fsdp = sharded(model(), size)
    fsdp.compile()
    for net in (ddp, fsdp):
        for ours, one_card in zip(gradients_of(net, data(4, 64)), expected, strict=True):
            torch.testing.assert_close(ours.cpu(), one_card.cpu(), **HALF)


@host_may_help
def train_in_mixed_precision(rank, size):
    expected = gradients_of(model(), data(4, 64))
    policy = MixedPrecisionPolicy(param_dtype=torch.float16, reduce_dtype=torch.float32)
    net = sharded(model().float(), size, mp_policy=policy)
    for ours, one_card in zip(gradients_of(net, data(4, 64)), expected, strict=True):
        torch.testing.assert_close(ours.cpu(), one_card.float().cpu(), **HALF)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    torch.optim.AdamW(net.parameters()).step()
    assert all(torch.isfinite(p.full_tensor().cpu()).all() for p in net.parameters())


@host_may_help
def share_the_optimizer(rank, size):
    """ZeRO's first stage: each rank has a part of the optimizer."""
    alone, net = model(), nn.parallel.DistributedDataParallel(model())
    gradients_of(alone, data(4, 64))
    torch.optim.SGD(alone.parameters(), lr=0.1).step()
    gradients_of(net, data(4, 64))
    ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1).step()
    for ours, one_card in zip(net.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), one_card.cpu(), **HALF)


@host_may_help
def run_a_pipeline(rank, size):
    whole = model()
    part = nn.Sequential(whole[0], whole[1]) if rank == 0 else whole[2]
    stage = PipelineStage(part, rank, 2, torch.device("spyre", rank))
    schedule = ScheduleGPipe(stage, n_microbatches=2)
    if rank == 0:
        schedule.step(data(4, 64))
    else:
        torch.testing.assert_close(schedule.step().cpu(), whole(data(4, 64)).cpu(), **HALF)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 128)
        self.down = nn.Linear(128, 64)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


def divide_the_sequence(rank, size):
    torch.manual_seed(0)
    whole, x = Block().half().to("spyre"), data(2, 8, 64)
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }
    part = parallelize_module(copy.deepcopy(whole), init_device_mesh("spyre", (size,)), plan)
    out = part(x.chunk(size, 1)[rank].contiguous())
    torch.testing.assert_close(out.full_tensor().cpu(), whole(x).cpu(), **HALF)


class Experts(torch.nn.Module):
    """Mixtral's block: each token goes to the two experts that its router likes best."""

    def __init__(self, experts, dim=64, inner=128):
        super().__init__()
        self.gate = torch.nn.Linear(dim, experts, bias=False)
        self.up = torch.nn.Parameter(torch.randn(experts, dim, inner) / 8)
        self.down = torch.nn.Parameter(torch.randn(experts, inner, dim) / 8)

    def route(self, x):
        weights, chosen = self.gate(x).float().cpu().softmax(-1).topk(2, dim=-1)
        return (weights / weights.sum(-1, keepdim=True)).half(), chosen

    def expert(self, number, x):
        return torch.nn.functional.silu(x @ self.up[number]) @ self.down[number]

    def combine(self, results, weights):
        return (results.view(-1, 2, results.shape[-1]) * weights[..., None].to("spyre")).sum(1)

    def forward(self, x):
        weights, chosen = self.route(x)
        copies = [self.expert(n, x[t : t + 1]) for t, ns in enumerate(chosen.tolist()) for n in ns]
        return self.combine(torch.cat(copies), weights)


def to_the_experts(block, x, rank, size):
    """Expert parallel: tokens travel to the ranks of their experts and back."""
    each = block.up.shape[0] // size
    weights, chosen = block.route(x)
    experts = chosen.flatten()
    order = torch.argsort(experts, stable=True)
    counts = torch.bincount(experts, minlength=each * size)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    sends, receives = (
        counts.view(size, each).sum(1).tolist(),
        theirs.view(size, each).sum(1).tolist(),
    )
    tokens = x.repeat_interleave(2, 0)[order.to("spyre")]
    arrived = x.new_empty(sum(receives), x.shape[1])
    dist.all_to_all_single(arrived, tokens, receives, sends)
    done, at = [], 0
    for row in theirs.view(size, each).tolist():
        for number, count in enumerate(row):
            if count:
                done.append(block.expert(rank * each + number, arrived[at : at + count]))
            at += count
    results = torch.empty_like(tokens)
    dist.all_to_all_single(results, torch.cat(done) if done else arrived, sends, receives)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    return block.combine(results[back.to("spyre")], weights)


@host_may_help
def divide_the_experts(rank, size):
    torch.manual_seed(5)
    block = Experts(8).half().to("spyre")
    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(rank)).half().to("spyre")
    with torch.no_grad():
        expected, actual = block(x), to_the_experts(block, x, rank, size)
    torch.testing.assert_close(actual.cpu(), expected.cpu(), rtol=2e-3, atol=2e-3)


def save(rank, size):
    net = sharded(model(7), size)
    checkpoint.save({"net": net.state_dict()}, checkpoint_id=os.environ["TEST_CHECKPOINT"])


def load(rank, size):
    net = sharded(model(8), size)
    state = {"net": net.state_dict()}
    checkpoint.load(state, checkpoint_id=os.environ["TEST_CHECKPOINT"])
    for ours, saved in zip(net.parameters(), model(7).parameters(), strict=True):
        assert torch.equal(ours.full_tensor().cpu(), saved.cpu())


def test_checkpoints_change_the_number_of_cards(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_CHECKPOINT", str(tmp_path))
    run_ranks(4, save)
    run_ranks(2, load)


def test_training_in_other_forms():
    run_ranks(2, compile_what_is_parallel, train_in_mixed_precision, share_the_optimizer)


def test_models_in_parts():
    run_ranks(2, run_a_pipeline, divide_the_sequence, divide_the_experts)


RESTARTED = """
import os, signal, torch, torch.distributed as dist
dist.init_process_group("spyreccl")
x = torch.ones(4, dtype=torch.float16, device="spyre")
dist.all_reduce(x)
again = os.environ["TORCHELASTIC_RESTART_COUNT"]
if dist.get_rank() == 1 and again == "0":
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(x)
os.write(1, f"ended {dist.get_rank()} {again} {x.tolist()}\\n".encode())
dist.destroy_process_group()
"""


def test_torchrun_starts_a_group_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(RESTARTED)
    options = ["--nproc-per-node=2", "--max-restarts=1", "--standalone"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *options, str(script)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert f"ended {rank} 1 [4.0, 4.0, 4.0, 4.0]" in done.stdout
