# SPDX-License-Identifier: Apache-2.0
"""Operands of several dtypes: the device takes and refuses what PyTorch's CPU kernels do, with
their class and text. Element-wise operators promote, others want one dtype."""

import itertools

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre

HALF, BRAIN, FLOAT, LONG = torch.float16, torch.bfloat16, torch.float32, torch.int64


def t(*sizes):
    """Multiples of 1/8 from 1 to 3, which every format here has; integers are 1 or 2."""
    generator = torch.Generator().manual_seed(len(sizes))
    return torch.randint(9, 24, sizes, generator=generator) / 8


def places(x, count=2):
    return torch.arange(count, device=x.device)


def rows(x):
    return torch.zeros(2, 8, dtype=LONG, device=x.device)


def set_item(x, where, y):
    x = x.clone()
    x[where] = y
    return x


def lstm_cell(x, w, u):
    state = torch.zeros(4, 8, device=x.device, dtype=x.dtype)
    return torch.lstm_cell(x, (state, state), w, u)[0]


def instance_norm(x, w, c):
    return F.instance_norm(x, weight=w, bias=c)


M, N, V = (4, 64), (64, 8), (8,)
ROW, PART, HEADS = (4, 8), (2, 8), (1, 2, 8, 64)
PRODUCTS = {
    "mm": (torch.mm, M, N),
    "matmul": (torch.matmul, (2, 4, 64), N),
    "bmm": (torch.bmm, (2, *M), (2, *N)),
    "mv": (torch.mv, M, (64,)),
    "dot": (torch.dot, V, V),
    "addmm": (torch.addmm, V, M, N),
    "baddbmm": (torch.baddbmm, (2, *ROW), (2, *M), (2, *N)),
    "addbmm": (torch.addbmm, ROW, (2, *M), (2, *N)),
    "addmv": (torch.addmv, (4,), M, (64,)),
    "addr": (torch.addr, ROW, (4,), V),
    "linear": (F.linear, M, (8, 64)),
    "linear with bias": (F.linear, M, (8, 64), V),
    "linear of batches": (F.linear, (2, *M), (8, 64), V),
    "bilinear": (F.bilinear, ROW, (4, 6), (3, 8, 6)),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ik", x, y), M, N),
    "conv1d": (F.conv1d, (2, 4, 16), (8, 4, 3)),
    "conv2d": (F.conv2d, (2, 4, 8, 8), (8, 4, 3, 3), V),
    "conv_transpose2d": (F.conv_transpose2d, (2, 4, 8, 8), (4, 8, 3, 3)),
    "attention": (F.scaled_dot_product_attention, HEADS, HEADS, HEADS),
    "attention with mask": (F.scaled_dot_product_attention, HEADS, HEADS, HEADS, (8, 8)),
    "lstm_cell": (lstm_cell, ROW, (32, 8), (32, 8)),
    "mm into out": (lambda x, y, o: torch.mm(x, y, out=o.clone()), M, N, ROW),
    "addmm_": (lambda x, y, z: x.clone().addmm_(y, z), ROW, M, N),
}
NORMS = {
    "layer_norm": (lambda x, w, c: F.layer_norm(x, (64,), w, c), M, (64,), (64,)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (64,), w), M, (64,)),
    "group_norm": (lambda x, w, c: F.group_norm(x, 2, w, c), (2, 4, 8), (4,), (4,)),
    "batch_norm": (lambda x, m, w, c: F.batch_norm(x, m, m, w, c), (2, 4, 8), (4,), (4,), (4,)),
    "instance_norm": (instance_norm, (2, 4, 8), (4,), (4,)),
}
PARTS = {
    "cat": (lambda x, y: torch.cat([x, y]), ROW, ROW),
    "stack": (lambda x, y: torch.stack([x, y]), ROW, ROW),
    "index_put": (lambda x, y: x.index_put((places(x),), y), ROW, PART),
    "x[i] = y": (lambda x, y: set_item(x, places(x), y), ROW, PART),
    "x[:2] = y": (lambda x, y: set_item(x, slice(2), y), ROW, PART),
    "x[x > 0] = y": (lambda x, y: set_item(x, x > 0, y), ROW, ()),
    "index_copy": (lambda x, y: x.index_copy(0, places(x), y), ROW, PART),
    "index_add": (lambda x, y: x.index_add(0, places(x), y), ROW, PART),
    "index_fill": (lambda x, y: x.index_fill(0, places(x), y), ROW, ()),
    "scatter": (lambda x, y: x.scatter(0, rows(x), y), ROW, PART),
    "scatter_add": (lambda x, y: x.scatter_add(0, rows(x), y), ROW, PART),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), ROW, ROW),
    "masked_fill": (lambda x, y: x.masked_fill(x > 0, y), ROW, ()),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 0, 0, 2), ROW, PART),
    "select_scatter": (lambda x, y: x.select_scatter(y, 0, 1), ROW, V),
    "put": (lambda x, y: x.put(places(x), y), ROW, (2,)),
    "copy_": (lambda x, y: x.clone().copy_(y), ROW, V),
    "gather": (lambda x, i: x.gather(0, i), ROW, PART),
    "index_select": (lambda x, i: x.index_select(0, i), ROW, (2,)),
    "x[i]": (lambda x, i: x[i], ROW, (4,)),
    "embedding": (lambda w, i: F.embedding(i, w), ROW, (3,)),
}
ELEMENTS = {
    "add": (torch.add, ROW, V),
    "add of a number": (torch.add, ROW, ()),
    "sub": (torch.sub, ROW, ROW),
    "mul_": (lambda x, y: x.clone().mul_(y), ROW, V),
    "div": (torch.div, ROW, ROW),
    "maximum": (torch.maximum, ROW, ROW),
    "where": (lambda x, y: torch.where(x > 0, x, y), ROW, ROW),
    "eq": (torch.eq, ROW, ROW),
    "lt": (torch.lt, ROW, ()),
    "lerp": (torch.lerp, ROW, ROW, ROW),
    "addcmul": (torch.addcmul, ROW, ROW, ROW),
    "clamp": (torch.clamp, ROW, ROW, ROW),
    "prelu": (F.prelu, ROW, V),
    "add into out": (lambda x, y, o: torch.add(x, y, out=o.clone()), ROW, ROW, ROW),
    "sum into out": (lambda x, o: torch.sum(x, 0, out=o.clone()), ROW, V),
    "exp into out": (lambda x, o: torch.exp(x, out=o.clone()), ROW, ROW),
    "mse_loss": (F.mse_loss, ROW, ROW),
    "bce": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y), ROW, ROW),
    "cross_entropy": (lambda x, w: F.cross_entropy(x, places(x, 4), w), ROW, V),
    "cdist": (torch.cdist, ROW, (5, 8)),
}
OPERATORS = PRODUCTS | NORMS | PARTS | ELEMENTS


def combinations(count):
    """One dtype at each place among operands of another one."""
    pairs = [(HALF, other) for other in (BRAIN, FLOAT, LONG, torch.bool)] + [(FLOAT, HALF)]
    for (base, other), place in itertools.product(pairs, range(count)):
        yield tuple(other if index == place else base for index in range(count))


def outcome(function, operands):
    try:
        result = function(*operands)
    except Exception as error:  # the class is what is compared
        return error
    return result.cpu()


def check(name, dtypes, compiled):
    function, *sizes = OPERATORS[name]
    operands = [t(*size).to(dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    expected = outcome(function, operands)
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(function)
    actual = outcome(function, [operand.to("spyre") for operand in operands])
    what = f"{name} of {dtypes}: expected {expected!r}, got {actual!r}"
    if isinstance(expected, Exception):
        assert isinstance(actual, RuntimeError if compiled else type(expected)), what
        assert compiled or str(actual).splitlines()[0] == str(expected).splitlines()[0], what
        return
    assert isinstance(actual, torch.Tensor) and actual.dtype == expected.dtype, what
    torch.testing.assert_close(
        actual.double(), expected.double(), atol=0.05, rtol=0.05, msg=lambda text: what + text
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_eager(name):
    with torch_spyre.fallback("silent"):
        for dtypes in combinations(len(OPERATORS[name]) - 1):
            check(name, dtypes, compiled=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("mm", (HALF, FLOAT)),
        ("linear with bias", (HALF, HALF, FLOAT)),
        ("linear with bias", (HALF, BRAIN, HALF)),
        ("conv2d", (HALF, FLOAT, HALF)),
        ("attention", (HALF, HALF, FLOAT)),
        ("layer_norm", (HALF, FLOAT, FLOAT)),
        ("layer_norm", (FLOAT, HALF, HALF)),
        ("group_norm", (HALF, BRAIN, HALF)),
        ("batch_norm", (HALF, HALF, HALF, FLOAT)),
        ("index_put", (HALF, FLOAT)),
        ("index_copy", (FLOAT, HALF)),
        ("sub", (HALF, torch.bool)),
        ("copy_", (HALF, FLOAT)),
        ("bce", (HALF, FLOAT)),
        ("lerp", (HALF, FLOAT, HALF)),
        ("mm into out", (HALF, FLOAT, HALF)),
    ],
)
def test_compiled(name, dtypes):
    with torch_spyre.fallback("silent"):
        check(name, dtypes, compiled=True)


def test_gradients_of_norms_with_float32_parameters():
    """What PyTorch takes stays taken: 16 bits beside float32 parameters, both ways."""
    x, w, b = t(*M).half(), t(64), t(64)
    found = []
    for device in ("cpu", "spyre"):
        leaves = [v.detach().to(device).requires_grad_() for v in (x, w, b)]
        with torch_spyre.fallback("silent"):
            F.layer_norm(leaves[0], (64,), *leaves[1:]).float().square().sum().backward()
        found.append([leaf.grad.cpu() for leaf in leaves])
    for expected, actual in zip(*found, strict=True):
        assert actual.dtype == expected.dtype
        torch.testing.assert_close(actual, expected, atol=0.05, rtol=0.05)


def test_the_kernel_is_asked_once(monkeypatch):
    """A combination that is accepted costs a CPU call for the first shape, none for others."""
    from torch_spyre.eager import operand_dtypes

    asked = []
    runs = operand_dtypes._runs
    monkeypatch.setattr(operand_dtypes, "_accepted", set())
    monkeypatch.setattr(
        operand_dtypes, "_runs", lambda op, *rest: asked.append(op) or runs(op, *rest)
    )
    y = t(3, 5).to("spyre")
    for count in range(1, 4):
        torch.add(t(count, 3, 5).half().to("spyre"), y)
    assert asked == [torch.ops.aten.add.Tensor]
    torch.add(y, y)
    assert len(asked) == 1
