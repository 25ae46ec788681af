# SPDX-License-Identifier: Apache-2.0
"""Graphs for `sendnn` whose KV cache has eight bits and lies in wrappers with scales.

Operators and wrapper are those of fms-model-optimizer, defined here anew by what they mean.
"""

import pytest
import torch
import torch_spyre
from torch_spyre.sendnn import resident

HEADS, KEY_HEADS, WIDTH, BLOCK, BLOCKS = 4, 2, 64, 64, 12
MODEL, EIGHT = HEADS * WIDTH, torch.float8_e4m3fn
CLOSE = {"rtol": 0.05, "atol": 0.2}  # a rounding to eight bits that goes the other way


class Scaled(torch.Tensor):
    """Eight-bit numbers and a scale for each sequence."""

    @staticmethod
    def __new__(cls, numbers, scale):
        return torch.Tensor._make_wrapper_subclass(
            cls, numbers.size(), dtype=numbers.dtype, device=numbers.device
        )

    def __init__(self, numbers, scale):
        self.numbers, self.scale = numbers, scale

    def __tensor_flatten__(self):
        return ["numbers", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts, _context, _size, _stride):
        return Scaled(parts["numbers"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        raise NotImplementedError(f"{op} of a wrapper")


def _store(key, value, key_cache, value_cache, key_scale, value_scale, slot_mapping):
    given = ((key_cache, key, key_scale), (value_cache, value, value_scale))
    caches = []
    for cache, fresh, scale in given:
        bytes_ = cache.view(torch.uint8).clone().flatten(0, 1)
        rows = (fresh / scale.view(-1, 1, 1, 1).half()).to(EIGHT).view(torch.uint8)
        bytes_[slot_mapping.flatten()] = rows.flatten(0, 1)
        caches.append(bytes_.view(cache.shape).view(EIGHT))
    return tuple(caches)


def _attend(query, key_cache, value_cache, key_scale, value_scale, scale, tkv, left, table):
    result = torch.zeros_like(query)
    queries, group = query.shape[1], query.shape[2] // key_cache.shape[2]
    for b in range(query.shape[0]):
        place = torch.arange(int(left[b]), int(tkv[b]))
        slot = table[b][place // BLOCK] * BLOCK + place % BLOCK
        key, value = (
            (cache.flatten(0, 1).half()[slot] * factor[b]).half()
            .repeat_interleave(group, 1).transpose(0, 1)
            for cache, factor in ((key_cache, key_scale), (value_cache, value_scale))
        )  # fmt: skip
        mask = place[None] <= torch.arange(int(tkv[b]) - queries, int(tkv[b]))[:, None]
        attended = torch.nn.functional.scaled_dot_product_attention(
            query[b].transpose(0, 1), key, value, mask, scale=scale
        )
        result[b] = attended.transpose(0, 1)
    return result


@pytest.fixture(scope="module", autouse=True)
def operators():
    library = torch.library.Library("spyre", "FRAGMENT")
    library.define("scaled_paged_attn_store(Tensor key, Tensor value, Tensor key_cache, Tensor "
                   "value_cache, Tensor key_scale, Tensor value_scale, Tensor slot_mapping) -> "
                   "(Tensor, Tensor)")  # fmt: skip
    library.define("scaled_paged_attn_compute(Tensor query, Tensor key_cache, Tensor value_cache, "
                   "Tensor key_scale, Tensor value_scale, float scale, Tensor current_tkv_mask, "
                   "Tensor left_padded_prompt_mask, Tensor block_table) -> Tensor")  # fmt: skip
    library.impl("scaled_paged_attn_store", _store, "CPU")
    library.impl("scaled_paged_attn_compute", _attend, "CPU")
    library.impl("scaled_paged_attn_store", lambda *a: (a[2].clone(), a[3].clone()), "Meta")
    library.impl("scaled_paged_attn_compute", lambda q, *_: torch.empty_like(q), "Meta")
    yield
    library._destroy()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


class Layer(torch.nn.Module):
    """Scales are the cache's, or of this call's values."""

    def __init__(self, is_scaled):
        super().__init__()
        self.qkv = torch.nn.Linear(MODEL, (HEADS + 2 * KEY_HEADS) * WIDTH)
        self.is_scaled = is_scaled

    def forward(self, x, keys, values, slot_mapping, tkv, left, table):
        q, k, v = self.qkv(x).split([HEADS * WIDTH, KEY_HEADS * WIDTH, KEY_HEADS * WIDTH], -1)
        k, v = (y.unflatten(-1, (KEY_HEADS, WIDTH)) for y in (k, v))
        scales = [keys.scale, values.scale]
        if not self.is_scaled:
            scales = [(y.abs().amax((1, 2, 3)) / 200).clamp(min=1e-5).float() for y in (k, v)]
        stored = torch.ops.spyre.scaled_paged_attn_store(
            k, v, keys.numbers, values.numbers, *scales, slot_mapping
        )
        keys, values = (Scaled(*pair) for pair in zip(stored, scales, strict=True))
        y = torch.ops.spyre.scaled_paged_attn_compute(
            q.unflatten(-1, (HEADS, WIDTH)), keys.numbers, values.numbers, keys.scale,
            values.scale, WIDTH**-0.5, tkv, left, table,
        )  # fmt: skip
        return x + y.flatten(2), keys, values


def _cache(sequences):
    shape = (BLOCKS, BLOCK, KEY_HEADS, WIDTH)
    return [Scaled(torch.zeros(shape).to(EIGHT), torch.full((sequences,), 0.5)) for _ in range(2)]


def _inputs(tables, length, queries):
    last = torch.arange(length - queries, length)
    slots = torch.stack([table[last // BLOCK] * BLOCK + last % BLOCK for table in tables])
    x = torch.randn(len(tables), queries, MODEL).half()
    count = len(tables)
    return x, slots, torch.full((count,), length), torch.zeros(count, dtype=torch.int64), tables


@pytest.mark.parametrize("is_scaled", [True, False])
def test_prompts_and_steps_equal_those_of_the_cpu(is_scaled, refused_rows):
    model = Layer(is_scaled).half().requires_grad_(False)
    compiled = torch.compile(model, backend="sendnn", dynamic=False)
    tables = torch.tensor([[1, 2, 5]])
    host, card = _cache(1), _cache(1)
    for length, queries in ((128, 128), (129, 1), (130, 1)):
        x, *rest = _inputs(tables, length, queries)
        expected, *host = model(x, *host, *rest)
        numbers = [cache.numbers for cache in card]
        result, *card = compiled(x, *card, *rest)
        torch.testing.assert_close(result, expected, **CLOSE)
        for cache, given, other in zip(card, numbers, host, strict=True):
            assert type(cache) is Scaled and cache.numbers is given
            torch.testing.assert_close(cache.scale, other.scale, rtol=0.01, atol=0)
            rows = resident.cache_rows(given).cpu().float().view(given.shape) * cache.scale
            expected = other.numbers.float() * other.scale
            torch.testing.assert_close(rows, expected, rtol=0.13, atol=0.01)  # a step of rounding
    assert "0 on the host" in str(torch_spyre.last_report()) and not refused_rows


def test_a_sequence_that_fills_up_a_batch():
    """Two sequences of the same slots are one if their inputs are the same."""
    model = Layer(True).half().requires_grad_(False)
    compiled = torch.compile(model, backend="sendnn")
    cache, prompt = _cache(2), _inputs(torch.tensor([[1, 2, 5]]), 128, 128)
    two = _inputs(torch.tensor([[1, 2, 5]]), 129, 1)
    two = [t.repeat(2, *[1] * (t.dim() - 1)) for t in two]
    for given in (cache[0].scale, cache[1].scale, *two):
        torch._dynamo.mark_dynamic(given, 0)
    numbers = [c.numbers for c in cache]
    first = [Scaled(n, c.scale[:1]) for n, c in zip(numbers, cache, strict=True)]
    _, *after = model(prompt[0], *first, *prompt[1:])
    after = [Scaled(c.numbers, torch.full((2,), 0.5)) for c in after]
    expected = model(two[0], *after, *two[1:])[0]
    compiled(prompt[0], *first, *prompt[1:])
    torch.testing.assert_close(compiled(two[0], *cache, *two[1:])[0], expected, **CLOSE)
    two[0][1] += 1
    with pytest.raises(ValueError, match="reads a slot that another one writes"):
        compiled(two[0], *cache, *two[1:])
