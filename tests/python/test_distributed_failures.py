# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between ranks is an exception on each of them that says what and where."""

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch_spyre
from rank_processes import join_group, run_processes, run_ranks


def card(*sizes, dtype=torch.float16):
    return torch.ones(sizes, dtype=dtype).to("spyre")


def be_killed(folder, rank, size):
    join_group(folder, rank, size)
    dist.all_reduce(card(4))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="operation 2 all_reduce.*rank 1 has died"):
        dist.all_reduce(card(4))
    assert time.monotonic() - began < 30
    with pytest.raises(dist.DistBackendError, match="operation 3 .*the communicator is broken"):
        dist.all_reduce(card(4))


def call_different_things(folder, rank, size):
    def other_sizes():
        dist.all_reduce(card(4, 3 + rank))

    def other_dtypes():
        dist.all_reduce(card(4, dtype=torch.float32 if rank else torch.float16))

    def other_operations():
        dist.all_reduce(card(4)) if rank else dist.broadcast(card(4), 0)

    def other_reductions():
        dist.all_reduce(card(4), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)

    expected = {
        other_sizes: r"rank 0 has all_reduce\(float16\[4, 3\].*rank 1 has .*float16\[4, 4",
        other_dtypes: r"rank 0 has all_reduce\(float16\[4\].*rank 1 has all_reduce\(float32\[4\]",
        other_operations: r"rank 0 has broadcast\(.*, root 0\).*rank 1 has all_reduce\(",
        other_reductions: r"rank 0 has .*, sum\) as operation 1, rank 1 .*, max\) as",
    }
    for call, words in expected.items():  # a new group each: in the same process
        join_group(f"{folder}", rank, size)
        with pytest.raises(ValueError, match=words):
            call()
        with pytest.raises(dist.DistBackendError, match="the communicator is broken"):
            dist.all_reduce(card(4))
        dist.destroy_process_group()
        again = os.path.join(folder, call.__name__)
        os.makedirs(again, exist_ok=True)
        folder = again


def come_too_late(folder, rank, size):
    join_group(folder, rank, size)
    if rank == 1:
        time.sleep(10)
        return
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=1)
    words = rf"rank {rank} \(of {size}\), operation 1 all_reduce.*timed out.*rank 1 has not come"
    with pytest.raises(dist.DistBackendError, match=words):
        dist.group.WORLD.allreduce([card(4)], options).wait()


def never_join(folder, rank, size):
    if rank == 1:
        return
    words = r"rank 0 \(of 2\): timed out after 2000 ms.*have not come: 1"
    with pytest.raises(dist.DistBackendError, match=words):
        join_group(folder, rank, size, seconds=2, backend="spyreccl")
        dist.all_reduce(card(4))


def abort_and_go_on(folder, rank, size):
    join_group(folder, rank, size)
    if rank == 0:
        dist.group.WORLD._get_backend(torch.device("spyre")).abort()
    with pytest.raises(dist.DistBackendError, match=r"abort\(\) was called"):
        dist.all_reduce(card(4))
    dist.destroy_process_group()
    again = os.path.join(folder, "again")
    os.makedirs(again, exist_ok=True)
    join_group(again, rank, size)
    x = card(4)
    dist.all_reduce(x)
    assert x.tolist() == [size] * 4


def refuse_arguments(rank, size):
    x = card(4, 4)
    backend = dist.group.WORLD._get_backend(torch.device("spyre"))
    with pytest.raises(ValueError, match="a tensor on cpu: all must be on spyre"):
        backend.allreduce([torch.ones(4)], dist.AllreduceOptions())
    with pytest.raises(ValueError, match="elements of the output share memory"):
        dist.all_reduce(card(1).expand(4))
    with pytest.raises(ValueError, match="a list of 1 tensors: expected 2"):
        dist.all_gather([x], x)
    with pytest.raises((ValueError, RuntimeError), match="must be contiguous|contiguous"):
        dist.all_gather_into_tensor(card(4, 8).t(), x)
    with pytest.raises(ValueError, match="9 elements for 2 ranks of 4 each"):
        dist.all_gather_into_tensor(card(9), card(4))
    with pytest.raises(NotImplementedError, match="avg of format IEEE_INT32"):
        dist.all_reduce(card(4, dtype=torch.int32), dist.ReduceOp.AVG)
    with pytest.raises(NotImplementedError, match="reduction of Double"):
        dist.all_reduce(card(4, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="BXOR.*not supported"):
        dist.all_reduce(card(4), dist.ReduceOp.BXOR)
    dist.all_reduce(x)  # nothing is broken by that
    assert x.cpu().eq(size).all()


def use_data_parallel(rank, size):
    net = torch.nn.Linear(4, 4).half().to("spyre")
    with pytest.raises(NotImplementedError, match=r"cards \[0, 1\].*DistributedDataParallel"):
        torch.nn.DataParallel(net)
    torch.nn.DataParallel(net, device_ids=[rank])  # one card is a module as any


def break_rules_of_groups(folder, rank, size):
    """World sizes, ranks, stores and groups that break a rule; the words say which."""
    store = dist.FileStore(os.path.join(folder, "rules"), 1)
    create = torch_spyre._C.createSpyreCCLBackend
    minute = timedelta(seconds=60)
    with pytest.raises(ValueError, match="size 0 of a communicator: must be 1..64"):
        create(store, 0, 0, minute)
    with pytest.raises(ValueError, match="rank 3: must be below the size, 2"):
        create(store, 3, 2, minute)
    join_group(folder, rank, size)
    backend = dist.group.WORLD._get_backend(torch.device("spyre"))
    with pytest.raises(ValueError, match=r"rank 7: must be below the size, 2"):
        backend.send([card(4)], 7, 0)
    with pytest.raises(ValueError, match=f"send: rank {rank} is this rank itself"):
        backend.send([card(4)], rank, 0)
    with pytest.raises(NotImplementedError, match="reduction of Double"):
        dist.all_reduce(torch.ones(4, dtype=torch.complex128).to("spyre"))
    strided = card(4, 8)[:, ::2]
    dist.all_reduce(strided)  # a copy takes part
    assert strided.cpu().eq(size).all()
    dist.destroy_process_group()
    with pytest.raises(
        dist.DistBackendError, match=f"rank {rank}: the process group was destroyed"
    ):
        backend.allreduce([card(4)], dist.AllreduceOptions())
    # A store of which rank 1 thinks that the group is larger.
    other = dist.FileStore(os.path.join(folder, "other"), -1)
    with pytest.raises(ValueError, match="size 3 of rank 1: rank 0 has size 2"):
        create(other, rank, 2 + rank, timedelta(seconds=20))


def test_rules_of_groups():
    assert run_processes(2, break_rules_of_groups) == [0, 0]


def test_a_killed_rank():
    assert run_processes(3, be_killed) == [0, -signal.SIGKILL, 0]


def test_different_calls():
    assert run_processes(2, call_different_things) == [0, 0]


def test_a_late_rank():
    assert run_processes(3, come_too_late) == [0, 0, 0]


def test_a_rank_that_never_joins():
    assert run_processes(2, never_join) == [0, 0]


def test_abort_and_a_new_group_in_the_same_process():
    assert run_processes(2, abort_and_go_on) == [0, 0]


def test_arguments():
    run_ranks(2, refuse_arguments, use_data_parallel)
