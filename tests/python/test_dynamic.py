# SPDX-License-Identifier: Apache-2.0
"""Sizes that change from call to call: one trace, a program for each."""

import copy

import pytest
import torch
import torch_spyre


class Block(torch.nn.Module):
    """Attention over a length that only the call knows, with arithmetic on it."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(128, 384)
        self.norm = torch.nn.LayerNorm(128)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 6, width // 2).transpose(1, 2).chunk(3, 1)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        mixed = mixed.transpose(1, 2).reshape(batch * length, width)
        return self.norm(x.flatten(0, 1) + mixed).view(batch, length, width)


@pytest.fixture
def block():
    torch._dynamo.reset()
    return Block().half().eval()


def run(block, compiled, *shape):
    x = torch.randn(*shape, 128, dtype=torch.float16)
    expected = block.float()(x.float())
    torch.testing.assert_close(
        compiled(x.to("spyre")).cpu().float(), expected, atol=0.02, rtol=0.02
    )


@pytest.mark.parametrize("dynamic, programs", [(True, 4), (None, 5)])
def test_every_size_runs_on_the_card(block, dynamic, programs):
    """By default the first size has a trace of its own, then a program of the second trace too."""
    before = len(torch_spyre.compile_reports())
    compiled = torch.compile(copy.deepcopy(block).to("spyre"), dynamic=dynamic)
    with torch.no_grad():
        for shape in [(2, 16), (3, 33), (3, 34), (2, 16), (5, 7), (3, 34)]:
            run(block, compiled, *shape)
    reports = torch_spyre.compile_reports()[before:]
    assert len(reports) == programs  # sizes seen before have their program
    assert all(report.nodes_on_host == 0 and report.segments == 1 for report in reports)


def test_sizes_are_traced_once(block):
    compiled = torch.compile(block.to("spyre"), dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(2, 16, 128, dtype=torch.float16).to("spyre"))
        frames = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        for length in range(17, 25):
            compiled(torch.randn(2, length, 128, dtype=torch.float16).to("spyre"))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == frames


def test_a_dim_marked_dynamic():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x * 2).sum(-1) + x.shape[0])
    for rows in (9, 70, 9, 128):
        x = torch.randn(rows, 64, dtype=torch.float16)
        on_card = x.to("spyre")
        torch._dynamo.mark_dynamic(on_card, 0, min=2, max=128)
        expected = (x.float() * 2).sum(-1) + rows
        torch.testing.assert_close(compiled(on_card).cpu().float(), expected, atol=0.1, rtol=0.01)
