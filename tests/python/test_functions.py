# SPDX-License-Identifier: Apache-2.0
"""Functions of one or two elements, with numbers and with parameters, on the card: 16 bits against
float64, integers exactly; an opfunc of our own each."""

import math

import pytest
import torch
import torch_spyre
from torch.nn import functional as F

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)


def signed(*size):
    return torch.rand(*size) * 6 - 3


def positive(*size):
    return torch.rand(*size) * 3 + 0.25


def unit(*size):
    return torch.rand(*size) * 0.9 + 0.05


UNARY = {
    "frac": (torch.frac, signed), "lgamma": (torch.lgamma, positive), "sinc": (torch.sinc, signed),
    "entr": (torch.special.entr, positive), "erfinv": (torch.erfinv, unit),
    "angle": (torch.angle, signed),
    "logit": (torch.logit, unit), "logit eps": (lambda x: torch.logit(x, 0.125), unit),
    "threshold": (lambda x: F.threshold(x, 0.5, -2.0), signed),
    "hardshrink": (lambda x: F.hardshrink(x, 0.75), signed),
    "softshrink": (lambda x: F.softshrink(x, 0.75), signed),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), signed),
    "leaky_relu 0": (lambda x: F.leaky_relu(x, 0.0), signed),
    "leaky_relu 3": (lambda x: F.leaky_relu(x, 3.0), signed),
    "leaky_relu -1": (lambda x: F.leaky_relu(x, -1.0), signed),
    "elu": (F.elu, signed), "celu": (lambda x: F.celu(x, 0.5), signed), "selu": (F.selu, signed),
    "round 1": (lambda x: torch.round(x, decimals=1), signed),
    "round -2": (lambda x: torch.round(x * 256, decimals=-2), signed),
    "pow 2.5": (lambda x: x**2.5, positive), "pow -1.25": (lambda x: x**-1.25, positive),
    "pow 5": (lambda x: x**5, signed), "pow 1/3": (lambda x: x ** (1 / 3), positive),
    "signbit": (torch.signbit, signed), "isposinf": (torch.isposinf, signed),
    "isneginf": (torch.isneginf, signed), "sgn": (torch.sgn, signed),
}  # fmt: skip

BINARY = {
    "pow": (torch.pow, positive), "atan2": (torch.atan2, signed), "hypot": (torch.hypot, signed),
    "fmod": (torch.fmod, signed), "remainder": (torch.remainder, signed),
    "floor_divide": (torch.floor_divide, signed),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), signed),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), signed),
    "div": (lambda x, y: torch.div(x, y, rounding_mode=None), signed),
    "copysign": (torch.copysign, signed), "logaddexp": (torch.logaddexp, signed),
    "logaddexp2": (torch.logaddexp2, signed), "xlogy": (torch.xlogy, positive),
    "xlog1py": (torch.special.xlog1py, positive), "fmax": (torch.fmax, signed),
    "fmin": (torch.fmin, signed), "heaviside": (torch.heaviside, signed),
}  # fmt: skip

WITH_NUMBER = {
    "fmod": lambda x: torch.fmod(x, 0.75), "remainder": lambda x: x % -0.75,
    "remainder of": lambda x: 2.0 % x, "floor_divide": lambda x: x // 0.75,
    "div floor": lambda x: torch.div(x, 0.75, rounding_mode="floor"),
    "copysign": lambda x: torch.copysign(x, -2.0), "xlogy": lambda x: torch.xlogy(x, 2.0),
    "xlogy of": lambda x: torch.xlogy(2.0, x), "xlog1py": lambda x: torch.special.xlog1py(x, 2.0),
    "xlog1py of": lambda x: torch.special.xlog1py(2.0, x),
}  # fmt: skip

OF_INTEGERS = {
    "floor_divide": lambda x: x // 7, "floor_divide -": lambda x: x // -7,
    "remainder": lambda x: x % 7, "remainder -": lambda x: x % -7,
    "fmod": lambda x: torch.fmod(x, 7),
    "div floor": lambda x: torch.div(x, 7, rounding_mode="floor"),
    "div trunc": lambda x: torch.div(x, 7, rounding_mode="trunc"),
    "and": lambda x: x & 6, "or": lambda x: x | 6, "xor": lambda x: x ^ 6, "not": lambda x: ~x,
    "and of": lambda x: 6 & x, "and both": lambda x: x & (x + 3), "or both": lambda x: x | (x + 3),
    "xor both": lambda x: x ^ (x + 3), "floor": torch.floor, "ceil": torch.ceil,
    "trunc": torch.trunc, "round": torch.round, "bools": lambda x: (x > 0) + (x % 3 == 0),
    "bools, alpha": lambda x: torch.add(x > 0, x % 3 == 0, alpha=False),
}  # fmt: skip


def held(x, dtype):
    """The values as the card holds them."""
    return x.to(dtype).to("spyre").cpu()


def forms(function):
    torch._dynamo.reset()
    yield function
    yield torch.compile(function, dynamic=False)


def check(function, *operands):
    """Eager and compiled against float64: within a unit of the last place; a fallback fails."""
    expected = function(*[x.double() for x in operands])
    places = {torch.float16: 9, torch.bfloat16: 7}[operands[0].dtype]
    for form in forms(function):
        actual = form(*[x.to("spyre") for x in operands]).cpu()
        if not expected.is_floating_point():
            assert torch.equal(actual, expected)
            continue
        torch.testing.assert_close(
            actual.double(), expected, rtol=1.02 * 2.0**-places, atol=2.0**-20, equal_nan=True
        )


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_of_one_element(name, dtype):
    function, numbers = UNARY[name]
    check(function, held(numbers(5, 67), dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_elements(name, dtype):
    function, numbers = BINARY[name]
    check(function, held(numbers(5, 67), dtype), held(numbers(67), dtype))


@pytest.mark.parametrize("name", WITH_NUMBER)
def test_of_an_element_and_a_number(name):
    check(WITH_NUMBER[name], held(positive(5, 67), torch.float16))


@pytest.mark.parametrize("shrink", (F.hardshrink, F.softshrink))
def test_shrinking_of_float32(shrink):
    x = torch.tensor([-3.0, -0.75, -0.5, 0.0, 0.75, 0.7500001, 2.0, math.inf, math.nan])
    for form in forms(lambda x: shrink(x, 0.75)):
        found = form(x.to("spyre")).cpu()
        torch.testing.assert_close(found, shrink(x, 0.75), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("bound", (0.1, 0.3, 0.701, 1.001, 2.3))
def test_shrinking_compares_with_a_number_of_the_dtype(bound):
    """bfloat16's values are all values of the card, so an element may equal the bound exactly."""
    x = torch.tensor([bound, -bound], dtype=torch.bfloat16)
    x = torch.cat([x * f for f in (0.98, 1.0, 1.02)])
    for form in forms(lambda x: F.hardshrink(x, bound)):
        assert torch.equal(form(x.to("spyre")).cpu(), F.hardshrink(x, bound))


@pytest.mark.parametrize("dtype", (torch.int64, torch.int32), ids=str)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_of_integers(name, dtype):
    x = torch.cat([torch.arange(-70, 70), torch.tensor([2**31 - 9, -(2**31) + 9])]).to(dtype)
    for form in forms(OF_INTEGERS[name]):
        assert torch.equal(form(x.to("spyre")).cpu(), OF_INTEGERS[name](x))


def test_ranges_of_quotients_and_bits_keep_a_graph_on_the_card():
    """Products of what has a bound stay within 32 bits."""

    def function(x):
        return (x % 64) * (x // 2**20) + (x & 255) * (torch.fmod(x, 100) | 15)

    x = torch.randint(-(2**31), 2**31, (9, 70))
    for form in forms(function):
        assert torch.equal(form(x.to("spyre")).cpu(), function(x))


def test_ranges_of_casts_have_no_ends():
    """Of floating values nothing is known; bits and quotients of what is cut from them are."""

    def function(x, y):
        whole = x.to(torch.int32)
        return ((whole & 7).to(torch.int64) * y, (whole // 9 % 5).to(torch.int64) * y)

    x, y = torch.rand(5, 70) * 100, torch.arange(70)
    for form in forms(function):
        for actual, expected in zip(
            form(x.to("spyre"), y.to("spyre")), function(x, y), strict=True
        ):
            assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("name", ("sinc", "pow 2.5", "leaky_relu 3", "elu", "threshold", "round 1"))
def test_one_kernel(name):
    function, numbers = UNARY[name]
    torch._dynamo.reset()
    torch.compile(function, dynamic=False)(numbers(5, 67).half().to("spyre"))
    assert torch_spyre.last_report().kernels == 1


PARAMETERS = {
    "remainder": lambda x, s: x % s, "leaky_relu": lambda x, s: F.leaky_relu(x, s),
    "xlogy": torch.xlogy,
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_numbers_are_parameters(name):
    function = PARAMETERS[name]
    x = positive(4, 64).half().to("spyre")
    function(x, 0.25)
    programs = len(torch_spyre.eager.operator_program.programs)
    for n in range(2, 20):
        function(x, n / 32)
    assert len(torch_spyre.eager.operator_program.programs) == programs


@pytest.mark.host("aten.floor_divide", "aten.remainder", "aten.fmod", "aten.div")
def test_integers_divided_by_what_may_be_0_are_the_hosts():
    x = torch.arange(5)
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        assert torch.equal(function(x.to("spyre"), x.to("spyre") + 1).cpu(), function(x, x + 1))
        assert torch.equal(function(x.to("spyre"), -1).cpu(), function(x, -1))
        for zero in (0, torch.zeros(5, dtype=torch.int64).to("spyre")):
            with pytest.raises(RuntimeError, match="ZeroDivision"):
                function(x.to("spyre"), zero)


@pytest.mark.parametrize("name", ("atan2", "hypot", "pow"))
def test_published_opfuncs_alone_refuse_them_by_name(name):
    torch._dynamo.reset()
    x = positive(3, 70).half().to("spyre")
    refusal = pytest.raises(torch_spyre.FallbackError, match=f"{name} is no published opfunc")
    with torch_spyre.config.patch(published_opfuncs=True), refusal:
        torch.compile(BINARY[name][0], dynamic=False)(x, x)
