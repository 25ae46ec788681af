# SPDX-License-Identifier: Apache-2.0
"""Higher-order operators in compiled graphs: flex attention, and operators whose course depends on
data."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

DEVICE = "spyre"


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def halves(*shape):
    return (torch.randint(-16, 17, shape) / 16).half()


# --- Operators whose course depends on data


def chosen(x):
    y = torch.cond(x.sum() > 0, lambda x: torch.relu(x) * 2, lambda x: x - 1, (x + 0.5,))
    return y * 0.5


def nested(x):
    def inner(x):
        return torch.cond(x[0, 0] > 0, lambda x: x + 3, lambda x: x - 3, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x * 2, (x,))


def doubled(x):
    def body(i, x):
        return i + 1, x * 2

    count = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda i, x: (i < 4) & (x.abs().amax() < 9), body, (count, x))[1]


def recurrent(x):
    def step(state, row):
        state = torch.tanh(state + row)
        return state, state * 2

    return scan(step, torch.zeros_like(x[0]), x, dim=0)


def summed(x):
    return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")


@pytest.mark.parametrize("function", [chosen, nested, doubled, recurrent, summed])
@pytest.mark.parametrize("sign", [1, -1])
def test_programs_between_and_inside(function, sign):
    x = halves(5, 64).abs() * sign
    before = len(torch_spyre.compile_reports())
    got = torch.compile(function)(x.to(DEVICE))
    torch.testing.assert_close(
        torch.utils._pytree.tree_map(lambda t: t.cpu().float(), got),
        function(x.float()),
        atol=1e-2,
        rtol=1e-2,
    )
    made = torch_spyre.compile_reports()[before:]
    assert made and not any(report.interpreted for report in made)


def test_bodies_compile_once():
    x = halves(5, 64).to(DEVICE)
    compiled = torch.compile(recurrent)
    compiled(x)
    before = len(torch_spyre.compile_reports())
    for _ in range(3):
        compiled(x)
    assert len(torch_spyre.compile_reports()) == before


def test_nested_regions_are_part_of_the_graph():
    region = torch.compiler.nested_compile_region(lambda x: torch.relu(x) * 2 + 1)
    x = halves(4, 64)
    got = torch.compile(lambda x: region(region(x)))(x.to(DEVICE))
    assert torch.equal(got.cpu(), (x.relu() * 2 + 1) * 2 + 1)


def test_gradients_go_through_a_branch():
    def loss(x):
        return torch.cond(x.sum() > 0, lambda x: x * x, lambda x: -x, (x,)).sum()

    x = halves(4, 64).abs()
    on_card = x.to(DEVICE).requires_grad_()
    torch.compile(loss)(on_card).backward()
    assert torch.equal(on_card.grad.cpu(), 2 * x)


# --- Flex attention


def causal(b, h, i, j):
    return i >= j


def distance(score, b, h, i, j):
    return score - 0.125 * (i - j)


def queries(heads=2, length=128):
    return halves(2, 2, length, 64), *(halves(2, heads, length, 64) for _ in range(2))


def expected(q, k, v, bias=0.0, mask=None):
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    mask = torch.zeros(q.shape[2], k.shape[2]) if mask is None else mask
    return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), mask + bias)


def lower_triangle(length):
    return torch.full((length, length), -torch.inf).triu(1)


def slopes(length):
    place = torch.arange(length)
    return -0.125 * (place[:, None] - place)


def attention(q, k, v, **options):
    return torch.compile(flex_attention)(*(t.to(DEVICE) for t in (q, k, v)), **options)


def near(got, wanted, bound=1e-2):
    torch.testing.assert_close(got.cpu().float(), wanted, atol=bound, rtol=bound)


@pytest.mark.host("aten._index_put_impl_")  # in create_block_mask
def test_masks_and_scores():
    q, k, v = queries()
    near(attention(q, k, v), expected(q, k, v))
    near(attention(q, k, v, score_mod=distance), expected(q, k, v, slopes(128)))
    mask = create_block_mask(causal, None, None, 128, 128, device=DEVICE)
    near(
        attention(q, k, v, score_mod=distance, block_mask=mask),
        expected(q, k, v, slopes(128), lower_triangle(128)),
    )


def test_grouped_heads_and_captured_tensors():
    q, k, v = queries(heads=1)
    bias = halves(2)
    on_card = bias.to(DEVICE)

    def of_head(score, b, h, i, j):
        return score + on_card[h]

    got = attention(q, k, v, score_mod=of_head, enable_gqa=True)
    near(got, expected(q, k, v, bias.float()[:, None, None]))


def test_sums_are_returned_when_asked_for():
    q, k, v = queries()
    _, aux = attention(q, k, v, return_aux=AuxRequest(lse=True))
    scores = q.float() @ k.float().transpose(-2, -1) / 8
    near(aux.lse, scores.logsumexp(-1))


@pytest.mark.host("aten._index_put_impl_")
def test_gradients_of_flex_attention():
    given = queries()
    on_card = [t.to(DEVICE).requires_grad_() for t in given]
    on_host = [t.float().requires_grad_() for t in given]
    mask = create_block_mask(causal, None, None, 128, 128, device=DEVICE)
    torch.compile(flex_attention)(*on_card, block_mask=mask).sum().backward()
    expected(*on_host, mask=lower_triangle(128)).sum().backward()
    for got, wanted in zip(on_card, on_host, strict=True):
        near(got.grad, wanted.grad, 3e-2)


def test_other_devices_are_asked_as_before():
    with pytest.raises(ValueError, match="meta device"):
        flex_attention(*(torch.empty(1, 1, 16, 16, device="meta") for _ in range(3)))
