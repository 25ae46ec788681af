# SPDX-License-Identifier: Apache-2.0
"""Collectives between cards: float16 tensors by spyreccl, beside gloo with float32 tensors of the
CPU of as many elements, and a copy within each process of the bytes that an ideal all-reduce moves
a rank, 2 (n - 1) / n of the tensor. The ranks' calls take turns in one run. Then what a collective
takes the thread that runs a compiled graph: its start, and the wait for one that has ended."""

import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from harness import Table
from torch_spyre import _C

SIZES = {"8 B": 4, "64 KiB": 1 << 15, "64 MiB": 1 << 25}  # elements of float16
RANKS = (2, 4)
TURNS = 5
STARTS = 16
COLUMNS = ["spyre ms", "gloo ms", "copy ms", "x gloo", "copy/spyre", "start us", "wait us"]


def _mean_ms(call: Callable[[], object], calls: int) -> float:
    """Of the rank that takes longest."""
    dist.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    took = torch.tensor((time.perf_counter() - began) / calls * 1e3)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


def _launching_us(elements: int) -> dict[str, float]:
    """Microseconds a collective, the least of many turns."""
    tensors = [torch.zeros(elements, dtype=torch.float16).to("spyre") for _ in range(STARTS)]
    plan = _C.exchange_plan("all_reduce", dist.group.WORLD.group_name, "sum", 0, [], [])
    best = {"start us": float("inf"), "wait us": float("inf")}
    for _ in range(200):
        dist.barrier()
        began = time.perf_counter()
        started = [_C.exchange_start(plan, tensor) for tensor in tensors]
        best["start us"] = min(best["start us"], time.perf_counter() - began)
        time.sleep(0.002)  # they end meanwhile
        began = time.perf_counter()
        for result in started:
            _C.exchange_wait(result)
        best["wait us"] = min(best["wait us"], time.perf_counter() - began)
    return {name: seconds / STARTS * 1e6 for name, seconds in best.items()}


def _measure(rank: int, size: int, folder: str, only: str) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))
    store = dist.FileStore(os.path.join(folder, "store"), size)
    dist.init_process_group("cpu:gloo,spyre:spyreccl", store=store, rank=rank, world_size=size)
    torch.set_num_threads(1)
    rows = {}
    for label, elements in SIZES.items():
        name = f"all_reduce {label}, {size} ranks"
        if only not in name:
            continue
        card = torch.zeros(elements, dtype=torch.float16).to("spyre")
        cpu = torch.zeros(elements)
        moved = torch.zeros(max(2 * (size - 1) * 2 * elements // size, 1), dtype=torch.uint8)
        into = torch.empty_like(moved)
        contestants = {
            "spyre ms": lambda card=card: dist.all_reduce(card),
            "gloo ms": lambda cpu=cpu: dist.all_reduce(cpu),
            "copy ms": lambda into=into, moved=moved: into.copy_(moved),
        }
        calls = 500 if elements < 1000 else 50 if elements < 1 << 20 else 1
        best = dict.fromkeys(contestants, float("inf"))
        for _ in range(TURNS):
            for who, call in contestants.items():
                best[who] = min(best[who], _mean_ms(call, calls))
        ratios = {
            "x gloo": best["gloo ms"] / best["spyre ms"],
            "copy/spyre": best["copy ms"] / best["spyre ms"],
        }
        rows[name] = best | ratios
    name = f"graph's all_reduce 128 B, {size} ranks"
    if only in name:
        rows[name] = _launching_us(64)
    if rank == 0:
        pathlib.Path(folder, "rows").write_text(json.dumps(rows))
    dist.destroy_process_group()


def run(only: str) -> dict[str, dict[str, float]]:
    table = Table("Collectives, milliseconds a call", COLUMNS, width=12)
    for size in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(_measure, args=(size, folder, only), nprocs=size)
            for name, row in json.loads(pathlib.Path(folder, "rows").read_text()).items():
                table.add(name, row)
    return table.rows
