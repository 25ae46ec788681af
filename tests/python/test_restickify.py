# SPDX-License-Identifier: Apache-2.0
"""Restickify ops of the transformer blocks that the benchmark counts (bench/blocks.py)."""

import importlib.util
import pathlib

import pytest
import torch
from torch_spyre._inductor import config, passes

BENCH = pathlib.Path(__file__).parents[2] / "bench"
# name: (sticks chosen op by op, chosen for the whole graph)
COUNTS = {
    "BERT, heads of 32": (5, 5),
    "BERT, heads of 64": (1, 1),
    "GPT-2": (2, 2),
    "Llama, RoPE, GQA": (13, 8),
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
    """(result on the CPU, restickify ops of all card segments)"""
    names = []

    def count(ops):
        names.extend(op.opfunc for op in ops)
        return ops

    torch._dynamo.reset()
    passes.CustomPostFusionPasses.passes.append(count)
    try:
        result = torch.compile(module, dynamic=False)(*[x.to("spyre") for x in operands])
    finally:
        passes.CustomPostFusionPasses.passes.remove(count)
    return result.cpu(), names.count("ReStickifyOpHBM")


@pytest.mark.parametrize("name", COUNTS)
@torch.no_grad()
def test_blocks_need_no_more_restickifies(blocks, name):
    module, operands = blocks[name]
    expected = module.float()(*[x.float() for x in operands])
    module = module.half().to("spyre")
    with config.patch(global_stick_optimizer=False):
        greedy, greedy_count = restickifies(module, operands)
    ours, our_count = restickifies(module, operands)
    assert (greedy_count, our_count) == COUNTS[name]
    for result in (greedy, ours):
        similar = torch.nn.functional.cosine_similarity
        assert similar(result.float().flatten(), expected.flatten(), 0) > 0.999
