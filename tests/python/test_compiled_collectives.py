# SPDX-License-Identifier: Apache-2.0
"""Collectives inside torch.compile: the graph stays whole, tensors stay on the card."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch_spyre
from rank_processes import join_group, run_processes, run_ranks
from small_block import Block
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch_spyre.compile import collectives


def data(rank, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(rank)).half().to("spyre")


def reduce_between_products(x, weight):
    y = functional.all_reduce(torch.relu(x @ weight), "sum", dist.group.WORLD)
    return y @ weight


def gather_rows(x, weight):
    return functional.all_gather_tensor(x * 2, 0, dist.group.WORLD) @ weight


def scatter_rows(x, weight):
    return functional.reduce_scatter_tensor(x @ weight, "sum", 0, dist.group.WORLD) + 1


def exchange_rows(x, weight):
    return functional.all_to_all_single(x + 1, None, None, dist.group.WORLD) @ weight


def broadcast_it(x, weight):
    return functional.broadcast(x @ weight, 1, dist.group.WORLD) - x


def reduce_several(x, weight):
    both = functional.all_reduce_coalesced([x, x @ weight], "sum", dist.group.WORLD)
    return both[0] + both[1]


def reduce_beside_a_product(x, weight):
    started = torch.ops._c10d_functional.all_reduce(x + x, "sum", dist.group.WORLD.group_name)
    product = x @ weight
    return torch.ops._c10d_functional.wait_tensor(started) + product


def gather_several(x, weight):
    gather = torch.ops._c10d_functional.all_gather_into_tensor_coalesced
    started = gather([x, x @ weight], 2, dist.group.WORLD.group_name)
    both = [torch.ops._c10d_functional.wait_tensor(one) for one in started]
    return both[0] + both[1]


def scatter_several(x, weight):
    scatter = torch.ops._c10d_functional.reduce_scatter_tensor_coalesced
    started = scatter([x, x @ weight], "sum", 2, dist.group.WORLD.group_name)
    both = [torch.ops._c10d_functional.wait_tensor(one) for one in started]
    return both[0] * both[1]


def exchange_uneven_rows(x, weight):
    rows = [1, 3] if dist.get_rank() == 0 else [3, 1]
    moved = functional.all_to_all_single(x, rows, rows, dist.group.WORLD)
    return moved @ weight


def average_and_greatest(x, weight):
    mean = functional.all_reduce(x, "avg", dist.group.WORLD)
    return mean + functional.all_reduce(x @ weight, "max", dist.group.WORLD)


def reduce_a_view(x, weight):
    turned = functional.all_reduce(x.t(), "sum", dist.group.WORLD)
    parts = functional.all_gather_tensor(x.view(2, 2, 64)[1], 0, dist.group.WORLD)
    return (turned.t() + parts.view(4, 64)) @ weight


def reduce_in_place(x, weight):
    y = x @ weight
    dist.all_reduce(y)
    return y * x


def refuse(op, *arguments):
    raise AssertionError(f"{op} went through PyTorch's kernel")


def compile_each(rank, size):
    collectives.exchange = refuse  # every one has a plan
    x, weight = data(rank, 4, 64), data(99, 64, 64) / 8
    for function in (
        reduce_between_products,
        gather_rows,
        scatter_rows,
        exchange_rows,
        broadcast_it,
        reduce_several,
        gather_several,
        scatter_several,
        exchange_uneven_rows,
        average_and_greatest,
        reduce_beside_a_product,
        reduce_a_view,
        reduce_in_place,
    ):
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True)
        for _ in range(2):
            result = compiled(x, weight)
        assert torch.equal(result.cpu(), function(x, weight).cpu()), function.__name__
        report = torch_spyre.last_report()
        assert report.graph_breaks == 0 and report.card_segments >= 1
        views = ("aten.t.", "aten.view.", "aten.select.") if function is reduce_a_view else ()
        assert all(name.startswith(("_c10d_functional.", *views)) for name in report.host_ops)
        assert all(exchange.us > 0 for exchange in report.exchanges)
        if function is reduce_beside_a_product:  # which is launched while the ranks exchange
            assert (report.card_segments, report.segments) == (3, 5)
            (exchange,) = report.exchanges
            assert (exchange.ranks, exchange.bytes) == (size, x.nbytes)
            assert 0 < exchange.hidden_us <= exchange.us
            assert f"{exchange.hidden_us:.1f} us of them hidden" in str(report)
            us, hidden_us, moved, ranks = (
                report.program().exchange_table().splitlines()[1].split()[:4]
            )
            assert (int(moved), int(ranks)) == (exchange.bytes, exchange.ranks)
            assert float(us) == pytest.approx(exchange.us, abs=1e-3)
            assert float(hidden_us) == pytest.approx(exchange.hidden_us, abs=1e-3)


def compile_tensor_parallel(rank, size):
    torch.manual_seed(7)
    block = Block().half().to("spyre")
    x = data(1, 4, 64)
    expected = block(x)
    mesh = init_device_mesh("spyre", (size,))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    part = torch.compile(parallelize_module(block, mesh, plan), fullgraph=True)
    torch.testing.assert_close(part(x).cpu(), expected.cpu(), rtol=2e-3, atol=8e-3)
    assert torch_spyre.last_report().graph_breaks == 0


def test_compiled_collectives():
    run_ranks(2, compile_each)


def test_compiled_tensor_parallel_block():
    run_ranks(2, compile_tensor_parallel)


def reduce_on_the_cpu(folder, rank, size):
    """As foundation-model-stack does: a graph for `sendnn`, tensors and group of the CPU."""
    join_group(folder, rank, size, backend="gloo")
    x, weight = data(rank, 4, 64).cpu(), data(99, 64, 64).cpu() / 8
    for function in (reduce_between_products, gather_rows, reduce_beside_a_product):
        torch._dynamo.reset()
        with torch_spyre.fallback("silent"), torch.no_grad():
            actual = torch.compile(function, backend="sendnn")(x, weight)
        torch.testing.assert_close(actual, function(x, weight), atol=3e-2, rtol=3e-2)
    dist.destroy_process_group()


def test_a_group_of_the_cpu_gets_copies():
    assert run_processes(2, reduce_on_the_cpu) == [0, 0]
