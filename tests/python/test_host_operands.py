# SPDX-License-Identifier: Apache-2.0
"""Operands on the host beside tensors of the card: indices, masks, numbers."""

import itertools

import pytest
import torch
import torch_spyre

INDEX = torch.tensor([3, 1, -2, 3])
MASK = torch.tensor([True, False, True, True] * 4)
MASK_2D = torch.arange(16 * 8).reshape(16, 8) % 3 == 0


def written(at, value):
    def write(x):
        x = x.clone()
        x[at] = value.to(x.device) if value.dim() else value
        return x

    return write


ONE = torch.tensor(1.5, dtype=torch.float16)
ROWS = torch.arange(4 * 8).reshape(4, 8).half()
CASES = {
    "rows": lambda x: x[INDEX],
    "int32": lambda x: x[INDEX.int()],
    "columns": lambda x: x[:, INDEX],
    "two": lambda x: x[INDEX[:, None], INDEX],
    "beside one of the card": lambda x: x[INDEX.to(x.device), INDEX],
    "made here": lambda x: x[(torch.arange(6) * 2 + 1).flip(0) % 5],
    "put": written(INDEX[:3], ROWS[:3]),
    "put number": written(INDEX, ONE),
    "put at mask": written(MASK, ONE),
    "put at mask of elements": written(MASK_2D, ONE),
    "fill": lambda x: x.clone().fill_(ONE),
    "masked_fill": lambda x: x.masked_fill(x > 0, ONE),
    "index_fill": lambda x: x.index_fill(0, INDEX[:2].to(x.device), ONE.float()),
    "where": lambda x: torch.where(x > 0, x, ONE),
}
MASKED = {
    "mask": lambda x: x[MASK],
    "mask of elements": lambda x: x[MASK_2D],
    "mask and index": lambda x: x[MASK, torch.zeros(12, dtype=torch.int64)],
}


def check(f, run):
    x = torch.randn(16, 8).half().to("spyre")
    expected = f(x.cpu())
    for _again in range(3):  # of an equal call the program is known
        with torch_spyre.fallback("error"):
            actual = run(x)
        assert actual.device.type == "spyre" and torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("name", CASES | MASKED)
def test_eager(name):
    f = (CASES | MASKED)[name]
    check(f, f)


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    torch._dynamo.reset()
    check(CASES[name], torch.compile(CASES[name], fullgraph=True))
    assert torch_spyre.last_report().nodes_on_host == 0, torch_spyre.last_report().text


def test_a_tensor_is_not_written_into_repeated_elements():
    x = torch.ones(3, dtype=torch.float16).to("spyre").expand(3, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.fill_(ONE)


def test_what_mixes_devices_otherwise_is_refused():
    x = torch.randn(16, 8).half()
    for wrong in (
        lambda: x[INDEX.to("spyre")],
        lambda: x.to("spyre").index_select(0, INDEX),
        lambda: x.to("spyre").index_put((INDEX,), ROWS),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            wrong()
    for wrong in (lambda: x[INDEX.to("spyre")], lambda: x.index_put_((INDEX.to("spyre"),), ROWS)):
        with pytest.raises(RuntimeError, match=r"indices should be either on cpu or .* \(cpu\)"):
            wrong()
    ones, number = torch.ones(3, device="spyre"), torch.tensor(1.0)
    for wrong in (lambda: torch.sum(ones, 0, out=number), lambda: number.add_(ones[0])):
        with pytest.raises(RuntimeError, match="same device"):
            wrong()  # a number of the host is read, not written
    with pytest.raises(IndexError, match="shape of the mask"):
        x.to("spyre")[MASK[:3]]


def test_nodes_that_see_no_tensor_of_the_card_are_not_counted():
    def mixed(x, table):
        return x + 1, (table * 2).sum()

    torch._dynamo.reset()
    torch.compile(mixed, fullgraph=True)(torch.ones(4, dtype=torch.float16).to("spyre"), ROWS)
    report = torch_spyre.last_report()
    assert report.nodes_on_card == 1 and report.nodes_on_host == 0 and report.nodes_apart == 2


def test_a_view_is_no_node_of_the_host():
    torch._dynamo.reset()
    x = torch.ones(1, 4, dtype=torch.float16).to("spyre")
    assert torch.compile(lambda x: x.squeeze(0), fullgraph=True)(x).shape == (4,)
    report = torch_spyre.last_report()
    assert (report.nodes_on_host, report.nodes_apart, report.host_ops) == (0, 1, [])


PROMOTED = (torch.float16, torch.float32, torch.int64, torch.int32, torch.bool)
BINARY = {
    "add": torch.add, "mul": torch.mul, "div": torch.true_divide, "maximum": torch.maximum,
    "pow": torch.pow, "eq": torch.eq, "floor_divide": torch.floor_divide,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "where other": lambda x, y: torch.where(y > 0, x, y),
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_tensors_without_dimensions_promote_as_on_the_cpu(name):
    """They are tensors and no numbers: their dtype counts beside others without dimensions."""
    for of_host, of_card, shape in itertools.product(PROMOTED, PROMOTED, [(2, 3), ()]):
        x, y = torch.ones((), dtype=of_host), torch.ones(shape, dtype=of_card)
        try:
            expected = BINARY[name](x, y)
        except RuntimeError as error:  # of a few pairs of dtypes
            with pytest.raises(type(error)):
                BINARY[name](x, y.to("spyre"))
            continue
        with torch_spyre.fallback("silent"):
            actual = BINARY[name](x, y.to("spyre"))
        assert actual.dtype == expected.dtype and torch.equal(actual.cpu(), expected)
