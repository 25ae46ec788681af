# SPDX-License-Identifier: Apache-2.0
"""Tensors that the host makes of numbers: those of the CPU, from the generator of the card."""

import pytest
import torch
import torch_spyre

F = torch.nn.functional

RANGES = """
torch.arange(7, **o); torch.arange(3, 40, 5, **o); torch.arange(1., 2., 0.25, **o)
torch.eye(5, **o)
torch.arange(5, dtype=torch.float16, **o); torch.eye(3, 7, dtype=torch.int64, **o)
torch.eye(0, **o)
torch.linspace(0, 1, 9, **o); torch.linspace(1, -1, 4, dtype=torch.float16, **o)
torch.arange(0, **o)
torch.logspace(0, 2, 5, **o); torch.tril_indices(4, 5, 1, **o); torch.triu_indices(4, 5, -1, **o)
torch.arange(9, 2, -3, **o); torch.arange(4, dtype=torch.float64, **o)
""".replace("\n", ";").split(";")
RANDOM = """
torch.rand(5, 7, **o); torch.randn(5, 7, dtype=torch.float16, **o); torch.randint(3, 90, (8,), **o)
torch.randint(9, (8,), dtype=torch.int32, **o); torch.randperm(19, **o); torch.rand(0, 3, **o)
torch.normal(1., 2., (3, 4), **o); x.clone().normal_(); x.clone().uniform_(2, 3); torch.rand_like(x)
x.clone().bernoulli_(0.25); x.clone().exponential_(); x.clone().random_(2, 9); x.clone().cauchy_()
x.t().clone().normal_(); x[1:, ::2].normal_().clone(); torch.randn_like(x.t())
x.clone().log_normal_()
x.clone().geometric_(0.5); torch.randint_like(x, 7); F.dropout(x, 0.3)
torch.nn.init.trunc_normal_(x.float(), std=0.1); torch.nn.init.kaiming_uniform_(x.float())
F.alpha_dropout(x, 0.2); F.dropout(x, 0.); F.dropout(x, 1.)
torch.randn(3, dtype=torch.complex64, **o)
""".replace("\n", ";").split(";")


def names(text):
    return [name.strip() for name in text if name.strip()]


def value(expression, device, **options):
    x = (torch.arange(35).reshape(5, 7) % 9 - 4).half().to(device)
    torch.manual_seed(11)
    given = {"x": x, "o": {"device": device, **options}, "F": F, "torch": torch}
    result = eval(expression, given)
    return result, torch.rand(3, device=device)  # what is drawn next


def assert_alike(actual, expected):
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert actual.stride() == expected.stride() and actual.device.type == "spyre"
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("expression", names(RANGES))
def test_ranges(expression):
    with torch_spyre.fallback("error"):
        for _ in range(2):
            assert_alike(value(expression, "spyre")[0], value(expression, "cpu")[0])


@pytest.mark.parametrize("expression", names(RANDOM))
def test_random_numbers_are_those_of_the_cpu(expression):
    expected, behind = value(expression, "cpu")
    with torch_spyre.fallback("error"):
        for _ in range(2):
            actual, after = value(expression, "spyre")
            if expected.dtype is torch.float16 and "dropout" in expression:
                assert torch.equal(actual.cpu() == 0, expected == 0)
                torch.testing.assert_close(actual.cpu(), expected, rtol=2**-9, atol=0)
            elif expected.dtype is torch.float16:  # 16 bits of the card
                torch.testing.assert_close(actual.cpu(), expected, rtol=2**-9, atol=1e-7)
            else:
                assert_alike(actual, expected)
            assert torch.equal(after.cpu(), behind)


def test_a_generator_of_the_program():
    own, cpus = torch.Generator("spyre").manual_seed(3), torch.Generator().manual_seed(3)
    for _ in range(2):
        for draw in (
            lambda g, d: torch.rand(5, generator=g, device=d),
            lambda g, d: torch.randint(9, (5,), generator=g, device=d),
            lambda g, d: torch.randperm(9, generator=g, device=d),
            lambda g, d: torch.empty(4, device=d).normal_(generator=g),
        ):
            assert torch.equal(draw(own, "spyre").cpu(), draw(cpus, "cpu"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.rand(3, device="spyre", generator=torch.Generator()),
        lambda: torch.empty(3, device="spyre").normal_(generator=torch.Generator()),
        lambda: torch.eye(-1, device="spyre"),
        lambda: torch.arange(1, 0, 1, device="spyre"),
        lambda: torch.arange(0, 1, 0, device="spyre"),
        lambda: torch.linspace(0, 1, -3, device="spyre"),
        lambda: torch.randint(0, (3,), device="spyre"),
        lambda: torch.empty(3, device="spyre").uniform_(2, 1),
        lambda: torch.empty(3, device="spyre").expand(4, 3).normal_(),
        lambda: torch.arange(3, device="spyre", pin_memory=True),
        lambda: torch.arange(10**11, device="spyre"),
        lambda: torch.randn(10**11, device="spyre"),
    ],
)
def test_what_cannot_be_made_is_refused(call):
    for _ in range(2):
        with pytest.raises(RuntimeError):
            call()


def test_dropout_is_computed_on_the_card():
    torch_spyre.reset_fallback_report()
    x = torch.ones(64, 64, dtype=torch.float16, device="spyre", requires_grad=True)
    with torch_spyre.fallback("error"):
        y = F.dropout(x, 0.25)
        y.sum().backward()
    kept = (y != 0).cpu()
    assert 0.7 < kept.float().mean() < 0.8
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    (record,) = torch_spyre.fallback_report()
    assert (record.op, record.is_fallback) == ("aten.bernoulli_.float", False)
    assert F.dropout(x, 0.25, training=False) is x
