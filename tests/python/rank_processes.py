# SPDX-License-Identifier: Apache-2.0
"""Functions of a test as the ranks of a process group, each in a process of its own."""

import contextlib
import importlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing as mp
from torch_forks import start_forkserver

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


def _call(rank: int, environment: dict[str, str], call: bytes) -> None:
    os.environ.clear()
    os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank))
    importlib.import_module("torch_spyre")
    function, *arguments = pickle.loads(call)  # of a module that may read the environment
    function(rank, *arguments)


def _start(function: Callable[..., None], *arguments: object) -> mp.ProcessContext:
    """Processes, as many as the first argument says, that call function(rank, *arguments)."""
    start_forkserver()
    call = pickle.dumps((function, *arguments))
    return mp.start_processes(
        _call, (dict(os.environ), call), arguments[0], join=False, start_method="forkserver"
    )


def _be_rank(rank: int, size: int, folder: str, bodies: tuple[Body, ...]) -> None:
    join_group(folder, rank, size)
    for body in bodies:
        body(rank, size)
    dist.destroy_process_group()


def run_ranks(size: int, *bodies: Body) -> None:
    """Calls each function with (rank, size) in `size` processes that form a group; an exception of
    one fails the test. They are functions of a module, and a fallback in them is an error."""
    with tempfile.TemporaryDirectory() as folder, _as_torchrun_starts_it(size):
        started = _start(_be_rank, size, folder, bodies)
        while not started.join():
            pass


def _be_alone(rank: int, size: int, folder: str, body: Callable[[str, int, int], None]) -> None:
    body(folder, rank, size)


def run_processes(size: int, body: Callable[[str, int, int], None]) -> list[int | None]:
    """Calls the function with (folder, rank, size) in `size` processes, which may join a group
    themselves; returns their exit codes."""
    with tempfile.TemporaryDirectory() as folder, _as_torchrun_starts_it(size):
        started = _start(_be_alone, size, folder, body)
        for process in started.processes:
            process.join()
        return [process.exitcode for process in started.processes]
