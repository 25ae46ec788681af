# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on the device: the backend spyreccl, operation by operation."""

import json
import pathlib
import tempfile
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch_spyre
from rank_processes import run_ranks
from torch.profiler import ProfilerActivity, profile
from torch_spyre.profiler import merge

DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.float64,
)
SHAPES = ((), (1,), (5,), (0, 4), (3, 70), (64, 128), (2, 3, 65))


def numbers(shape, rank, dtype=torch.float16):
    """Of the host; small enough for every dtype."""
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 7 + 10 * rank).to(dtype)


def on_card(shape, rank, dtype=torch.float16):
    return numbers(shape, rank, dtype).to("spyre")


def same(got, wanted):
    return all(torch.equal(a.cpu(), b) for a, b in zip(got, wanted, strict=True))


def empty(shape, dtype=torch.float16):
    return torch.full(shape, 1, dtype=dtype).to("spyre")


def reduce_every_dtype(rank, size):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64):
        for shape in SHAPES:
            x = on_card(shape, rank, dtype)
            dist.all_reduce(x)
            expected = sum(numbers(shape, r, torch.int64) for r in range(size))
            assert torch.equal(x.cpu(), expected.to(dtype)), (dtype, shape)
    for dtype in (torch.uint8, torch.int8, torch.int16):
        x = on_card((9,), rank, dtype)
        dist.all_reduce(x, dist.ReduceOp.MAX)
        assert torch.equal(x.cpu(), numbers((9,), size - 1, dtype))
    x = torch.tensor([rank == 0, False]).to("spyre")
    dist.all_reduce(x)
    assert x.tolist() == [True, False]


def reduce_with_every_operation(rank, size):
    values = torch.arange(1, size + 1)
    for op, expected in (
        (dist.ReduceOp.SUM, values.sum().item()),
        (dist.ReduceOp.AVG, values.float().mean().item()),
        (dist.ReduceOp.MAX, size),
        (dist.ReduceOp.MIN, 1),
        (dist.ReduceOp.PRODUCT, values.prod().item()),
    ):
        x = torch.full((3, 5), rank + 1.0, dtype=torch.float16).to("spyre")
        dist.all_reduce(x, op)
        assert torch.equal(x.cpu(), torch.full((3, 5), expected, dtype=torch.float16)), op
    with pytest.raises(RuntimeError, match=r'\[SpyreCCL\]: The "allreduce BAND" operation is not'):
        dist.all_reduce(x, dist.ReduceOp.BAND)


def keep_the_order_of_a_sum(rank, size):
    """Rank-ascending in float32, rounded once."""
    values = [
        torch.randn(3000, generator=torch.Generator().manual_seed(r)) * 9 for r in range(size)
    ]
    total = values[0]
    for other in values[1:]:
        total = total + other
    x = values[rank].to("spyre")
    dist.all_reduce(x)
    assert torch.equal(x.cpu(), total)


def move_one_tensor(rank, size):
    for dtype in DTYPES:
        for shape in SHAPES:
            x = on_card(shape, rank, dtype)
            dist.broadcast(x, src=size - 1)
            assert torch.equal(x.cpu(), numbers(shape, size - 1, dtype)), (dtype, shape)
    x = on_card((7, 3), rank)
    dist.reduce(x, dst=1)
    if rank == 1:
        assert torch.equal(x.cpu(), sum(numbers((7, 3), r) for r in range(size)))
    else:
        assert torch.equal(x.cpu(), numbers((7, 3), rank))


def move_lists(rank, size):
    for dtype in DTYPES:
        for shape in SHAPES:
            everyone = [numbers(shape, r, dtype) for r in range(size)]
            got = [empty(shape, dtype) for _ in range(size)]
            dist.all_gather(got, everyone[rank].to("spyre"))
            assert same(got, everyone), (dtype, shape)
            got = [empty(shape, dtype) for _ in range(size)]
            dist.gather(everyone[rank].to("spyre"), got if rank == 0 else None, dst=0)
            if rank == 0:
                assert same(got, everyone)
            x = empty(shape, dtype)
            parts = [a.to("spyre") for a in everyone] if rank == 1 else None
            dist.scatter(x, parts, src=1)
            assert torch.equal(x.cpu(), everyone[rank]), (dtype, shape)
    everyone = [numbers((3 + 40 * r, 5), r) for r in range(size)]
    got = [empty(t.shape) for t in everyone]
    dist.all_gather(got, everyone[rank].to("spyre"))  # of different sizes
    assert same(got, everyone)
    x = empty((4, 5))
    dist.reduce_scatter(x, [on_card((4, 5), r + rank) for r in range(size)])
    assert torch.equal(x.cpu(), sum(numbers((4, 5), rank + r) for r in range(size)))


def move_parts_of_one_tensor(rank, size):
    for dtype in (torch.float16, torch.float32, torch.int64):
        for shape in ((5,), (64,), (4, 3), (4, 64), (0, 3)):
            everyone = [numbers(shape, r, dtype) for r in range(size)]
            x = empty((shape[0] * size, *shape[1:]), dtype)
            dist.all_gather_into_tensor(x, everyone[rank].to("spyre"))
            assert torch.equal(x.cpu(), torch.cat(everyone)), (dtype, shape)
            stacked = empty((size, *shape), dtype)
            dist.all_gather_into_tensor(stacked, everyone[rank].to("spyre"))
            assert torch.equal(stacked.cpu(), torch.stack(everyone))
            x = empty(shape, dtype)
            dist.reduce_scatter_tensor(x, torch.cat(everyone).to("spyre"))
            assert torch.equal(x.cpu(), everyone[rank] * size), (dtype, shape)


def exchange_all_to_all(rank, size):
    for dtype in (torch.float16, torch.int64):
        for shape in ((64,), (3, 5)):
            parts = [numbers(shape, rank * size + r, dtype) for r in range(size)]
            wanted = [numbers(shape, r * size + rank, dtype) for r in range(size)]
            got = [empty(shape, dtype) for _ in range(size)]
            dist.all_to_all(got, [p.to("spyre") for p in parts])
            assert same(got, wanted)
            x = empty((shape[0] * size, *shape[1:]), dtype)
            dist.all_to_all_single(x, torch.cat(parts).to("spyre"))
            assert torch.equal(x.cpu(), torch.cat(wanted))
    rows = [[(a * 3 + b) % 4 for b in range(size)] for a in range(size)]  # by sender and receiver
    parts = [numbers((rows[rank][b], 6), rank * size + b) for b in range(size)]
    wanted = [numbers((rows[a][rank], 6), a * size + rank) for a in range(size)]
    incoming = [rows[a][rank] for a in range(size)]
    x = empty((sum(incoming), 6))
    dist.all_to_all_single(x, torch.cat(parts).to("spyre"), incoming, rows[rank])
    assert torch.equal(x.cpu(), torch.cat(wanted))


def send_and_receive(rank, size):
    for dtype in DTYPES:
        x = on_card((3, 40), rank, dtype)
        if rank == 0:
            dist.send(x, dst=1, tag=4)
        elif rank == 1:
            assert dist.recv(x, src=0, tag=4) == 0
            assert torch.equal(x.cpu(), numbers((3, 40), 0, dtype))
    if rank:
        dist.send(on_card((2,), rank), dst=0)
    else:
        senders = set()
        for _ in range(size - 1):
            x = empty((2,))
            sender = dist.recv(x)
            assert torch.equal(x.cpu(), numbers((2,), sender))
            senders.add(sender)
        assert senders == set(range(1, size))
    dist.barrier()  # what comes now is not for any receiver
    after, before = (rank + 1) % size, (rank - 1) % size
    x = empty((300, 700))
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, on_card((300, 700), rank), after),
            dist.P2POp(dist.irecv, x, before),
        ]
    )
    for work in works:
        work.wait()
    assert torch.equal(x.cpu(), numbers((300, 700), before))


def take_views(rank, size):
    """Tensors that do not lie alone in their storage, and strided ones."""
    x = on_card((6, 64), rank)
    dist.all_reduce(x[2:4])
    dist.all_reduce(x.t()[:, 5])
    expected = numbers((6, 64), rank)
    for row in (2, 3, 5):
        expected[row] = sum(numbers((6, 64), r)[row] for r in range(size))
    assert torch.equal(x.cpu(), expected)


def work_behind_the_caller(rank, size):
    x = on_card((400, 64), rank)
    y = x * 2  # still under way, maybe
    works = [dist.all_reduce(y, async_op=True), dist.broadcast(x, 0, async_op=True)]
    futures = [work.get_future() for work in works]
    assert all(work.wait() for work in works)
    assert all(work.is_completed() for work in works)
    assert torch.equal(futures[0].value()[0].cpu(), y.cpu())
    assert torch.equal(y.cpu(), sum(2 * numbers((400, 64), r) for r in range(size)))
    assert torch.equal(x.cpu(), numbers((400, 64), 0))
    with dist._coalescing_manager(device=torch.device("spyre"), async_ops=True) as several:
        for part in (x, y):
            dist.all_reduce(part)
    several.wait()
    assert torch.equal(x.cpu(), numbers((400, 64), 0) * size)


def coalesce(rank, size):
    parts = [on_card((8,), rank), on_card((3, 5), rank)]
    everyone = [[empty(part.shape) for part in parts] for _ in range(size)]
    dist.group.WORLD.allgather_coalesced(everyone, parts).wait()
    for r, gathered in enumerate(everyone):
        assert same(gathered, [numbers((8,), r), numbers((3, 5), r)])
    wide, narrow = empty((8 * size,)), empty((8,))
    with dist._coalescing_manager(device=torch.device("spyre")):
        dist.all_gather_into_tensor(wide, parts[0])
    with dist._coalescing_manager(device=torch.device("spyre")):
        dist.reduce_scatter_tensor(narrow, wide)
    assert torch.equal(narrow.cpu(), size * numbers((8,), rank))


def call_back(rank, size):
    """What a future's callback launches comes behind the operation, which has ended by then."""
    x = on_card((64,), rank)
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    assert work.is_completed()
    assert torch.equal(doubled.cpu(), 2 * sum(numbers((64,), r) for r in range(size)))


def be_in_profiles(rank, size):
    x, weight = on_card((1024, 1024), rank), on_card((1024, 1024), rank)
    torch.spyre.synchronize()
    activities = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    with profile(activities=activities) as profiled:
        work = dist.all_reduce(x, async_op=True)
        product = weight @ weight
        work.wait()
        torch.spyre.synchronize()
    assert product.shape == x.shape
    exchanges = [e for e in profiled.events() if e.name == "all_reduce"]
    assert len(exchanges) == 1
    modelled_us = 2 * (size - 1) * (2 + x.nbytes / size / 63015)
    assert exchanges[0].device_time == pytest.approx(modelled_us, rel=0.01)


def share_a_clock(rank, size):
    x, weight = on_card((64, 1024), rank), on_card((1024, 1024), rank)
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiled:
        for _ in range(2 * rank):  # the last rank comes latest
            x @ weight
        dist.all_reduce(x)
        started = dist.all_reduce(weight, async_op=True)
        product = x @ x.t()
        started.wait()
        (dist.send if rank == 0 else dist.recv)(x, 1 - rank)
        dist.barrier()
    assert product.shape == (64, 64)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        profiled.export_chrome_trace(str(path))
        traces = [None] * size
        dist.all_gather_object(traces, path.read_text())
        paths = [pathlib.Path(folder, f"{other}.json") for other in range(size)]
        for one, text in zip(paths, traces, strict=True):
            one.write_text(text)
        ranks = [merge.read(str(one)) for one in paths]
        assert merge.main([str(one) for one in paths] + ["-o", str(path)]) == 0
        merged = json.loads(path.read_text())["traceEvents"]
    ends = [[e.end for e in events if merge.is_exchange(e) and e.name not in ("send", "receive")]
            for events in ranks]  # fmt: skip
    assert len(ends[0]) == 2 and ends[0] == ends[1], ends
    accounts = [merge.account(events) for events in ranks]
    assert accounts[0].compute < accounts[1].compute
    assert all(0 < account.hidden < account.communication for account in accounts)
    assert {event["pid"] for event in merged} == {0, 1}


def use_parts_of_the_group(rank, size):
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = on_card((4,), rank)
        dist.all_reduce(x, group=pair)
        assert torch.equal(x.cpu(), numbers((4,), 0) + numbers((4,), 1))
    everyone = dist.new_group(backend="spyreccl")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank}, group=everyone)
    assert objects == [{"rank": r} for r in range(size)]
    said = ["something", 7] if rank == 1 else [None, None]
    with torch_spyre.fallback("error", allow=["aten.sum", "aten.cat"]):  # bytes
        dist.broadcast_object_list(said, src=1, group=everyone, device=torch.device("spyre"))
    assert said == ["something", 7]
    assert dist.group.WORLD.name() == "custom"  # PyTorch's hooks ask the backend of this name
    dist.barrier(group=everyone)


def move_objects(rank, size):
    everyone = dist.new_group(backend="spyreccl")  # which also says where the objects lie
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(("from", rank), gathered, dst=0, group=everyone)
    assert gathered == ([("from", r) for r in range(size)] if rank == 0 else None)
    mine = [None]
    parts = [{"part": r} for r in range(size)] if rank == 0 else None
    dist.scatter_object_list(mine, parts, src=0, group=everyone)
    assert mine == [{"part": rank}]
    with torch_spyre.fallback("error", allow=["aten.sum", "aten.cat"]):  # bytes
        if rank == 0:
            dist.send_object_list(["a", 3], dst=1, group=everyone)
        elif rank == 1:
            received = [None, None]
            assert dist.recv_object_list(received, src=0, group=everyone) == 0
            assert received == ["a", 3]


def test_the_backend_by_torch_spyres_name():
    backend = torch_spyre._C.createSpyreCCLBackend(dist.HashStore(), 0, 1, timedelta(seconds=9))
    x = on_card((4,), 3)
    backend.allreduce([x], dist.AllreduceOptions()).wait()
    assert backend.name() == "SpyreCCL" and backend.size() == 1
    assert torch.equal(x.cpu(), numbers((4,), 3))


def test_reductions():
    run_ranks(2, reduce_every_dtype, reduce_with_every_operation)
    run_ranks(3, reduce_with_every_operation, keep_the_order_of_a_sum)


def test_moves():
    run_ranks(2, move_one_tensor, move_lists, move_parts_of_one_tensor, exchange_all_to_all)
    run_ranks(3, move_parts_of_one_tensor, exchange_all_to_all)


def test_messages_views_and_groups():
    run_ranks(
        3,
        send_and_receive,
        take_views,
        work_behind_the_caller,
        coalesce,
        call_back,
        use_parts_of_the_group,
        move_objects,
    )


def test_exchanges_have_modelled_time():
    run_ranks(2, be_in_profiles, share_a_clock)


def test_merging_names_a_file_that_is_no_trace(tmp_path, capsys):
    path = tmp_path / "rank0.json"
    path.write_text('{"traceEvents": [{"args": {"virtual end (us)": 1}}]}')
    assert merge.main([str(path), "-o", str(tmp_path / "all.json")]) == 2
    assert f"{path}: no trace of torch.profiler" in capsys.readouterr().err
