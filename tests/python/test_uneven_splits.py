# SPDX-License-Identifier: Apache-2.0
"""SPYRE_UNEVEN_SPLITS: the last slice of a loop may be shorter, and no bit of a result changes."""

import pytest
import torch
from torch_spyre import config

FUNCTIONS = {
    "chain": (lambda x: torch.softmax(torch.relu(x.exp()), -1), [(101, 1000)]),
    "matmul": (lambda x, y: x @ y, [(37, 192), (192, 448)]),
    "batches": (lambda x, y: torch.bmm(x, y).tanh(), [(7, 33, 64), (7, 64, 320)]),
    "rows": (lambda x: (x - x.mean(0)).abs().sum(1), [(53, 448)]),
    "transpose": (lambda x: (x.t() * 2).contiguous(), [(67, 448)]),
    "norm": (lambda x: torch.nn.functional.layer_norm(x, (320,)), [(41, 320)]),
    "cat": (lambda x, y: torch.cat([x, y], 0) + 1, [(13, 448), (6, 448)]),
    "attention": (
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
        [(1, 3, 29, 64)] * 3,
    ),
}


def compiled(function, inputs, **settings):
    torch._dynamo.reset()
    with config.patch(settings), torch.no_grad():
        return torch.compile(function, fullgraph=True)(*inputs).cpu()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_bits(name):
    function, shapes = FUNCTIONS[name]
    cores = 4 if list(FUNCTIONS).index(name) % 2 else 32
    torch.manual_seed(7)
    host = [torch.randn(shape, dtype=torch.float16) for shape in shapes]
    inputs = [x.to("spyre") for x in host]
    uneven = compiled(function, inputs, sencores=cores, uneven_splits=True)
    assert torch.equal(uneven, compiled(function, inputs, sencores=cores))
    want = function(*(x.float() for x in host))
    torch.testing.assert_close(uneven.float(), want, atol=0.1, rtol=0.01)


def test_cores_take_unequal_slices(tmp_path, monkeypatch):
    x = torch.randn(101, 1000, dtype=torch.float16).to("spyre")
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    compiled(FUNCTIONS["chain"][0], [x], sencores=32, uneven_splits=True)
    assert "split(c0/26)" in (tmp_path / "segment0.loop").read_text()
