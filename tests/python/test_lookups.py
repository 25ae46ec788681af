# SPDX-License-Identifier: Apache-2.0
"""Elements of what is computed element by element are looked up in its operands: the same bits as
of a lookup in the result, which a graph that returns the result, too, makes."""

import random

import pytest
import torch
import torch.nn.functional as F

SIZES = (1, 2, 5, 33, 64, 65, 130, 200)
CHAINS = {
    "log_softmax": lambda x, row, line: F.log_softmax(x, -1),
    "log_softmax of rows": lambda x, row, line: F.log_softmax(x, 0),
    "of a number": lambda x, row, line: torch.clamp(x * 2.5 - 1, -3, 3),
    "of a row": lambda x, row, line: (x + row).relu() * row,
    "of a line": lambda x, row, line: (x - line) / (line.abs() + 1),
    "in float32": lambda x, row, line: ((x.float() - row) * 3).to(x.dtype),
    "of itself": lambda x, row, line: (x + 1) * (x - 1),
    "turned": lambda x, row, line: (x * 2).t().contiguous().t() - row,
}


def compiled(function, *operands):
    torch._dynamo.reset()
    results = torch.compile(function, dynamic=False)(*(t.to("spyre") for t in operands))
    return [t.cpu() for t in results]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("seed", range(4))
def test_random_lookups(chain, seed):
    draw = random.Random(f"{chain}{seed}")
    torch.manual_seed(seed)
    rows, columns = draw.choice(SIZES), draw.choice(SIZES)
    dtype = draw.choice((torch.float16, torch.bfloat16, torch.float32))
    dim = draw.randrange(2)
    size = [rows, columns]
    size[dim] = draw.randrange(1, max(2, size[dim] // 4 + 1))
    index = torch.randint((rows, columns)[dim], size)
    x, row = torch.randn(rows, columns).to(dtype), torch.randn(rows, 1).to(dtype)
    line = torch.randn(1, columns).to(dtype)
    compute = CHAINS[chain]

    def alone(x, row, line, index):
        return (compute(x, row, line).gather(dim, index),)

    def beside(x, row, line, index):
        whole = compute(x, row, line)
        return whole.gather(dim, index), whole

    (found,), (wanted, whole) = (compiled(form, x, row, line, index) for form in (alone, beside))
    assert torch.equal(found, wanted)
    assert torch.equal(found, whole.gather(dim, index))


def test_an_index_out_of_range_is_a_fault():
    x, index = torch.randn(4, 64), torch.tensor([[1], [64], [2], [3]])
    with pytest.raises(RuntimeError, match="gather of row 64, outside 0..63"):
        compiled(lambda x, index: (F.log_softmax(x, 1).gather(1, index),), x, index)
