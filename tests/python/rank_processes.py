# SPDX-License-Identifier: Apache-2.0
"""Functions of a test as the ranks of a process group, each in a process of its own."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing as mp

Body = Callable[[int, int], None]


def join_group(
    folder: str,
    rank: int,
    size: int,
    seconds: float = 120,
    backend: str = "cpu:gloo,spyre:spyreccl",
) -> None:
    """Becomes a rank of the group that meets in the folder."""
    dist.init_process_group(
        backend=backend,
        store=dist.FileStore(os.path.join(folder, "store"), size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=seconds),
    )


@contextlib.contextmanager
def _as_torchrun_starts_it(size: int) -> Iterator[None]:
    said = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "SPYRE_FALLBACK": "error"}
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _be_rank(rank: int, size: int, folder: str, bodies: tuple[Body, ...]) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    join_group(folder, rank, size)
    for body in bodies:
        body(rank, size)
    dist.destroy_process_group()


def run_ranks(size: int, *bodies: Body) -> None:
    """Calls each function with (rank, size) in `size` processes that form a group; an exception of
    one fails the test. They are functions of a module, and a fallback in them is an error."""
    with tempfile.TemporaryDirectory() as folder, _as_torchrun_starts_it(size):
        mp.spawn(_be_rank, args=(size, folder, bodies), nprocs=size)


def _be_alone(rank: int, size: int, folder: str, body: Callable[[str, int, int], None]) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    body(folder, rank, size)


def run_processes(size: int, body: Callable[[str, int, int], None]) -> list[int | None]:
    """Calls the function with (folder, rank, size) in `size` processes, which may join a group
    themselves; returns their exit codes."""
    with tempfile.TemporaryDirectory() as folder, _as_torchrun_starts_it(size):
        started = mp.spawn(_be_alone, args=(size, folder, body), nprocs=size, join=False)
        for process in started.processes:
            process.join()
        return [process.exitcode for process in started.processes]
