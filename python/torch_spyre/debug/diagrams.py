# SPDX-License-Identifier: Apache-2.0
"""Graphs as pictures, drawn by Graphviz."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .provenance import Kernel

SECONDS = 60  # for one picture; large graphs are slow to lay out


def draw(file: pathlib.Path, edges: Iterator[str]) -> None:
    """Writes an SVG, and its source beside it. A warning says why there is none."""
    text = "digraph {\nnode [shape=box fontname=monospace]\n" + "\n".join(edges) + "\n}\n"
    source = file.with_suffix(".dot")
    source.write_text(text, encoding="utf-8")
    dot = shutil.which("dot")
    if dot is None:
        warnings.warn(f"spyre: no picture of {source}: Graphviz (dot) is missing", stacklevel=2)
        return
    try:
        subprocess.run(
            [dot, "-Tsvg", str(source), "-o", str(file)],
            check=True,
            timeout=SECONDS,
            capture_output=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        warnings.warn(f"spyre: no picture of {source}: {error}", stacklevel=2)


def of_graph(graph: torch.fx.Graph) -> Iterator[str]:
    """The nodes of an FX graph, with the shapes of their values."""
    for node in graph.nodes:
        value = node.meta.get("val")
        shape = f"\\n{list(value.shape)}" if isinstance(value, torch.Tensor) else ""
        what = node.op if node.op in ("placeholder", "output") else str(node.target)
        label = _quoted(f"{node.name}: {what}{shape}")
        yield f"{_quoted(node.name)} [label={label}]"
        for source in node.all_input_nodes:
            yield f"{_quoted(source.name)} -> {_quoted(node.name)}"


def of_kernels(kernels: Iterable[Kernel]) -> Iterator[str]:
    """Kernels of the card, by the buffers that they hand over."""
    maker: dict[str, str] = {}
    for kernel in kernels:
        label = _quoted(f"{kernel.name}\\n{kernel.origin}")
        yield f"{_quoted(kernel.name)} [label={label}]"
        for buffer in dict.fromkeys(kernel.operands):
            yield (
                f"{_quoted(maker.get(buffer, buffer))} -> {_quoted(kernel.name)} "
                f"[label={_quoted(buffer)}]"
            )
        maker[kernel.result] = kernel.name


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
