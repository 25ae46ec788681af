# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the card come from its own generator, whoever calls: one operator, a compiled
graph, a graph or an operator that is computed again for its gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "rand": lambda x: torch.rand(64, device=x.device),
    "randn_like": torch.randn_like,
    "bernoulli": lambda x: torch.bernoulli(x * 0.5),
    "normal_": lambda x: x.clone().normal_(),
    "exponential_": lambda x: x.clone().exponential_(),
    "multinomial": lambda x: torch.multinomial(x, 9),
    "randperm": lambda x: torch.randperm(64, device=x.device),
    "rrelu": lambda x: F.rrelu(-x, training=True),
}


def _ways(function, compiled):
    torch._dynamo.reset()
    return torch.compile(function) if compiled else function


@pytest.mark.host(
    "aten.bernoulli",
    "aten.bernoulli_",
    "aten.exponential",
    "aten.multinomial",
    "aten.native_dropout",
    "aten.normal_functional",
    "aten.randn_like",
    "aten.rrelu_with_noise",
    "aten.rrelu_with_noise_functional",
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_the_state_of_the_card_says_what_is_drawn(name, compiled):
    x = torch.ones(4, 64, dtype=torch.float16).to("spyre")
    draw = _ways(DRAWS[name], compiled)
    state, of_host = torch.spyre.get_rng_state(), torch.get_rng_state()
    first, second = draw(x).cpu(), draw(x).cpu()
    torch.spyre.set_rng_state(state)
    again = draw(x).cpu()
    assert torch.equal(first, again) and not torch.equal(first, second)
    assert torch.equal(of_host, torch.get_rng_state())


@pytest.mark.parametrize("compiled", [False, True])
def test_eager_and_compiled_draw_the_same(compiled):
    torch.spyre.manual_seed(7)
    expected = torch.rand(64, device="spyre").cpu()
    torch.spyre.manual_seed(7)
    found = _ways(lambda: torch.rand(64, device="spyre"), compiled)()
    assert torch.equal(found.cpu(), expected)


def test_numbers_of_the_host_within_a_graph_are_the_hosts():
    torch.manual_seed(3)
    expected = torch.rand(64)
    torch.manual_seed(3)
    on_host, x = _ways(lambda x: (torch.rand(64), x + 1), True)(torch.ones(4, device="spyre"))
    assert torch.equal(on_host, expected) and x.cpu().eq(2).all()


@pytest.mark.host("aten.native_dropout", "aten.rand_like")
@pytest.mark.parametrize(
    "reentrant, compiled",
    [(False, False), (False, True), (True, False)],  # reentrant ones break graphs
)
def test_what_is_computed_again_draws_the_same(reentrant, compiled):

    def drawn(x):
        return F.dropout(x, 0.5) * torch.rand_like(x)

    call = _ways(lambda x: checkpoint(drawn, x.exp(), use_reentrant=reentrant) * 2, compiled)
    x = torch.zeros(40, 64, dtype=torch.float16, device="spyre", requires_grad=True)
    for _ in range(2):
        x.grad = None
        result = call(x)
        torch.rand(5, device="spyre")
        result.sum().backward()
        torch.testing.assert_close(x.grad.cpu(), result.detach().cpu(), atol=0, rtol=2**-8)
    assert 0.3 < (x.grad.cpu() == 0).float().mean() < 0.7
