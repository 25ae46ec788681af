# SPDX-License-Identifier: Apache-2.0
"""Graphs, code and provenance for PyTorch's structured log: TORCH_TRACE=DIR writes it, tlparse
makes pages of it. With INDUCTOR_PROVENANCE=1 it has the way from the user's graph to the kernels.

Names of the records are those that tlparse looks for: torch/_inductor/compile_fx.py of PyTorch.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..debug import output_code, provenance

if TYPE_CHECKING:
    from ..compile.program import Program

_VERSION = 2.0  # of the mappings


class Trace:
    """The records of one graph; without a handler of PyTorch's trace log there are none."""

    def __init__(self) -> None:
        self.wanted = bool(torch._logging._internal.trace_log.handlers)
        self.context = torch._guards.CompileContext.try_get()  # programs are made outside of it
        self.before = getattr(torch._inductor.debug, "_pre_grad_graph_id", None)
        self.mapping: dict[str, Any] = {}

    def graph_after_passes(self, gm: torch.fx.GraphModule) -> None:
        if not self.wanted:
            return
        _tell("inductor_post_grad_graph", _readable(gm))
        if _provenance():
            self.mapping = torch._inductor.debug.create_mapping_pre_post_grad_nodes(
                self.before, torch.fx.traceback.get_graph_provenance_json(gm.graph)
            )

    def program(self, program: Program) -> None:
        if not self.wanted:
            return
        with torch._guards.compile_context(self.context):
            torch._logging._internal.trace_structured(
                "inductor_output_code",
                lambda: {"filename": "output_code.py"},
                payload_fn=lambda: output_code.of_program(program),
            )
            if _provenance():
                self._tell_provenance(provenance.kernels_of(program))

    def _tell_provenance(self, kernels: list[provenance.Kernel]) -> None:
        mapping = {**self.mapping, **provenance.mappings(kernels), "version": _VERSION}
        lines = {kernel.name: [kernel.location] for kernel in kernels}
        name = "inductor_provenance_tracking_"
        _tell(name + "node_mappings", json.dumps(mapping), "json")
        _tell(name + "kernel_stack_traces", json.dumps(lines), "json")


@contextlib.contextmanager
def graph_of_user(gm: torch.fx.GraphModule) -> Iterator[None]:
    """Around the work of AOTAutograd on what Dynamo captured."""
    import torch._inductor.debug

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._inductor.debug.enable_aot_logging())
        if torch._logging._internal.trace_log.handlers:
            torch._inductor.debug._pre_grad_graph_id = id(gm.graph)
            _tell("before_pre_grad_graph", f"{_readable(gm)}\n\n # graph id: {id(gm.graph)}")
            if _provenance():
                stack.enter_context(torch.fx.traceback.preserve_node_meta())
        yield


def _tell(name: str, text: str, encoding: str = "string") -> None:
    torch._logging._internal.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": encoding},
        payload_fn=lambda: text,
    )


def _provenance() -> bool:
    return torch._inductor.config.trace.provenance_tracking_level != 0


def _readable(gm: torch.fx.GraphModule) -> str:
    return gm.print_readable(print_output=False, include_stride=True, include_device=True)
