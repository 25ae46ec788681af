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


@contextlib.contextmanager
def _as_torchrun_starts_it(rank: int, size: int, folder: str) -> Iterator[None]:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size)
    )
    store = dist.FileStore(os.path.join(folder, "store"), size)
    dist.init_process_group(
        backend="cpu:gloo,spyre:spyreccl",
        store=store,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=120),
    )
    yield
    dist.destroy_process_group()


def _be_rank(rank: int, size: int, folder: str, bodies: tuple[Body, ...]) -> None:
    with _as_torchrun_starts_it(rank, size, folder):
        for body in bodies:
            body(rank, size)


def run_ranks(size: int, *bodies: Body) -> None:
    """Calls each function with (rank, size) in `size` processes that form a group; an exception of
    one fails the test. They are functions of a module, and a fallback in them is an error."""
    before = os.environ.get("SPYRE_FALLBACK")
    os.environ["SPYRE_FALLBACK"] = "error"
    try:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(_be_rank, args=(size, folder, bodies), nprocs=size)
    finally:
        if before is None:
            del os.environ["SPYRE_FALLBACK"]
        else:
            os.environ["SPYRE_FALLBACK"] = before
