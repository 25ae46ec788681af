# SPDX-License-Identifier: Apache-2.0
"""Products with the weights of experts in graphs of foundation-model-stack, on the card."""

import pytest
import torch
import torch_spyre
from torch_spyre.sendnn import experts


@torch.library.custom_op("moe::moe_mm", mutates_args=())
def moe_mm(
    tokens: torch.Tensor,
    weights: torch.Tensor,
    chosen: torch.Tensor,
    laid_out: torch.Tensor,
    topk: int,
    padding: int,
) -> torch.Tensor:
    """In float32; `laid_out` is for a kernel that computes blocks."""
    each = tokens.float().repeat_interleave(topk, 0)
    own = weights.float()[chosen.flatten()]
    found = (own @ each.unsqueeze(-1)).squeeze(-1).to(tokens.dtype)
    return found.reshape(*chosen.shape, weights.shape[1])


@moe_mm.register_fake
def _(tokens, weights, chosen, laid_out, topk, padding):
    return tokens.new_empty(*chosen.shape, weights.shape[1])


def feed_forward(x, first, second, gate):
    """With two experts for each token, as foundation-model-stack has it."""
    scores, chosen = (x @ gate).float().softmax(-1).topk(2)
    counted = torch.zeros(len(x), 4, dtype=chosen.dtype).scatter_(1, chosen, 1).sum(0)
    laid_out = torch.zeros(9, dtype=chosen.dtype).scatter_add_(0, counted % 9, counted).cumsum(0)
    h = moe_mm(x, first, chosen, laid_out, 2, 16)
    h = torch.nn.functional.silu(h).flatten(0, 1)
    h = moe_mm(h, second, chosen, laid_out, 1, 16)
    return (h * scores.unsqueeze(-1).to(h.dtype)).sum(1)


def operands(count):
    torch.manual_seed(count)
    sizes = ((count, 64), (4, 192, 64), (4, 64, 192), (64, 4))
    return [torch.randn(size).half() / size[-1] ** 0.5 for size in sizes]


@pytest.mark.parametrize("count", [2, 40])  # weights are gathered for up to two tokens
def test_experts_are_on_the_card(count):
    torch._dynamo.reset()
    torch_spyre.reset_fallback_report()
    given = operands(count)
    found = torch.compile(feed_forward, backend="sendnn", dynamic=False)(*given)
    assert not torch_spyre.fallback_report()
    torch.testing.assert_close(found, feed_forward(*given), atol=2e-3, rtol=2e-2)


def test_a_symbolic_count_of_tokens():
    torch._dynamo.reset()
    torch_spyre.reset_fallback_report()
    compiled = torch.compile(feed_forward, backend="sendnn", dynamic=True)
    for count in (3, 40, 7):
        given = operands(count)
        expected = feed_forward(*given)
        torch.testing.assert_close(compiled(*given), expected, atol=2e-3, rtol=2e-2)
    assert not torch_spyre.fallback_report()


def test_few_products_read_their_experts_only():
    """Of 64 experts a token reads two."""
    tokens, weights, chosen = torch.zeros(1, 64), torch.zeros(64, 128, 64), torch.tensor([[5, 9]])
    compiled = torch.compile(experts.products)
    compiled(*(t.half().to("spyre") if t.is_floating_point() else t.to("spyre")
               for t in (tokens, weights, chosen)))  # fmt: skip
    assert torch_spyre.last_report().bytes < 4 * weights[:2].numel() * 2
