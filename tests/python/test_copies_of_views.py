# SPDX-License-Identifier: Apache-2.0
"""`copy_` between views of two tensors of the card, and what is computed in place of a view: only
the view's elements change, and none goes through the host."""

import random

import pytest
import torch
import torch_spyre

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.int32, torch.bool,
          torch.uint8, torch.int8]  # fmt: skip


def numbers(shape, dtype):
    x = torch.randint(-60, 60, shape)
    if dtype is torch.uint8:
        x = x.abs()
    return x != 0 if dtype is torch.bool else x.to(dtype)


def around(chance, sizes, dtype):
    """A tensor of the card with a function that gives a view of it, of these sizes."""
    whole, index = [], []
    for size in sizes:
        step = chance.choice([1, 1, 1, 2, 3])
        whole_dim = chance.random() < 0.4
        first, more = (0, 0) if whole_dim else (chance.randrange(70), chance.randrange(3))
        whole.append(first + (size - 1) * step + 1 + more)
        index.append(slice(first, first + (size - 1) * step + 1, step))
    order = list(range(len(sizes)))
    if chance.random() < 0.3:
        chance.shuffle(order)
    back = [order.index(d) for d in range(len(sizes))]
    x = numbers([whole[d] for d in order], dtype)
    return x, lambda t: t.permute(back)[tuple(index)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_random_views(dtype):
    chance = random.Random(str(dtype))
    torch.manual_seed(0)
    for _ in range(40):
        sizes = [chance.choice([1, 2, 3, 33, 64, 65, 130]) for _ in range(chance.randrange(1, 4))]
        while torch.Size(sizes).numel() > 20000:
            sizes.pop()
        x, part = around(chance, sizes, dtype)
        y, other = around(chance, sizes, dtype)
        here, there = x.to("spyre"), y.to("spyre")
        source, wanted = other(there), other(y)
        if chance.random() < 0.2:
            source, wanted = (t[:1].expand(sizes) for t in (source, wanted))
        part(here).copy_(source)
        part(x).copy_(wanted)
        assert torch.equal(here.cpu(), x)
        assert torch.equal(there.cpu(), y)


@pytest.mark.parametrize("part", [
    lambda z: z[1:-1], lambda z: z[:, 3:77], lambda z: z[:, 64:], lambda z: z[::2], lambda z: z.t(),
    lambda z: z[1:].t()[5:], lambda z: z.view(-1)[130:650], lambda z: z[3],
])  # fmt: skip
def test_a_view_is_changed_in_place(part):
    x = numbers((6, 130), torch.float16)
    z, y = x.to("spyre"), torch.ones(part(x).shape).half()
    with torch_spyre.fallback("error"):
        part(z).mul_(2).add_(y.to("spyre"))
    part(x).mul_(2).add_(y)
    assert torch.equal(z.cpu(), x)


def test_storages_in_the_same_memory():
    """What is copied may share memory with what is written."""
    x = torch.arange(400.0).reshape(4, 100).half()
    z = x.to("spyre")
    z[1:].copy_(z[:-1].clone())
    z.view(torch.int16)[:, :50].copy_(z.view(torch.int16)[:, 50:].clone())
    x[1:].copy_(x[:-1].clone())
    x[:, :50].copy_(x[:, 50:].clone())
    assert torch.equal(z.cpu(), x)


def test_bits_stay():
    """The card's 16 bits have numbers that PyTorch's have not."""
    x = torch.full((4, 70), 40000.0).half().to("spyre")
    x = x + x  # 80000: infinite in float16
    y = torch.zeros(6, 70, dtype=torch.float16, device="spyre")
    y[1:-1].copy_(x)
    assert torch.equal((y[1:-1] * 0.5).cpu(), (x * 0.5).cpu())


@pytest.mark.parametrize("shape", [(37,), (5, 70), (3, 2, 50)])
@pytest.mark.parametrize("width", [64, 130, 320])
def test_gathers_of_rows(shape, width):
    table = numbers((400, width), torch.float16)
    index = torch.randint(0, 400, shape)
    found = torch.nn.functional.embedding(index.to("spyre"), table.to("spyre"))
    assert torch.equal(found.cpu(), torch.nn.functional.embedding(index, table))
    z = table.to("spyre")
    rows = numbers((index.numel(), width), torch.float16)
    at = torch.randperm(400)[: index.numel()]
    z[at.to("spyre")] = rows.to("spyre")
    table[at] = rows
    assert torch.equal(z.cpu(), table)


@pytest.mark.parametrize(
    "target, source",
    [
        ((..., slice(0, 2)), (..., slice(56, 58))),
        ((slice(0, 2),), (slice(3, 5),)),
        ((slice(None), slice(0, 60, 2)), (slice(None), slice(1, 61, 2))),
        ((slice(0, 3),), (slice(1, 4),)),  # which share elements
        ((slice(None), 3), (slice(None), 4)),
    ],
    ids=["columns", "rows", "in turn", "overlapping", "one column"],
)
def test_parts_of_one_tensor(target, source):
    x = torch.randint(-9, 9, (5, 70, 60)).half()
    card, wanted = x.to("spyre"), x.clone()
    card[target].copy_(card[source])
    wanted[target].copy_(x[source])
    assert torch.equal(card.cpu(), wanted)


def test_a_part_that_is_written_in_place_is_not_copied_to_itself():
    x = torch.randint(-9, 9, (5, 70, 60)).half()
    card, wanted = x.to("spyre"), x.clone()
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.PrivateUse1]) as seen:
        card[1:, 2:-1] += 3
        torch.spyre.synchronize()
    wanted[1:, 2:-1] += 3
    assert torch.equal(card.cpu(), wanted)
    names = {event.name for event in seen.events()}
    assert not names & {"Memcpy (DtoH)", "Memcpy (HtoD)"}, names


def test_a_view_that_runs_over_rows_shares_elements_with_the_next_row():
    x = torch.arange(40).half().view(4, 10)
    card = x.to("spyre")
    card.as_strided((10,), (1,), 5).copy_(card.as_strided((10,), (1,), 10))
    wanted = x.clone()
    wanted.as_strided((10,), (1,), 5).copy_(x.as_strided((10,), (1,), 10))
    assert torch.equal(card.cpu(), wanted)
