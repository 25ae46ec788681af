# SPDX-License-Identifier: Apache-2.0
"""Passes of users over graphs of the card: append a function to one of the lists.

    def drop_dropout(graph: torch.fx.Graph) -> None: ...
    torch_spyre.passes.CustomPrePasses.passes.append(drop_dropout)

Three lists take passes over a torch.fx.Graph, which they edit in place, and four over the loop IR
(compile/planned/loops.py) of every card segment, docs/front.md. They run only for graphs with a
tensor of the card.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ._pytorch.inductor.custom_pass import CustomGraphPass, get_hash_for_files
from .compile.planned import loops
from .compile.planned.loops import LoopGraph, LoopOp
from .constants import DEVICE_NAME
from .debug import cost_report, pass_names


class PassError(RuntimeError):
    """A pass raised, or left a graph that is none: the message names the pass, its list and the
    error, which is the `__cause__`."""


class _Passes:
    """An ordered list, which is the class's: `CustomPrePasses.passes`."""

    passes: list[Callable[..., Any]]

    def __init_subclass__(cls) -> None:
        cls.passes = []

    @classmethod
    def default_passes(cls) -> dict[str, str]:
        """Torch-spyre's default passes of this extension point, by name, and what does their work
        here (debug/pass_names.py): they are not in `passes`."""
        return dict(pass_names.DEFAULT_PASSES.get(cls.__name__, {}))

    def call(self, change: Callable[..., Any], argument: object) -> Any:
        """What the pass returns.

        Raises: PassError. Dynamo says of an error its class and text alone, so they are in its.
        """
        if not callable(change):
            raise TypeError(f"{type(self).__name__}.passes: expected a function, got {change!r}")
        try:
            result = change(argument)
            if isinstance(argument, torch.fx.Graph):
                argument.lint()
            return result
        except Exception as error:
            place = f"the pass {_name(change)} of {type(self).__name__}"
            raise PassError(f"{place} raised {type(error).__name__}: {error}") from error

    def uuid(self) -> bytes:
        """Changes when the source of a pass changes."""
        kinds = [p if inspect.isfunction(p) else type(p) for p in self.passes]
        files = [inspect.getfile(kind) for kind in kinds]
        return get_hash_for_files(tuple(dict.fromkeys([*files, __file__])))


class _GraphPasses(_Passes, CustomGraphPass):
    def __call__(self, graph: torch.fx.Graph) -> None:
        if not self.passes or not _is_of_card(graph):
            return
        for change in self.passes:
            self.call(change, graph)


class CustomPreGradPasses(_GraphPasses):
    """Over what Dynamo captured: torch functions, modules, parameters as inputs."""


class CustomPrePasses(_GraphPasses):
    """Over the ATen graph, as AOTAutograd made it."""


class CustomPostPasses(_GraphPasses):
    """Over the ATen graph as it is handed to the compiler, after all other changes."""


class CustomPreLayoutPasses(_Passes):
    """Over the loop IR before sticks are chosen: each gets the LoopGraph, edits `operations` and
    says with LoopOp.stick_along() where results are to carry their sticks."""

    def __call__(self, graph: LoopGraph, done: Callable[[str, list[LoopOp]], None]) -> None:
        for change in self.passes:
            self.call(change, graph)
            done(_name(change), graph.operations)


class CustomPreSchedulingPasses(CustomPreLayoutPasses):
    """Over the loop IR before ops are divided: each gets the LoopGraph and edits its `operations`.
    Divisions that a pass sets stay, and the compiler divides the other ops to go with them."""

    @property
    def last_cost_report(self) -> cost_report.CostReport | None:
        """Of what this thread compiled last with config.cost_model set."""
        return cost_report.LAST_REPORT


class _NodePasses(_Passes):
    def __call__(self, graph: LoopGraph, done: Callable[[str, list[LoopOp]], None]) -> None:
        for change in self.passes:
            operations = self.call(change, graph.operations)
            if not isinstance(operations, Iterable):
                place = f"the pass {_name(change)} of {type(self).__name__}"
                raise TypeError(f"{place} returned {operations!r}: expected the ops in a list")
            graph.operations = list(operations)
            done(_name(change), graph.operations)


class CustomPreFusionPasses(_NodePasses):
    """Over the loop IR after ops were divided: each gets the ops and returns the new list."""


class CustomPostFusionPasses(_NodePasses):
    """Over the loop IR after all decisions: as above, but ops may only be annotated."""


_LOOP_PASSES = (
    CustomPreLayoutPasses,
    CustomPreSchedulingPasses,
    CustomPreFusionPasses,
    CustomPostFusionPasses,
)


def loop_pass() -> Callable[[int, object], None] | None:
    """What the compiler calls at each of its points; None when there are no such passes."""
    return _run if any(kind.passes for kind in _LOOP_PASSES) else None


def _run(point: int, handle: object) -> None:
    kind = _LOOP_PASSES[point]
    if not kind.passes:
        return
    graph = loops.read(handle)

    def done(name: str, operations: list[LoopOp]) -> None:
        loops.write(handle, name, operations)
        for index, op in enumerate(operations):
            op._index = index

    kind()(graph, done)


def _name(change: Callable[..., Any]) -> str:
    return getattr(change, "__name__", type(change).__name__)


def _is_of_card(graph: torch.fx.Graph) -> bool:
    values = (node.meta.get("val", node.meta.get("example_value")) for node in graph.nodes)
    return any(isinstance(v, torch.Tensor) and v.device.type == DEVICE_NAME for v in values)


CustomPrePass, CustomPostPass = CustomPrePasses, CustomPostPasses
CustomSchedulerPass = CustomPreSchedulingPasses
