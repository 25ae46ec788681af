# SPDX-License-Identifier: Apache-2.0
"""Integers of 8 and 16 bits are computed on the card: exact, modulo 2^bits, in PyTorch's dtypes."""

import pytest
import torch
import torch_spyre

OPERATORS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "negated": lambda x, _y: -x,
    "number": lambda x, _y: x + 100,
    "bits": lambda x, y: (x & y) ^ (x | ~y),
    "comparison": lambda x, y: (x == y) | (x < y),
    "where": lambda x, y: torch.where(x > 3, x, y),
    "clamp": lambda x, y: torch.maximum(x, y).clamp(2, 5),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "sum": lambda x, _y: x.sum(),
    "cumsum": lambda x, _y: x.cumsum(-1),
    "extremes": lambda x, _y: x.amax(-1) - x.amin(-1),
    "place": lambda x, _y: x.argmax(-1),
    "any": lambda x, _y: (x & 64).any(-1),
    "sort": lambda x, _y: x.sort(-1).values,
    "topk": lambda x, _y: x.topk(3).values,
    "gather": lambda x, y: x.gather(1, y.long() & 31),
    "scatter": lambda x, y: x.scatter(1, y[:, :1].long() & 31, 5),
    "masked": lambda x, y: x.masked_fill(y > 2, 1),
    "strided": lambda x, _y: x[1:, ::2].contiguous().flip(0),
    "from int32": lambda x, _y: (x.int() * 77).to(x.dtype),
    "from bool": lambda x, y: (x > y).to(x.dtype) + x,
    "to bool": lambda x, _y: x.bool(),
    "with int32": lambda x, y: x + y.int(),
    "with uint8": lambda x, y: x + y.to(torch.uint8),
    "counted": lambda x, _y: x[:, :40] + torch.arange(40, dtype=x.dtype, device=x.device),
    "as half": lambda x, _y: (x & 127).half() * 0.5,
}


def results(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [operator(x, y) for operator in OPERATORS.values()]


@pytest.fixture(params=[torch.uint8, torch.int8, torch.int16], ids=str)
def operands(request: pytest.FixtureRequest) -> list[torch.Tensor]:
    """Two [4, 70] of the whole range."""
    ends = torch.iinfo(request.param)
    torch.manual_seed(5)
    return [torch.randint(ends.min, ends.max + 1, (4, 70)).to(request.param) for _ in range(2)]


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_as_pytorch(operands: list[torch.Tensor], is_compiled: bool) -> None:
    torch._dynamo.reset()
    function = torch.compile(results, fullgraph=True) if is_compiled else results
    card = [tensor.to("spyre") for tensor in operands]
    with torch_spyre.fallback("error"):
        actual = function(*card)
    for name, found, expected in zip(OPERATORS, actual, results(*operands), strict=True):
        assert found.device.type == "spyre" and found.dtype == expected.dtype, name
        assert torch.equal(found.cpu(), expected), name
    for tensor, given in zip(card, operands, strict=True):
        assert torch.equal(tensor.cpu(), given)


def test_in_place_and_out(operands: list[torch.Tensor]) -> None:
    x, y = operands
    card, other = (tensor.to("spyre") for tensor in operands)
    with torch_spyre.fallback("error"):
        card += other
        card[:, 2:5] = 7
        torch.add(card, other, out=other)
    x = x + y
    x[:, 2:5] = 7
    assert torch.equal(card.cpu(), x) and torch.equal(other.cpu(), x + y)


def test_a_linear_layer_with_int8_weights_is_one_segment() -> None:
    """Weight-only quantisation: the weight is widened where it is read."""
    weight = torch.randint(-128, 128, (48, 64), dtype=torch.int8)
    scale, x = torch.rand(48, 1).half() / 64, torch.randn(5, 64).half()

    def linear(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, weight.to(x.dtype) * scale)

    with torch_spyre.fallback("error"):
        actual = torch.compile(linear)(*(tensor.to("spyre") for tensor in (x, weight, scale)))
    expected = linear(x.float(), weight, scale.float())
    torch.testing.assert_close(actual.cpu().float(), expected, rtol=2e-2, atol=5e-2)
    assert "1 segments" in str(torch_spyre.compile_reports()[-1])


def put_rows(x, i, y):
    return x.index_put((i,), y, accumulate=True)


def multiply_rows(x, i, y):
    return x.index_reduce(0, i, y, "prod")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.uint8])
@pytest.mark.parametrize(
    "function", [lambda x, i, y: x.index_add(0, i, y), put_rows, multiply_rows],
    ids=["index_add", "index_put", "index_reduce"],
)  # fmt: skip
def test_few_of_many_rows_add_up_alone(function, dtype, compiled) -> None:
    info = torch.iinfo(dtype)
    x, y = (torch.randint(info.min, info.max + 1, (n, 128), dtype=dtype) for n in (1024, 48))
    i = torch.randint(0, 1024, (48,))
    i[7], i[31], i[40] = i[3], i[3], i[12]
    expected = function(x, i, y)
    torch._dynamo.reset()
    called = torch.compile(function, dynamic=False) if compiled else function
    operands = [tensor.to("spyre") for tensor in (x, i, y)]
    assert torch.equal(called(*operands).cpu(), expected)
    if compiled:
        report = torch_spyre.last_report()
        torch.compile(lambda x, i, y: x.index_copy(0, i, y), dynamic=False)(*operands)
        # All of the table would be converted to 32 bits and back.
        assert report.card_us < torch_spyre.last_report().card_us + 4
