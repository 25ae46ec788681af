# SPDX-License-Identifier: Apache-2.0
"""The way from an FX node to the instructions of the card and back: node, op of the final loop IR,
steps of the bundle, kernels of the program. A step for every iteration where loops are unrolled."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import _C
from ..compile.segments import card_segments

if TYPE_CHECKING:
    from ..compile.program import Program


@dataclass
class Kernel:
    """One op of the final loop IR, and what became of it."""

    name: str  # "segment0_3_exp"
    origin: str  # the FX node
    location: str  # the user's line, or "unknown"
    result: str  # buffers
    operands: list[str]
    files: list[str] = field(default_factory=list)  # of its steps
    lines: list[str] = field(default_factory=list)  # of its instructions, "stages/..:first-last"


_STEP = re.compile(r"^step (\d+)  (\d+)_", re.M)
_KERNEL = re.compile(r'^kernel (\d+) "(\d+)_', re.M)
_BODY = re.compile(r"^ *kernel (\d+)\n.*?^ *endkernel$", re.M | re.S)


def _ops(executable: _C.Executable, index: int) -> list[Kernel]:
    """The ops of a card segment's final loop IR."""
    ops, buffers = executable.loops(index)
    segment = f"segment{index}"
    names = [f"{segment}_{name}" for name, *_rest in buffers]
    kernels = []
    for number, (value, opfunc, location, _note, _loops, operands, *_rest) in enumerate(ops):
        *read, written = [names[buffer] for buffer, _offset, _strides in operands]
        name, origin = f"{segment}_{number}_{opfunc}", value.split(".")[0]
        kernels.append(Kernel(name, origin, location or "unknown", written, read))
    return kernels


def _files(bundle: str, segment: str) -> dict[int, list[str]]:
    """By the number of the op; `bundle` is docs/cli.md's text of a bundle."""
    files = defaultdict(list)
    for step, op in _STEP.findall(bundle):
        files[int(op)].append(f"{segment}_bundle/sdsc_{step}.json")
    return files


def _lines(listing: str, segment: str) -> dict[int, list[str]]:
    """By the number of the op: where a program's listing (docs/isa.md) has its instructions."""
    op_of_kernel = {kernel: int(op) for kernel, op in _KERNEL.findall(listing)}
    lines = defaultdict(list)
    for body in _BODY.finditer(listing):
        first = listing.count("\n", 0, body.start()) + 1
        last = first + body[0].count("\n")
        lines[op_of_kernel[body[1]]].append(f"stages/{segment}.listing:{first}-{last}")
    return lines


def kernels_of(program: Program) -> list[Kernel]:
    """Of all card segments."""
    kernels = []
    for card in card_segments(program.executable):
        index = card.index
        segment, text = f"segment{index}", program.executable.text
        files = _files(text(index, "bundle"), segment)
        lines = _lines(text(index, "listing"), segment)
        for number, kernel in enumerate(_ops(program.executable, index)):
            kernel.files, kernel.lines = files[number], lines[number]
            kernels.append(kernel)
    return kernels


def mappings(kernels: list[Kernel]) -> dict[str, Any]:
    """Both directions between FX nodes and kernels, under the keys of PyTorch's own file, and of
    each kernel the source line, the bundle's files and the lines of the listing."""
    kernels_of_node: dict[str, list[str]] = {}
    for kernel in kernels:
        kernels_of_node.setdefault(kernel.origin, []).append(kernel.name)
    return {
        "postToCppCode": kernels_of_node,
        "cppCodeToPost": {kernel.name: [kernel.origin] for kernel in kernels},
        "locations": {kernel.name: kernel.location for kernel in kernels},
        "files": {kernel.name: kernel.files for kernel in kernels},
        "programs": {kernel.name: kernel.lines for kernel in kernels},
    }
