# SPDX-License-Identifier: Apache-2.0
"""A concatenation of many rows and a few costs the few, and is a tensor of its own all the same."""

import gc

import pytest
import torch
import torch_spyre
from inputs import numbers
from torch_spyre import _C
from torch_spyre.compile.hints import named_dims

SHAPES = {  # of many rows, and the dim that grows
    "heads": ((1, 16, 64, 64), 2),
    "half a stick a row": ((2, 4, 40, 32), 2),
    "rows that end in a stick": ((2, 3, 40, 80), -2),
    "dim 1": ((3, 70, 4, 64), 1),
    "dim 0": ((140, 2, 64), 0),
    "a matrix": ((200, 128), 0),
}


def attend(cache, rows):
    longer = torch.cat([cache, rows], 2)
    return longer, longer.softmax(-1) @ rows.transpose(-1, -2)


def us_of(run):
    before = _C._stream_clock_us(0, 0)
    run()
    torch.spyre.synchronize()
    return _C._stream_clock_us(0, 0) - before


def grow(cache, dim, steps, cat=torch.cat):
    """Caches on the CPU and the card, the first and each that it grows to by one row or two."""
    kept = [(cache, cache.to("spyre"))]
    for step in range(steps):
        shape = list(cache.shape)
        shape[dim] = 1 + step % 2
        rows = numbers(*shape, dtype=cache.dtype)
        host, card = kept[-1]
        kept.append((torch.cat([host, rows], dim), cat([card, rows.to("spyre")], dim)))
    return kept


def check(pairs):
    for host, card in pairs:
        assert card.stride() == host.stride() and card.storage_offset() == 0
        torch.testing.assert_close(card.cpu(), host, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
@pytest.mark.parametrize("name", SHAPES)
def test_all_that_it_was_stays(name, dtype):
    shape, dim = SHAPES[name]
    pairs = grow(numbers(*shape, dtype=dtype), dim, 4)
    check(pairs)
    addresses = {_C._card_address(card) for _host, card in pairs[1:2]}
    assert len(addresses) == 1
    check(pairs)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_row_more_costs_a_row(compiled, monkeypatch):
    monkeypatch.setitem(named_dims._sizes, "of another tensor", 64)
    cache, rows = numbers(1, 8, 512, 64).to("spyre"), numbers(1, 8, 1, 64).to("spyre")
    whole = us_of(lambda: cache.clone())
    torch._dynamo.reset()

    def longer(cache, rows):
        return torch.cat([cache, rows], 2)

    run = torch.compile(longer, dynamic=True) if compiled else longer
    cache = run(run(cache, rows), rows)  # the first one moves it
    spent = us_of(lambda: run(cache, rows))
    assert spent < whole / 4, f"{spent:.2f} us; a copy of the cache takes {whole:.2f}"


@pytest.mark.parametrize("which", [0, -1])
def test_what_is_written_into_one_no_other_sees(which):
    pairs = grow(numbers(1, 4, 64, 64), 2, 3)
    writes = [
        lambda x: x[:, :, 5].fill_(3),
        lambda x: x.add_(1),
        lambda x: x.zero_(),
        lambda x: x.copy_(x.flip(1)),
        lambda x: x[:, 1, :3].copy_(x[:, 0, :3]),
    ]
    for write in writes:
        for tensor in pairs[which]:
            write(tensor)
        check(pairs)
    pairs += [(torch.cat([h, h[:, :, :1]], 2), torch.cat([c, c[:, :, :1]], 2)) for h, c in pairs]
    check(pairs)


def test_a_compiled_write_into_a_cache_that_others_share():
    pairs = grow(numbers(1, 4, 64, 64), 2, 2)

    def write(x, at):
        x.index_fill_(2, at, 7.0)
        return x * 2

    torch._dynamo.reset()
    at = torch.tensor([3])
    for host, card in pairs[:2]:
        torch.compile(write)(card, at.to("spyre"))
        write(host, at)
    check(pairs)


def test_two_that_follow_the_same_cache():
    (host, card), one, other = grow(numbers(1, 4, 64, 64), 2, 1)[-1], *numbers(2, 1, 4, 1, 64)
    both = [(torch.cat([host, row], 2), torch.cat([card, row.to("spyre")], 2))
            for row in (one, other, one)]  # fmt: skip
    check([(host, card), *both])


def test_compiled_with_readers_in_the_graph():
    torch._dynamo.reset()
    step = torch.compile(attend, dynamic=True)
    cache = numbers(1, 4, 64, 64)
    card, kept = cache.to("spyre"), []
    for _ in range(4):
        rows = numbers(1, 4, 1, 64)
        kept.append((cache, card))
        wider, wanted = attend(cache.float(), rows.float())
        card, given = step(card, rows.to("spyre"))
        cache = wider.half()
        torch.testing.assert_close(given.cpu().float(), wanted, rtol=0.01, atol=0.01)
    check([*kept, (cache, card)])
    assert not torch_spyre.last_report().host_ops


@pytest.mark.parametrize(
    "cache, rows, dim",
    [
        (numbers(1, 4, 64, 64), numbers(1, 4, 20, 64), 2),  # not a few
        (numbers(1, 2, 16, 64), numbers(1, 2, 1, 64), 2),  # a small cache
        (numbers(4, 8, 640), numbers(4, 8, 1), 2),  # along the sticks
        (numbers(1, 64, 4, 64).transpose(1, 2), numbers(1, 4, 1, 64), 2),  # not contiguous
        (numbers(1, 4, 65, 64)[:, :, 1:], numbers(1, 4, 1, 64), 2),  # a part of its storage
        (numbers(1, 4, 64, 64), numbers(1, 1, 4, 64).transpose(1, 2), 2),
        (numbers(1, 4, 64, 64), numbers(1, 4, 1, 64).float(), 2),  # promotes
    ],
)
def test_other_concatenations(cache, rows, dim):
    wanted = torch.cat([cache, rows], dim)

    # a view stays one on the card, which to() would make contiguous
    def view(x):
        whole = x._base if x._base is not None else x
        return whole.to("spyre").as_strided(x.shape, x.stride(), x.storage_offset())

    given = torch.cat([view(cache), view(rows)], dim)
    assert given.dtype == wanted.dtype
    torch.testing.assert_close(given.cpu(), wanted, rtol=0, atol=0)


def test_wrong_sizes_are_refused_as_ever():
    cache = numbers(1, 4, 64, 64).to("spyre")
    for rows, dim in ((numbers(1, 5, 1, 64), 2), (numbers(1, 4, 1, 64), 4), (numbers(4, 1, 64), 2)):
        with pytest.raises((RuntimeError, IndexError)):
            torch.cat([cache, rows.to("spyre")], dim)


def test_the_memory_is_freed_with_the_last_one():
    gc.collect()
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()
    pairs = grow(numbers(1, 4, 64, 64), 2, 90)  # more than the first room
    check(pairs[::30])
    pairs[10][1].add_(1)
    del pairs
    gc.collect()
    torch.spyre.synchronize()
    assert torch.spyre.memory_allocated() == before


def test_other_forms_of_memory():
    """A view by another layout, and a copy as the storage lies."""
    pairs = grow(numbers(1, 4, 64, 64), 2, 2)
    host, card = pairs[-1]
    copy = card.clone()
    card.fill_(2)
    host.fill_(2)
    check(pairs)
    assert not copy.eq(2).all().cpu()
    torch_spyre.set_spyre_tensor_layout(
        card, torch_spyre._C.SpyreTensorLayout(list(card.shape), card.dtype)
    )
    check(pairs)
