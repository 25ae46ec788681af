# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors of the device beside those of the CPU: arithmetic runs on the host and says so."""

import pytest
import torch
import torch_spyre

DEVICE = "spyre"


def _sparse(device):
    places = torch.tensor([[0, 1, 1, 3], [1, 2, 2, 0]])
    return torch.sparse_coo_tensor(places, torch.tensor([1.0, -2.0, 5.0, 4.0]), (4, 4)).to(device)


def _embedded(make, optimizer, device):
    """Weights after two steps on sparse gradients."""
    torch.manual_seed(0)
    module = make().to(device)
    step = optimizer(module.parameters(), lr=0.1)
    for rows in ([1, 2, 1], [3, 1, 9]):
        step.zero_grad()
        module(torch.tensor([rows], device=device)).square().sum().backward()
        assert module.weight.grad.is_sparse
        step.step()
    return module.weight.detach()


def _gradient_of_product(s, x):
    y = x.clone().requires_grad_()
    torch.sparse.mm(s, y).square().sum().backward()
    return y.grad


def _accumulated(s, x):
    weight = torch.ones_like(x).requires_grad_()
    for rows in ([0, 1], [1, 3]):
        torch.nn.functional.embedding(
            torch.tensor(rows, device=x.device), weight, sparse=True
        ).sum().backward()
    return weight.grad


CASES = {
    "coalesce": lambda s, x: s.coalesce(),
    "dense": lambda s, x: s.to_dense(),
    "sparse again": lambda s, x: x.to_sparse() * 3,
    "mm": lambda s, x: torch.sparse.mm(s, x),
    "mm of two": lambda s, x: torch.sparse.mm(s, s),
    "matmul": lambda s, x: s.t() @ x,
    "addmm": lambda s, x: torch.sparse.addmm(x, s, x),
    "mv": lambda s, x: s.mv(x[0]),
    "mul": lambda s, x: s * 2,
    "mul of a dense one": lambda s, x: x * s,
    "div": lambda s, x: s / 2,
    "add": lambda s, x: s + s,
    "add in place": lambda s, x: s.add_(s),
    "add to a dense one": lambda s, x: x.clone().add_(s, alpha=0.5),
    "zero": lambda s, x: s.zero_(),
    "copy": lambda s, x: torch.empty_like(s).copy_(s * 2),
    "copy from the host": lambda s, x: torch.zeros_like(s).copy_(_sparse("cpu")),
    "sum": lambda s, x: s.sum(),
    "sum of rows": lambda s, x: torch.sparse.sum(s, 0),
    "norm": lambda s, x: s.norm(),
    "softmax": lambda s, x: torch.sparse.softmax(s, 1),
    "mask": lambda s, x: x.sparse_mask(s.coalesce()),
    "row": lambda s, x: s.coalesce()[1],
    "index_select": lambda s, x: s.index_select(0, torch.tensor([1, 3], device=x.device)),
    "cat": lambda s, x: torch.cat([s, s]),
    "transpose": lambda s, x: s.transpose(0, 1),
    "permute": lambda s, x: s.permute(1, 0),
    "unsqueeze": lambda s, x: s.unsqueeze(0),
    "abs": lambda s, x: s.coalesce().abs(),
    "neg": lambda s, x: -s,
    "relu": lambda s, x: torch.relu(s.coalesce()),
    "half": lambda s, x: s.half(),
    "nan_to_num": lambda s, x: s.coalesce().nan_to_num(),
    "empty": lambda s, x: torch.sparse_coo_tensor(size=(4, 4), device=x.device) + s,
    "gradient": _gradient_of_product,
    "gradients add up": _accumulated,
    "SparseAdam": lambda s, x: _embedded(
        lambda: torch.nn.Embedding(10, 4, sparse=True), torch.optim.SparseAdam, x.device
    ),
    "SGD": lambda s, x: _embedded(
        lambda: torch.nn.EmbeddingBag(10, 4, sparse=True, mode="sum"), torch.optim.SGD, x.device
    ),
    "Adagrad": lambda s, x: _embedded(
        lambda: torch.nn.Embedding(10, 4, sparse=True), torch.optim.Adagrad, x.device
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name):
    results = {}
    for device in ("cpu", DEVICE):
        x = torch.arange(16.0, device=device).reshape(4, 4) - 5
        with torch_spyre.fallback("silent"):
            results[device] = CASES[name](_sparse(device), x)
    got, expected = results[DEVICE], results["cpu"]
    assert got.device.type == DEVICE
    assert (got.layout, got.dtype, got.shape) == (expected.layout, expected.dtype, expected.shape)
    if got.is_sparse:
        assert got.is_coalesced() == expected.is_coalesced()
        got, expected = got.cpu().to_dense(), expected.to_dense()
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
@pytest.mark.parametrize("value", [0, 1])
def test_one_number_without_dims(dtype, value):
    x = torch.tensor(value).to(dtype)
    with torch_spyre.fallback("silent"):
        assert x.to(DEVICE).to_sparse().to_dense().cpu().equal(x)


def test_the_host_says_that_it_computes():
    with torch_spyre.fallback("warn"), pytest.warns(torch_spyre.FallbackWarning, match="sparse"):
        torch.sparse.sum(_sparse(DEVICE), 1)
    with torch_spyre.fallback("error"), pytest.raises(torch_spyre.FallbackError, match="sparse"):
        torch.sparse.sum(_sparse(DEVICE), 0)


def test_wrong_calls_keep_pytorch_s_errors():
    s = _sparse(DEVICE)
    with torch_spyre.fallback("silent"):
        with pytest.raises(RuntimeError, match="mat1|size|shape"):
            torch.sparse.mm(s, torch.ones(3, 2, device=DEVICE))
        with pytest.raises(RuntimeError, match="same device"):
            torch.sparse.mm(s, torch.ones(4, 2))
        with pytest.raises(RuntimeError, match="dense and sparse"):
            s.copy_(torch.ones(4, 4, device=DEVICE))
    assert torch.equal(s.cpu().to_dense(), _sparse("cpu").to_dense())


def _compressed(layout):
    blocks = {"blocksize": (2, 2)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
    return torch.eye(4).to_sparse(layout=layout, **blocks)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(
    "make",
    [
        *(
            pytest.param(lambda of=layout: _compressed(of).to("spyre"), id=str(layout))
            for layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
        ),
        lambda: torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], device="spyre"),
        lambda: torch.eye(4, device="spyre").to_sparse_csr(),
        lambda: torch.empty(2, 2, layout=torch.sparse_csr, device="spyre"),
        lambda: _compressed(torch.sparse_csr) @ torch.ones(4, 4, device="spyre"),
    ],
)
def test_compressed_layouts_are_refused_where_they_are_made(make):
    refused = pytest.raises(NotImplementedError, match=r"sparse_coo only; .* or to_dense\(\)")
    with torch_spyre.fallback("silent"), refused:
        make()
