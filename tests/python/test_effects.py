# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs with nodes that give no tensor: effect tokens, checks, higher-order operators;
and every kind of result that is a view."""

import copy

import pytest
import torch
import torch_spyre
from torch.testing._internal.common_utils import freeze_rng_state


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def invertible():
    torch.manual_seed(0)
    return torch.randn(5, 5) + 5 * torch.eye(5)


LINALG = {
    "inv": lambda a, b: torch.linalg.inv(a) * 2,
    "inv twice": lambda a, b: torch.linalg.inv(torch.linalg.inv(a) + b),
    "solve": lambda a, b: torch.linalg.solve(a, b),
    "cholesky": lambda a, b: torch.linalg.cholesky(b),
    "lu_factor": lambda a, b: torch.linalg.lu_factor(a),
    "solve and more": lambda a, b: (torch.linalg.solve(a, b).relu() @ b).sum(0),
    "svdvals": lambda a, b: torch.linalg.svdvals(a),
}


@pytest.mark.host(
    "aten._linalg_solve_ex",
    "aten._linalg_svd",
    "aten.linalg_cholesky_ex",
    "aten.linalg_inv_ex",
    "aten.linalg_lu_factor_ex",
    "aten.mm",
)
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name):
    a = invertible()
    b = a @ a.T + torch.eye(5)
    expected = LINALG[name](a, b)
    actual = torch.compile(LINALG[name])(a.to("spyre"), b.to("spyre"))
    report = torch_spyre.last_report()
    assert report.nodes_on_host > 0 and "interpreted" not in report.text
    single = isinstance(expected, torch.Tensor)
    for got, wanted in zip(
        [actual] if single else actual, [expected] if single else expected, strict=True
    ):
        torch.testing.assert_close(got.cpu(), wanted, atol=1e-3, rtol=1e-3)


@pytest.mark.host("aten.linalg_inv_ex")
def test_a_check_raises_what_pytorch_raises():
    compiled = torch.compile(lambda a: torch.linalg.inv(a) * 2)
    compiled(invertible().to("spyre"))
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        compiled(torch.zeros(5, 5).to("spyre"))


@pytest.mark.host("aten._linalg_svd", "aten.linalg_inv_ex")
def test_a_check_raises_before_arguments_change():
    def function(a, x):
        inverse = torch.linalg.inv(a)
        x.copy_(torch.linalg.svdvals(a))
        return inverse

    x = torch.ones(5).to("spyre")
    with pytest.raises(torch.linalg.LinAlgError):
        torch.compile(function)(torch.zeros(5, 5).to("spyre"), x)
    assert x.cpu().tolist() == [1] * 5


@pytest.mark.host("aten.linalg_inv_ex", "aten.mm")
def test_gradients_through_a_check():
    a = invertible()
    on_card = a.to("spyre").requires_grad_()
    torch.compile(lambda a: torch.linalg.inv(a).sum())(on_card).backward()
    a.requires_grad_()
    torch.linalg.inv(a).sum().backward()
    torch.testing.assert_close(on_card.grad.cpu(), a.grad, atol=1e-3, rtol=1e-3)


def test_batch_norm_with_statistics_of_the_batch():
    reference = torch.nn.BatchNorm2d(8)
    x = (torch.randint(-16, 17, (4, 8, 6, 6)) / 16).requires_grad_()
    module, on_card = copy.deepcopy(reference).half().to("spyre"), x.detach().half().to("spyre")
    on_card.requires_grad_()
    for function, given in ((reference, x), (torch.compile(module), on_card)):
        function(given).pow(3).sum().backward()
    near = {"atol": 0.05, "rtol": 0.05}
    torch.testing.assert_close(on_card.grad.cpu().float(), x.grad, **near)
    torch.testing.assert_close(module.weight.grad.cpu().float(), reference.weight.grad, **near)
    torch.testing.assert_close(module.running_var.cpu().float(), reference.running_var, **near)


def test_checkpointing():
    from torch.utils.checkpoint import checkpoint

    linear = torch.nn.Linear(64, 64).half()
    on_card = copy.deepcopy(linear).to("spyre")
    x = (torch.randint(-16, 17, (4, 64)) / 16).half()

    def function(x):
        return checkpoint(lambda x: torch.relu(on_card(x)), x, use_reentrant=False) * 2

    given = x.to("spyre").requires_grad_()
    torch.compile(function)(given).sum().backward()
    reference = copy.deepcopy(linear).float()
    wanted = x.float().requires_grad_()
    (reference(wanted).relu() * 2).sum().backward()
    torch.testing.assert_close(given.grad.cpu().float(), wanted.grad, atol=2e-2, rtol=2e-2)


@pytest.mark.host("graph")
def test_branches_and_loops():
    from torch._higher_order_ops.while_loop import while_loop

    def branch(x, p):
        return torch.cond(p, lambda x: x + 1, lambda x: x - 1, (x,))

    def loop(x, _p):
        count = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (count, x))[1]

    x = torch.ones(4, 64).half()
    for function, factor in ((branch, 2), (loop, 8)):
        got = torch.compile(function)(x.to("spyre"), torch.tensor(True).to("spyre"))
        assert torch.equal(got.cpu(), x * factor)


VIEWS = {
    "flat": lambda x: x.view(-1),
    "turned": lambda x: x.t(),
    "part": lambda x: x[1:],
    "row": lambda x: x[1],
    "column": lambda x: x[:, 3],
    "repeated": lambda x: x[0].expand(3, 64),
    "strided": lambda x: x.as_strided((2, 2), (64, 1), 1),
    "step": lambda x: x[:, ::2],
    "detached": lambda x: x.detach(),
    "more dims": lambda x: x.unflatten(1, (2, 32)).transpose(0, 1),
    "parts": lambda x: x.split(2)[1],
    "one of many": lambda x: x.unbind(0)[0],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_results_that_are_views(name, dynamic):
    """Of an argument, and of what the graph computes."""
    view = VIEWS[name]
    compiled = torch.compile(lambda x: (view(x), view(x * 2), x + 1), dynamic=dynamic)
    for rows in (4, 6):
        x = (torch.randint(-16, 17, (rows, 64)) / 16).half()
        on_card = x.to("spyre")
        of_argument, of_result, _more = compiled(on_card)
        assert torch.equal(of_argument.cpu(), view(x))
        assert torch.equal(of_result.cpu(), view(x * 2))
        assert of_argument.stride() == view(x).stride()
        assert of_result.stride() == view(x).stride()
        assert of_argument.untyped_storage().data_ptr() == on_card.untyped_storage().data_ptr()


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bool])
def test_empty_permuted(dtype):
    def function(x):
        empty = torch.empty_permuted((2, 3, 4), (0, 2, 1), dtype=dtype, device=x.device)
        return empty, torch.empty_permuted((2, 3), (1, 0), dtype=dtype, device=x.device).fill_(1)

    empty, ones = torch.compile(function)(torch.ones(3).half().to("spyre"))
    assert empty.shape == (2, 3, 4) and empty.stride() == (12, 1, 3) and empty.dtype == dtype
    assert torch.equal(ones.cpu(), torch.ones(2, 3, dtype=dtype)) and ones.stride() == (1, 2)


@pytest.mark.host("aten.bernoulli_", "aten.bernoulli")
def test_states_of_generators_beside_compiled_code():
    """Dynamo leaves the functions alone that read and set the state of the card's generator."""
    x = torch.rand(3, 4).half().to("spyre")

    def draw(x):
        with freeze_rng_state():
            torch.manual_seed(7)
            return torch.bernoulli(x)

    before = torch.spyre.get_rng_state()
    first, second = torch.compile(draw)(x), draw(x)
    assert torch.equal(first.cpu(), second.cpu())
    assert torch.equal(torch.spyre.get_rng_state(), before)
