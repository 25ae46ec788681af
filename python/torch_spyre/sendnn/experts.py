# SPDX-License-Identifier: Apache-2.0
"""Products with the weights of experts, in graphs of foundation-model-stack.

Its operator `moe::moe_mm` multiplies each token by the weights of the experts that were chosen for
it, and takes with them how a kernel of a GPU lays tokens out in blocks: sums of integers that the
card has no use for. Of few products the weights are gathered, one matrix for each; of more, every
expert multiplies all tokens, and the rows that were asked for are taken. So what a decode step
reads are the weights that it needs.
"""

from __future__ import annotations

from typing import Any

import torch

from .._pytorch.fake import is_surely

_NAME = "moe.moe_mm"


def rewrite(graph: torch.fx.Graph) -> None:
    """Of Dynamo, in place. What only laid out the blocks has no reader then."""
    for node in graph.nodes:
        if node.op == "call_function" and str(node.target).removesuffix(".default") == _NAME:
            node.target = products


def products(
    tokens: torch.Tensor, experts: torch.Tensor, chosen: torch.Tensor, *_blocks: Any, **_more: Any
) -> torch.Tensor:
    """[n, a, columns] of tokens [n, width], or [n * a, width], experts [experts, columns, width],
    chosen [n, a]."""
    count, columns, width = experts.shape
    each = chosen.shape[0] * chosen.shape[1] // tokens.shape[0]  # products of a token
    rows = chosen.flatten()
    if is_surely(rows.shape[0] <= count):
        own = tokens.unsqueeze(1).expand(-1, each, -1).reshape(-1, 1, width)
        found = own @ experts[rows].transpose(1, 2)
    else:
        every = tokens @ experts.transpose(1, 2)  # [experts, tokens, columns]
        token = torch.arange(rows.shape[0], device=rows.device) // each
        found = every.flatten(0, 1)[rows * tokens.shape[0] + token]
    return found.reshape(*chosen.shape, columns)
