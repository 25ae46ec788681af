# SPDX-License-Identifier: Apache-2.0
"""Restickify ops of the transformer blocks that the benchmark counts (bench/blocks.py)."""

import importlib.util
import math
import pathlib

import pytest
import torch
from torch_spyre import config, passes

BENCH = pathlib.Path(__file__).parents[2] / "bench"
# name: (sticks chosen op by op, chosen for the whole graph)
COUNTS = {
    "BERT, heads of 32": (3, 3),
    "BERT, heads of 64": (1, 1),
    "GPT-2": (1, 1),
    "Llama, RoPE, GQA": (10, 5),
}


@pytest.fixture(scope="module")
def blocks():
    spec = importlib.util.spec_from_file_location("blocks", BENCH / "blocks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    with torch.no_grad():
        return module.blocks(batch=2, length=128)


def restickifies(module, operands):
    """(result on the CPU, elements of every restickify op of all card segments)"""
    elements = []

    def count(ops):
        moves = [op for op in ops if op.opfunc == "ReStickifyOpHBM"]
        elements.extend(math.prod(loop.extent for loop in op.loops) for op in moves)
        return ops

    torch._dynamo.reset()
    passes.CustomPostFusionPasses.passes.append(count)
    try:
        result = torch.compile(module, dynamic=False)(*[x.to("spyre") for x in operands])
    finally:
        passes.CustomPostFusionPasses.passes.remove(count)
    return result.cpu(), elements


@pytest.mark.parametrize("name", COUNTS)
@torch.no_grad()
def test_blocks_need_no_more_restickifies(blocks, name):
    module, operands = blocks[name]
    expected = module.float()(*[x.float() for x in operands])
    module = module.half().to("spyre")
    with config.patch(global_stick_optimizer=False):
        greedy, greedy_moves = restickifies(module, operands)
    ours, our_moves = restickifies(module, operands)
    assert (len(greedy_moves), len(our_moves)) == COUNTS[name]
    for result in (greedy, ours):
        similar = torch.nn.functional.cosine_similarity
        assert similar(result.float().flatten(), expected.flatten(), 0) > 0.999


SIDE = 128
# Graphs over matrices of SIDE x SIDE whose optimum is known: how many matrices change their stick
# (torch-spyre/torch-spyre, tests/inductor/test_restickify.py at 01f8835).
KNOWN_OPTIMA = {
    "one of two": (1, lambda a, b: a.t() + b),
    "the odd one of three": (1, lambda a, b, c: a.t() + b.t() + c),
    "the odd one of four, last": (1, lambda a, b, c, d: a + b + c + d.t()),
    "two of four, apart": (2, lambda a, b, c, d: a.t() + b + c.t() + d),
    "a product as it is": (0, lambda a, b: a @ b),
    "both sides of a product": (2, lambda a, b: a.t() @ b.t()),
    "both sides of a product, one matrix": (1, lambda a: a @ a.t()),
    "in an inner sum": (1, lambda a, b, c, d: (a + b) + (c.t() + d)),
    "sums before the left side": (2, lambda a, b, c, d, e: (a + b.t() + c.t() + d.t()) @ e),
    "sums before the right side": (1, lambda a, b, c: a @ (b + c.t())),
    "long sums before the right side": (2, lambda a, b, c, d, e: a @ (b + c.t() + d.t() + e.t())),
    "sums behind a product": (1, lambda a, b, c, d: (a @ b) + c.t() + d.t()),
    "two sums": (2, lambda a, b, c, d, e: (a + b.t()) + (c.t() + d.t() + e)),
    "read twice": (2, lambda a, b, c, d: (y := a + b.t()) + c + (y + d.t())),
    "a reduction between": (1, lambda a, b, c: (a + b.t()).sum(0) + c),
    "turned twice": (1, lambda a, b, c: (a.t() + b).t() + c),
    "two products": (2, lambda a, b, c, d: (a.t() @ b) + (c @ d.t())),
    "sums on both sides": (2, lambda a, b, c, d: (a + b.t()) @ (c + d.t())),
    "a constant": (0, lambda a: torch.ones_like(a) + a.t()),
    "a constant between": (1, lambda a, b: torch.ones_like(a) + a.t() + b),
    "returned contiguous": (1, lambda a: a.t().contiguous()),
}


@pytest.mark.parametrize("name", KNOWN_OPTIMA)
def test_known_optima(name):
    moved, function = KNOWN_OPTIMA[name]
    count = function.__code__.co_argcount
    operands = [torch.randint(-3, 4, (SIDE, SIDE)).half() for _ in range(count)]
    result, elements = restickifies(function, operands)
    assert sum(elements) == moved * SIDE * SIDE
    torch.testing.assert_close(result, function(*operands), rtol=1e-2, atol=0.1)
