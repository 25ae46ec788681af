# SPDX-License-Identifier: Apache-2.0
"""A graph whose arguments grow has one program for all lengths of a bucket, and right numbers."""

import random

import pytest
import torch
import torch_spyre
from torch_spyre.compile.dynamic_sizes import bucket_ends, grown_arguments

FIRST, STEPS = 122, 10  # lengths 123..132 are in two buckets


def held(*sizes):
    """Numbers that the card holds as they are, and whose products it does."""
    return torch.randint(-4, 5, sizes).half() / 4


def attend(keys, values, key, value, query, mask):
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values)


def attend_masked(keys, values, key, value, query, mask):
    seen = mask[:, None, None, :].bool()
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)


def attend_biased(keys, values, key, value, query, mask):
    bias = (1.0 - mask[:, None, None, :].to(query.dtype)) * -1000.0
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=bias)


def attend_by_parts(keys, values, key, value, query, mask):
    scores = (query @ keys.transpose(-1, -2)) / 8
    scores = scores.masked_fill(mask[:, None, None, :] == 0, -1000.0)
    return scores.softmax(-1) @ values, scores


def attend_by_place(keys, values, key, value, query, mask):
    places = torch.arange(keys.shape[2], device=keys.device).to(keys.dtype)
    scores = query @ keys.transpose(-1, -2) - 0.125 * places
    return scores.softmax(-1) @ values


def attend_grouped(keys, values, key, value, query, mask):
    b, h, n, d = keys.shape
    keys = keys[:, :1, None].expand(b, 1, h, n, d).reshape(b, h, n, d)
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values)


def add_up(keys, values, key, value, query, mask):
    return keys.sum(2), values.exp().sum(2), keys.amax(2), mask.cumsum(1)


def attend_window(keys, values, key, value, query, mask):
    places = torch.arange(keys.shape[2], device=keys.device)
    seen = (places > keys.shape[2] - 50) & mask[:, None, None, :].bool()
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)


def take_places(keys, values, key, value, query, mask):
    """What embeds the places of a padded sequence, and masks of a square of places."""
    at = mask.cumsum(-1) - 1
    at = at.masked_fill(mask == 0, 1)
    table = torch.arange(512, device=keys.device).to(keys.dtype).view(256, 2) / 256
    n = keys.shape[2]
    square = torch.zeros(n, n, device=keys.device, dtype=keys.dtype).masked_fill(
        torch.arange(n, device=keys.device) > torch.arange(n, device=keys.device)[:, None], 1.0
    )
    return table[at].sum(1), square.sum(0), torch.nn.functional.embedding(at[:, -1:], table)


def of_a_table(keys, values, key, value, query, mask):
    bias = torch.ones(256, 256, device=keys.device, dtype=keys.dtype).tril()
    n = keys.shape[2]
    return query @ keys.transpose(-1, -2) + bias[n - 1 : n, :n]


def attend_last(keys, values, key, value, query, mask):
    """The last rows lie otherwise in a copy than in the cache, and so do views of them."""
    near = [cache[:, :, -9:] for cache in (keys, values)]
    near = [cache[:, :2].repeat_interleave(2, 1).transpose(2, 3) for cache in near]
    return (query @ near[0]).softmax(-1) @ near[1].transpose(2, 3)


def at_any_place(keys, values, key, value, query, mask):
    """Indices from the end, and a number that follows the length by no sum."""
    n = keys.shape[2]
    places = torch.arange(n, device=keys.device) + max(0, n - 119)
    return keys.sum(2), mask[:, torch.arange(n, device=keys.device) - n] * places


def average(keys, values, key, value, query, mask):
    return keys.mean(2), values.flip(2)[:, :, 0]


def weigh_by_length(keys, values, key, value, query, mask):
    return keys.sum(2) / keys.shape[2], keys.sum(2) * (keys.shape[2] / 100)


def middle(keys, values, key, value, query, mask):
    return keys.median(2).values


def normalize(keys, values, key, value, query, mask):
    return torch.nn.functional.layer_norm(keys.transpose(2, 3), keys.shape[2:3])


def pool(keys, values, key, value, query, mask):
    return torch.nn.functional.max_pool2d(keys, (3, 1), 1, (1, 0))


SHARED = [attend, attend_masked, attend_biased, attend_by_parts, attend_by_place, attend_grouped,
          attend_window, attend_last, take_places, at_any_place, add_up, of_a_table, average,
          weigh_by_length, middle, normalize, pool]  # fmt: skip


# In a program a length: it is joined with a dim whose size is a symbol, too.
def normalize_groups(keys, values, key, value, query, mask):
    return torch.nn.functional.group_norm(keys, 2)


OWN = [normalize_groups]


def step_of(read):
    def step(keys, values, key, value, query, mask):
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        return keys, values, read(keys, values, key, value, query, mask)

    return step


def decode(step, steps, sizes=(1, 4, FIRST, 64)):
    """Runs beside the CPU in float32; gives the last caches."""
    b, h, n, d = sizes
    host = [held(*sizes), held(*sizes)]
    card = [cache.to("spyre") for cache in host]
    compiled = torch.compile(step, dynamic=True)
    for i in range(steps):
        row = [held(b, h, 1, d) for _ in range(3)]
        mask = torch.ones(b, n + 1 + i, dtype=torch.int64)
        mask[:, 3:7] = 0
        *card, found = compiled(*card, *[r.to("spyre") for r in row], mask.to("spyre"))
        *host, wanted = step(*[t.float() for t in (*host, *row)], mask)
        host = [cache.half() for cache in host]
        assert card[0].shape == host[0].shape and card[0].stride() == host[0].stride()
        pairs = zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(wanted),
                    strict=True)  # fmt: skip
        for left, right in pairs:
            assert left.shape == right.shape
            torch.testing.assert_close(left.cpu().float(), right.float(), atol=0.03, rtol=0.02)
    for left, right in zip(card, host, strict=True):
        assert torch.equal(left.cpu(), right)
    return card


@pytest.fixture
def programs():
    torch._dynamo.reset()
    before = torch_spyre.compile_reports()
    known = {id(report) for report in before}
    return lambda: [r for r in torch_spyre.compile_reports() if id(r) not in known]


@pytest.mark.parametrize("read", SHARED, ids=lambda read: read.__name__)
def test_a_program_a_bucket(read, programs):
    decode(step_of(read), STEPS)
    made = programs()
    assert len(made) == 2 == len({bucket_ends.end_of_length(FIRST + 1 + i) for i in range(STEPS)})
    assert not any(report.host_ops for report in made)


@pytest.mark.parametrize("read", OWN, ids=lambda read: read.__name__)
def test_what_no_rule_takes_has_a_program_a_length(read, programs):
    decode(step_of(read), 5)
    assert len(programs()) == 5


def test_what_is_known_of_a_graph_is_bounded(monkeypatch):
    table = {}
    for number in range(2 * grown_arguments.MOST):
        grown_arguments.keep(table, number, number)
    assert list(table) == list(range(grown_arguments.MOST, 2 * grown_arguments.MOST))
    monkeypatch.setattr(grown_arguments, "MOST", 1)
    decode(step_of(attend), STEPS)


def test_buckets_end_at_sticks_and_cost_an_eighth_at_most():
    for length in range(8, 5000):
        end = bucket_ends.end_of_length(length)
        assert end % 64 == 0 and 0 <= end - length < max(64, length / 8 + 1)
        assert bucket_ends.end_of_length(end) == end


@pytest.mark.parametrize("sizes", [(2, 2, 20, 128), (1, 1, 61, 64), (3, 4, 126, 80)])
@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_sequences(seed, sizes):
    """Sequences that begin alike, go on in any order, are written into and go away: each is what it
    is on the CPU."""
    torch._dynamo.reset()
    chance = random.Random(seed)
    b, h, n, d = sizes
    step = torch.compile(step_of(attend), dynamic=True)
    host = [held(*sizes), held(*sizes)]
    known = [(host, [cache.to("spyre") for cache in host])]
    for _ in range(12):
        host, card = chance.choice(known[-3:])
        row = [held(b, h, 1, d) for _ in range(3)]
        mask = torch.ones(b, host[0].shape[2] + 1, dtype=torch.int64)
        *host, wanted = step_of(attend)(*[t.float() for t in (*host, *row)], mask)
        host = [cache.half() for cache in host]
        *card, found = step(*card, *[r.to("spyre") for r in row], mask.to("spyre"))
        torch.testing.assert_close(found.cpu().float(), wanted, atol=0.03, rtol=0.02)
        known.append((host, card))
        if chance.random() < 0.4:
            host, card = chance.choice(known)
            for caches in (host, card):
                caches[0][:, :, 1:3] = 0.5
                caches[1].mul_(-1)
        if chance.random() < 0.4:
            known.pop(chance.randrange(len(known)))
        known = known or [(host, card)]
    for host, card in known:
        for left, right in zip(card, host, strict=True):
            assert torch.equal(left.cpu(), right)


def test_what_another_one_left_behind_is_not_read(programs):
    step = step_of(attend)
    caches = decode(step, 2)
    compiled = torch.compile(step, dynamic=True)
    nan = torch.full((1, 4, 1, 64), torch.nan).half().to("spyre")
    mask = torch.ones(1, FIRST + 3, dtype=torch.int64).to("spyre")
    compiled(*caches, nan, nan, nan, mask)  # goes at once
    row = [held(1, 4, 1, 64).to("spyre") for _ in range(3)]
    *longer, found = compiled(*caches, *row, mask)
    wanted = step(*[t.cpu().float() for t in (*caches, *row)], mask.cpu())[2]
    torch.testing.assert_close(found.cpu().float(), wanted, atol=0.03, rtol=0.02)
    caches[0].zero_()  # is another tensor
    assert longer[0].cpu()[:, :, :FIRST].any()
    longer[1].fill_(1)
    assert not caches[1].eq(1).all().cpu()
