# SPDX-License-Identifier: Apache-2.0
"""Every kind of op with something appended that reads its result from the scratchpad: the same bits
as with everything in memory."""

import pytest
import torch
from torch_spyre import config

ROWS, COLUMNS = 96, 192  # neither cores nor sticks divide both


def attention(x, y):
    q, k = x.view(ROWS, 3, 64).transpose(0, 1), y.view(ROWS, 3, 64).transpose(0, 1)
    return torch.softmax(q @ k.transpose(1, 2) * 0.125, -1) @ k


OPS = {
    "exp": lambda x, y: torch.exp(x),
    "add": torch.add,
    "div": lambda x, y: x / (y.abs() + 1),
    "where": lambda x, y: torch.where(x > y, x, y),
    "gelu": lambda x, y: torch.nn.functional.gelu(x),
    "row": lambda x, y: x * y[:1],
    "column": lambda x, y: x - y[:, :1],
    "sum of rows": lambda x, y: x.sum(1, keepdim=True),
    "amax of columns": lambda x, y: x.amax(0, keepdim=True),
    "softmax": lambda x, y: torch.softmax(x, 0),
    "layer_norm": lambda x, y: torch.nn.functional.layer_norm(x, (COLUMNS,), y[0], y[1]),
    "mm": lambda x, y: x @ y.t(),
    "bmm": lambda x, y: x.view(4, 24, COLUMNS) @ y.view(4, 24, COLUMNS).transpose(1, 2),
    "attention": attention,
    "transpose": lambda x, y: x.t() + y.view(COLUMNS, ROWS),
    "cat": lambda x, y: torch.cat([x, torch.relu(y)], 1),
    "slice": lambda x, y: torch.exp(x)[8:40, 64:],
    "gather": lambda x, y: torch.nn.functional.embedding(torch.arange(5, 50, device=x.device), x),
}


def with_tails(op):
    """The op, then what reads its result: by elements, along the last dim, along the first."""

    def function(x, y):
        z = op(x, y)
        return torch.tanh(z) * 2 + z, z - z.amax(-1, keepdim=True), z.abs().sum(0)

    return function


# By division: how ops that the scratchpad serves may be planned.
PLANS = {
    "agreed": ({}, {"co_optimizing_lx_planning": True, "lx_boundary_clones": True}),
    "published": ({"layout_solver": "greedy"}, {"allow_all_ops_in_lx_planning": False}),
}


def run(function, inputs, settings):
    torch._dynamo.reset()
    with config.patch(**settings), torch.no_grad():
        return [value.cpu() for value in torch.compile(function, dynamic=False)(*inputs)]


@pytest.mark.parametrize("op", OPS)
def test_scratchpad_changes_no_bit(op):
    torch.manual_seed(0)
    inputs = [torch.randn(ROWS, COLUMNS, dtype=torch.float16).to("spyre") for _ in range(2)]
    function = with_tails(OPS[op])
    for division, plans in PLANS.items():
        memory = run(function, inputs, {"work_division": division, "lx_planning": False})
        for plan in plans:
            found = run(function, inputs, plan | {"work_division": division})
            assert all(map(torch.equal, found, memory)), (division, plan)
