# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre.paged_attention on the card against its definition."""

import pytest
import torch
import torch_spyre

CLOSE = {"rtol": 0.02, "atol": 0.01}


def _arguments(batch, queries, heads, key_heads, width, cached, slots=192):
    shape = (batch, queries, key_heads, width)
    return [
        torch.randn(batch, queries, heads, width).half(),
        torch.randn(shape).half(),
        torch.randn(shape).half(),
        torch.randn(slots, key_heads * width).half(),
        torch.randn(slots, key_heads * width).half(),
        torch.randint(0, slots, (batch, cached)),
        torch.rand(batch, queries, cached) < 0.6,
        torch.rand(batch, queries, queries) < 0.6,
        width**-0.5,
    ]


def _on_card(arguments, **options):
    def to_card(value):
        return value.to("spyre") if isinstance(value, torch.Tensor) else value

    compiled = torch.compile(torch.ops.spyre.paged_attention, dynamic=False)
    options = {name: to_card(value) for name, value in options.items()}
    return compiled(*map(to_card, arguments), **options).cpu()


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 4, 4, 64, 64),  # decode
        (3, 1, 8, 2, 64, 128),  # decode of a batch, grouped queries
        (1, 64, 4, 2, 64, 128),  # a chunk of a prompt
        (2, 5, 6, 3, 32, 77),  # heads narrower than a stick
        (4, 1, 4, 1, 128, 64),
    ],
)
@pytest.mark.parametrize("with_sinks", [False, True])
def test_the_card_computes_the_definition(sizes, with_sinks):
    torch._dynamo.reset()
    arguments = _arguments(*sizes)
    if with_sinks:
        arguments.append(torch.randn(sizes[2]).half())
    expected = torch.ops.spyre.paged_attention(*arguments)
    torch.testing.assert_close(_on_card(arguments), expected, **CLOSE)


@pytest.mark.parametrize("sizes", [(3, 1, 8, 2, 64, 128), (1, 64, 4, 2, 64, 128)])
def test_keys_and_values_of_eight_bits(sizes):
    torch._dynamo.reset()
    arguments = _arguments(*sizes)
    for i in range(1, 5):
        arguments[i] = arguments[i].to(torch.float8_e4m3fn)
    scales = {name: 0.5 + torch.rand(sizes[0]) for name in ("key_scale", "value_scale")}
    expected = torch.ops.spyre.paged_attention(*arguments, **scales)
    torch.testing.assert_close(_on_card(arguments, **scales), expected, **CLOSE)


def _turned(x, angles):
    """The rotary embedding of foundation-model-stack."""
    pairs = x.float().unflatten(-1, (2, 32)).unsqueeze(-3)
    return (pairs * angles).sum(-2).flatten(3).half()


@pytest.mark.parametrize("batch, queries", [(8, 1), (1, 64)])
def test_the_size_of_the_cache_does_not_matter(batch, queries):
    """Only rows that are read move: also where the queries come in halves of a stick."""

    def f(query, key, *rest):
        query, key = (_turned(x, rest[-1]) for x in (query, key))
        return torch.ops.spyre.paged_attention(query, key, *rest[:-1]), key.flatten(2)

    moved = set()
    for slots in (1024, 16384):
        torch._dynamo.reset()
        arguments = [*_arguments(batch, queries, 8, 4, 64, 128, slots), torch.rand(2, 2, 32)]
        card = [a.to("spyre") if isinstance(a, torch.Tensor) else a for a in arguments]
        result = torch.compile(f, dynamic=False, options={"default_results": True})(*card)
        for ours, theirs in zip(result, f(*arguments), strict=True):
            torch.testing.assert_close(ours.cpu(), theirs, **CLOSE)
        moved.add(torch_spyre.last_report().bytes)
    rows = 2 * batch * 128 * 4 * 64 * 2  # keys and values that are read
    assert len(moved) == 1 and moved.pop() < rows * (1.2 if queries == 1 else 6)


def test_a_query_that_sees_nothing_is_zero():
    arguments = _arguments(2, 3, 4, 2, 64, 64)
    for mask in arguments[6:8]:
        mask[0] = False
    result = _on_card(arguments)
    assert result[0].abs().max() == 0 and result[1].abs().max() > 0
    assert torch.ops.spyre.paged_attention(*arguments)[0].abs().max() == 0


def test_the_definition_is_attention():
    """Against PyTorch's attention: a causal sequence, half of it in the cache."""
    width, length = 64, 32
    q, k, v = (torch.randn(1, length, 4, width) for _ in range(3))
    half = length // 2
    rows = torch.randperm(100)[:half]
    tables = [torch.zeros(100, 4 * width) for _ in range(2)]
    for table, x in zip(tables, (k, v), strict=True):
        table[rows] = x[0, :half].flatten(1)
    fresh = torch.ones(half, half).tril().bool().unsqueeze(0)
    seen = torch.ones(1, half, half).bool()
    result = torch.ops.spyre.paged_attention(
        q[:, half:], k[:, half:], v[:, half:], *tables, rows.unsqueeze(0), seen, fresh, 0.125
    )
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, scale=0.125
    ).transpose(1, 2)[:, half:]
    torch.testing.assert_close(result, expected)


@pytest.mark.host("spyre.paged_attention")
def test_a_row_outside_of_the_cache_is_a_fault():
    arguments = _arguments(1, 1, 4, 2, 64, 64)
    arguments[5][0, 3] = 192
    with pytest.raises(RuntimeError, match="row|192|index"):
        _on_card(arguments)


def test_it_is_one_segment_of_the_card():
    arguments = _arguments(2, 1, 4, 2, 64, 64)
    torch._dynamo.reset()
    _on_card(arguments)
    assert "0 on the host, 1 segments" in str(torch_spyre.last_report())
