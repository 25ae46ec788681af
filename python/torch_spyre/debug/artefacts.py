# SPDX-License-Identifier: Apache-2.0
"""What TORCH_COMPILE_DEBUG=1 leaves of every graph, under PyTorch's own file names:

    torch_compile_debug/run_<time>-pid_<n>/torchinductor/model__0_inference_0.0/

See docs/debugging.md for the files.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from .._pytorch import dynamo
from .._pytorch.logs import artifact_logger
from ..compile.customops import composite_operators
from ..compile.planned import spyre_kernel
from . import diagrams, output_code, provenance

if TYPE_CHECKING:
    from ..compile.program import Program

_used: dict[pathlib.Path, int] = {}
_logs = {  # artefacts of TORCH_LOGS, with PyTorch's handlers
    name: artifact_logger(name)
    for name in (
        "pre_grad_graphs",
        "post_grad_graphs",
        "ir_pre_fusion",
        "ir_post_fusion",
        "kernel_code",
        "output_code",
    )
}


def _wanted(name: str) -> bool:
    return _logs[name].isEnabledFor(logging.DEBUG)


def wants_stages() -> bool:
    """Whether what is shown has the loop IR before the first pass, which the compiler writes on
    request."""
    return _wanted("ir_pre_fusion")


def show_graph(name: str, gm: torch.fx.GraphModule) -> None:
    """What TORCH_LOGS=pre_grad_graphs and post_grad_graphs show."""
    if _wanted(name):
        text = gm.print_readable(print_output=False, include_stride=True, include_device=True)
        _logs[name].debug("%s\n%s", name.upper().replace("_", " ").removesuffix("S"), text)


def show_program(program: Program, stages: str | None) -> None:
    """What TORCH_LOGS shows of a compiled graph (ir_pre_fusion, ir_post_fusion, kernel_code,
    output_code), and what torch._inductor.utils.run_and_get_code() collects by a function that it
    leaves with Inductor. `stages` is where the compiler wrote its own."""
    if stages and _wanted("ir_pre_fusion"):
        _logs["ir_pre_fusion"].debug("BEFORE FUSION\n%s", _loop_ir_before(program, stages))
    if _wanted("ir_post_fusion"):
        _logs["ir_post_fusion"].debug("AFTER FUSION\n%s", _of_segments(program, "loop"))
    if _wanted("kernel_code"):
        _logs["kernel_code"].debug("Programs:\n%s", _of_segments(program, "listing"))
    if _wanted("output_code"):
        _logs["output_code"].debug("Output code:\n%s", output_code.of_program(program))
    inductor = sys.modules.get("torch._inductor.graph")
    collect = inductor and inductor.GraphLowering.save_output_code
    if collect:
        collect(output_code.of_program(program))


def open_folder() -> Folder | None:
    """A new folder for the graph that AOTAutograd compiles; None without TORCH_COMPILE_DEBUG=1."""
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        return None
    root = pathlib.Path(dynamo.debug_directory()) / "torchinductor" / dynamo.graph_name()
    number = _used[root] = _used.get(root, -1) + 1
    return Folder(root.with_name(f"{root.name}.{number}"))


def _tell_aot_log(text: str) -> None:
    """Into aot_<graph>_debug.log, which PyTorch opens while AOTAutograd works; of a graph without
    gradients it writes nothing itself."""
    log = dynamo.aot_log()
    for handler in log.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(log.makeRecord(log.name, logging.DEBUG, __file__, 0, text, (), None))


class Folder:
    """The artefacts of one graph."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")

    def graph_before_passes(self, gm: torch.fx.GraphModule) -> None:
        readable = gm.print_readable(print_output=False)
        self.write("fx_graph_readable.py", readable)
        _tell_aot_log(f"{self.path.name}, artefacts in {self.path}\n{readable}")
        self.write("fx_graph_runnable.py", output_code.runnable_graph(gm))
        if _wants_diagrams():
            diagrams.draw(self.path / "orig_fx_graph_diagram.svg", diagrams.of_graph(gm.graph))

    def graph_after_passes(self, gm: torch.fx.GraphModule) -> None:
        self.transformed = gm
        self.write("fx_graph_transformed.py", gm.print_readable(print_output=False))

    def stages(self) -> str:
        """Where the compiler writes its own stages."""
        return str(self.path / "stages")

    def program(self, program: Program) -> None:
        """Everything about the compiled graph, once its stages are written."""
        kernels = provenance.kernels_of(program)
        for index in _card_segments(program):
            for number, (name, text) in enumerate(passes_of(self.stages(), index)):
                self.write(f"passes/segment{index}_{number:02d}_{name}.loop", text)
            program.executable.write(index, "bundle", str(self.path / f"segment{index}_bundle"))
        self.write("ir_pre_fusion.txt", _loop_ir_before(program, self.stages()))
        self.write("ir_post_fusion.txt", _of_segments(program, "loop"))
        self.write("why.txt", _of_segments(program, "why"))
        report = program.executable.report()
        found = composite_operators.with_found(self.transformed, program.nodes, program.nodes_taken)
        self.write("fx_graph_transformed.py", found.print_readable(print_output=False))
        self.write("report.txt", report)
        if exchanges := program.exchange_table():
            self.write("exchanges.txt", exchanges)
        self.write("output_code.py", output_code.of_program(program))
        kernels_as_text = map(str, spyre_kernel.kernels_of(program.executable))
        self.write("expressions.txt", "\n".join(kernels_as_text))
        self.write(
            "inductor_provenance_tracking_node_mappings.json",
            json.dumps(provenance.mappings(kernels), indent=1),
        )
        if _wants_diagrams():
            diagrams.draw(self.path / "graph_diagram.svg", diagrams.of_kernels(kernels))


def _card_segments(program: Program) -> list[int]:
    return [segment.index for segment in program.segments if segment.on_card]


def _of_segments(program: Program, stage: str) -> str:
    """A stage's text of every card segment."""
    texts = ((i, program.executable.text(i, stage)) for i in _card_segments(program))
    return "\n".join(f"// segment {index}\n{text}" for index, text in texts)


def _loop_ir_before(program: Program, stages: str) -> str:
    """The loop IR of every card segment before the first pass."""
    texts = ((i, next(passes_of(stages, i))[1]) for i in _card_segments(program))
    return "\n".join(f"// segment {index}\n{text}" for index, text in texts)


def passes_of(stages: str, segment: int) -> Iterator[tuple[str, str]]:
    """(pass, loop IR after it) in order, from where the compiler wrote its stages; the first is
    that of `build`."""
    text = pathlib.Path(stages, f"segment{segment}.passes").read_text(encoding="utf-8")
    for part in re.split(r"^after ", text, flags=re.M)[1:]:
        name, _, listing = part.partition("\n")
        yield name, listing


def _wants_diagrams() -> bool:
    return os.environ.get("INDUCTOR_ORIG_FX_SVG", "0") == "1"
