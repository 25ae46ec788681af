# SPDX-License-Identifier: Apache-2.0
"""Operators that are replaced when a graph is handed to the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from ..registry import register_spyre_lowering
from .registered import spyre_lowerings

__all__ = ["lower", "register_spyre_lowering", "spyre_lowerings"]


def lower(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> torch.fx.GraphModule:
    """The graph with spyre_lowerings applied; `inputs` are fake tensors and numbers, one a
    placeholder. The graph itself when none of its operators is registered."""
    if not any(node.target in spyre_lowerings for node in gm.graph.nodes):
        return gm
    with torch.fx.traceback.preserve_node_meta():
        return make_fx(
            lambda *args: torch.fx.Interpreter(gm).run(*args),
            decomposition_table=spyre_lowerings,
            _allow_non_fake_inputs=True,
        )(*inputs)
