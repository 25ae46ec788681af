# SPDX-License-Identifier: Apache-2.0
"""What the backend `sendnn` does with a graph whose tensors are on the device: it computes what
should come out, on the CPU, node by node, with neither front-end, back-end nor card."""

from __future__ import annotations

import torch

from .._pytorch import pytree
from .._pytorch.dynamo import aot_autograd


class OnHost(torch.fx.Interpreter):
    """An ATen graph by PyTorch's kernels for the CPU."""

    def call_function(self, target, args, kwargs):
        return super().call_function(target, *pytree.tree_map(to_host, (args, kwargs)))

    def get_attr(self, target, args, kwargs):
        return to_host(super().get_attr(target, args, kwargs))


def to_host(value):
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.cpu() if isinstance(value, torch.Tensor) else value


def compile_reference(gm: torch.fx.GraphModule, example_inputs):
    """A graph of Dynamo, computed by PyTorch on the CPU; results are where the graph has them."""

    def compile_on_host(graph: torch.fx.GraphModule, _inputs):
        outputs: tuple = graph.graph.output_node().args[0]  # type: ignore[assignment]
        wanted = [n.meta["val"].device if isinstance(n, torch.fx.Node) else None for n in outputs]

        def run(args: list):
            results = OnHost(graph).run(*map(to_host, args))
            return [r if d is None else r.to(d) for r, d in zip(results, wanted, strict=True)]

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return aot_autograd(fw_compiler=compile_on_host)(gm, example_inputs)
