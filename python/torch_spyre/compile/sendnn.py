# SPDX-License-Identifier: Apache-2.0
"""The Dynamo backend `sendnn`, by which PyTorch programs reached the card before it was a device.

Programs for it, those of foundation-model-stack among them, keep every tensor on the CPU: such a
graph is computed by the card behind their back, through the compiler, and what it returns is on
the CPU. Of a graph whose tensors are on the device it computes what should come out, on the CPU,
node by node, with neither front-end, back-end nor card.
"""

from __future__ import annotations

import copy

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from .._pytorch import pytree
from .._pytorch.dispatch import version_of
from .._pytorch.dynamo import aot_autograd


def backend(gm: torch.fx.GraphModule, example_inputs, **_options):
    """What torch.compile(f, backend="sendnn") calls with a graph of Dynamo."""
    tensors = [*example_inputs, *gm.parameters(), *gm.buffers()]
    if any(isinstance(t, torch.Tensor) and t.device.type == "spyre" for t in tensors):
        return _reference(gm, example_inputs)
    return OnCard(gm)


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


def _reference(gm: torch.fx.GraphModule, example_inputs):
    def compile_on_host(graph: torch.fx.GraphModule, _inputs):
        outputs: tuple = graph.graph.output_node().args[0]  # type: ignore[assignment]
        wanted = [n.meta["val"].device if isinstance(n, torch.fx.Node) else None for n in outputs]

        def run(args: list):
            results = OnHost(graph).run(*map(to_host, args))
            return [r if d is None else r.to(d) for r, d in zip(results, wanted, strict=True)]

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return aot_autograd(fw_compiler=compile_on_host)(gm, example_inputs)


class OnCard:
    """A graph of the CPU, computed by the card. Parameters stay there from call to call."""

    def __init__(self, gm: torch.fx.GraphModule):
        moved = copy.deepcopy(gm).to("spyre")
        for node in moved.graph.nodes:
            node.args, node.kwargs = pytree.tree_map(_to_card_device, (node.args, node.kwargs))
        moved.recompile()
        self.compiled = torch.compile(moved, backend="spyre", dynamic=False)
        self.kept = WeakTensorKeyDictionary()  # parameter -> (its version, the copy on the card)

    def __call__(self, *args):
        on_card = [self._to_card(a) if isinstance(a, torch.Tensor) else a for a in args]
        versions = [version_of(a) if isinstance(a, torch.Tensor) else 0 for a in on_card]
        results = pytree.tree_map(to_host, self.compiled(*on_card))
        for given, used, version in zip(args, on_card, versions, strict=True):
            if isinstance(used, torch.Tensor) and version_of(used) != version:
                given.copy_(used)
        return results

    def _to_card(self, tensor: torch.Tensor) -> torch.Tensor:
        wants_gradient = torch.is_grad_enabled() and tensor.requires_grad
        if wants_gradient or not isinstance(tensor, torch.nn.Parameter):
            return tensor.to("spyre")
        known = self.kept.get(tensor)
        if known is None or known[0] != version_of(tensor):
            known = self.kept[tensor] = version_of(tensor), tensor.detach().to("spyre")
        return known[1]


def _to_card_device(value):
    is_host = value == "cpu" or isinstance(value, torch.device) and value.type == "cpu"
    return torch.device("spyre") if is_host else value
