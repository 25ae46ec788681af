# SPDX-License-Identifier: Apache-2.0
"""Passes of users over graphs of the card: append a function to one of the lists.

    def drop_dropout(graph: torch.fx.Graph) -> None: ...
    torch_spyre._inductor.passes.CustomPrePasses.passes.append(drop_dropout)

Every pass edits a torch.fx.Graph in place; it runs only for graphs with a tensor of the card.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from ..constants import DEVICE_NAME


class _Passes(CustomGraphPass):
    """An ordered list, which is the class's: `CustomPrePasses.passes`."""

    passes: list[Callable[[torch.fx.Graph], None]]

    def __init_subclass__(cls):
        cls.passes = []

    def __call__(self, graph: torch.fx.Graph) -> None:
        if not self.passes or not _is_of_card(graph):
            return
        for change in self.passes:
            change(graph)
        graph.lint()

    def uuid(self):
        """Changes when the source of a pass changes."""
        files = [inspect.getfile(change) for change in self.passes]
        return get_hash_for_files(tuple(dict.fromkeys([*files, __file__])))


class CustomPreGradPasses(_Passes):
    """Over what Dynamo captured: torch functions, modules, parameters as inputs."""


class CustomPrePasses(_Passes):
    """Over the ATen graph, as AOTAutograd made it."""


class CustomPostPasses(_Passes):
    """Over the ATen graph as it is handed to the compiler, after all other changes."""


def _is_of_card(graph: torch.fx.Graph) -> bool:
    values = (node.meta.get("val", node.meta.get("example_value")) for node in graph.nodes)
    return any(isinstance(v, torch.Tensor) and v.device.type == DEVICE_NAME for v in values)


CustomPrePass, CustomPostPass = CustomPrePasses, CustomPostPasses
