# SPDX-License-Identifier: Apache-2.0
"""What the backend `sendnn` does with a graph whose tensors are on the device: it computes what
should come out, on the CPU, node by node, with neither front-end, back-end nor card."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .._pytorch import pytree
from .._pytorch.dispatch import map_parts
from .._pytorch.dynamo import aot_autograd
from .._pytorch.fx import results_of

if TYPE_CHECKING:
    from ..compile.backend import Runnable, Values


class OnHost(torch.fx.Interpreter):
    """An ATen graph by PyTorch's kernels for the CPU."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(target, *pytree.tree_map(to_host, (args, kwargs)))

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return to_host(super().get_attr(target, args, kwargs))


def to_host(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return map_parts(value, torch.Tensor.cpu) if isinstance(value, torch.Tensor) else value


def compile_reference(gm: torch.fx.GraphModule, example_inputs: Values) -> Callable[..., Any]:
    """A graph of Dynamo, computed by PyTorch on the CPU; results are where the graph has them."""

    def compile_on_host(graph: torch.fx.GraphModule, _inputs: Values) -> Runnable:
        outputs = results_of(graph.graph)
        wanted = [n.meta["val"].device if isinstance(n, torch.fx.Node) else None for n in outputs]

        def run(args: list[Any]) -> list[Any]:
            results = OnHost(graph).run(*map(to_host, args))
            return [r if d is None else r.to(d) for r, d in zip(results, wanted, strict=True)]

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    compiled: Callable[..., Any] = aot_autograd(fw_compiler=compile_on_host)(gm, example_inputs)
    return compiled
