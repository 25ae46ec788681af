# SPDX-License-Identifier: Apache-2.0
"""Runs a program and leaves every kernel that it compiles for the card as a file of its own:

    python -m torch_spyre.debug.capture [-o DIR] script.py [arguments]      (or: spyre capture ...)

A file holds the kernel as OpSpecs, random inputs and a main program, and says at its top what the
kernel computes, on which tensors, how it is divided and where its operands live. Kernels that the
program uses again are written once. docs/debugging.md.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence

from .. import _C
from ..compile import call_compiler
from ..compile.segments import Segment, card_segments
from . import output_code, user_script
from .arguments import ArgumentParser, complain, write_lines
from .output_code import Json

_SUMMARY = (__doc__ or "").partition("\n")[0]
_FILE = '''"""{title}

{text}
"""

import torch
import torch_spyre  # the device
from torch import device, inf, nan
from torch._dynamo.testing import rand_strided
{imports}{kernel}

def example_inputs():
    """Random values; whole numbers are rows that every table has."""
    return [
{inputs}
    ]


if __name__ == "__main__":
    for result in segment_0(*example_inputs()):
        print(result)
'''


class Capture:
    """Writes the kernels of executables into a directory."""

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        self.files: dict[str, pathlib.Path] = {}  # by what the kernel is

    def __call__(self, executable: _C.Executable) -> None:
        for segment in card_segments(executable):
            self._write(executable, segment)

    def _write(self, executable: _C.Executable, segment: Segment) -> None:
        text = executable.text(segment.index, "opspec")
        key = hashlib.sha256(text.encode()).hexdigest()
        if key in self.files:
            return
        kernel = json.loads(text)
        name = segment.name.rsplit("_", 2)[0]  # without its number and its program's
        path = self.directory / f"kernel_{len(self.files):03d}_{name}.py"
        source = file_of(kernel, f"{name}_0", path.stem, executable.text(segment.index, "why"))
        path.write_text(source, encoding="utf-8")
        self.files[key] = path


def file_of(kernel: Json, name: str, title: str, times: str) -> str:
    """The file of a kernel (the text "opspec" of a segment); `times` is its text "why"."""
    inputs = [a for a in kernel["arguments"] if a["kind"] == "input"]
    rows = min(_rows(kernel["specs"]), default=2)
    text = "\n".join(explain(kernel)) + "\n\nTime by the model:\n" + times.rstrip()
    return _FILE.format(
        title=f"{title}: a kernel of the card; edit and run.",
        text=text.replace("\\", "\\\\").replace('"""', "'''"),
        imports=output_code.KERNEL_IMPORTS,
        kernel=output_code.card_segment(kernel, name, 0, range(len(inputs))),
        inputs="\n".join(f"        {_example(a, rows)}," for a in inputs),
    )


def _example(argument: Json, rows: int) -> str:
    size, stride, dtype = argument["size"], argument["stride"], f"torch.{argument['dtype']}"
    if argument["dtype"].startswith(("int", "uint", "bool")):
        top = 2 if argument["dtype"] == "bool" else rows
        values = f"torch.randint(0, {top}, {tuple(size)}, dtype={dtype})"
        return f"torch.empty_strided({size}, {stride}, dtype={dtype}).copy_({values}).to('spyre')"
    return f'rand_strided({tuple(size)}, {tuple(stride)}, device="spyre", dtype={dtype})'


def _ops(
    specs: Sequence[Json], loops: tuple[int, ...] = ()
) -> Iterator[tuple[Json, tuple[int, ...]]]:
    """(spec, counts of the loops around it) in order."""
    for spec in specs:
        if "body" in spec:
            yield from _ops(spec["body"], (*loops, spec["count"]))
        else:
            yield spec, loops


def _rows(specs: Sequence[Json]) -> list[int]:
    return [spec["op_info"]["rows"] for spec, _loops in _ops(specs) if "rows" in spec["op_info"]]


# ---- the explanation


def explain(kernel: Json) -> Iterator[str]:
    """What a person wants to know before reading OpSpecs."""
    ops = list(_ops(kernel["specs"]))
    yield "What it computes, op by op (extents of the loops; R: reduced):"
    for number, (spec, loops) in enumerate(ops):
        yield f"  {number:3d} {_equation(spec)}"
        yield f"      {_space(spec)}{_around(loops)}{_place(spec)}"
    yield ""
    yield "Arguments of run():"
    for number, argument in enumerate(kernel["arguments"]):
        yield f"  a{number:<3d} {_argument(argument)}"
    yield ""
    yield "Buffers: format, device dims (outermost first, the last is the stick), place:"
    seen: set[str] = set()
    for spec, _loops in ops:
        for arg in spec["args"]:
            if arg["name"] not in seen:
                seen.add(arg["name"])
                form = f"{arg['device_dtype']} {arg['device_size']}"
                yield f"  {arg['name']:<5s} {form} {_where(arg)}"


def _equation(spec: Json) -> str:
    *inputs, result = [arg["name"] for arg in spec["args"]]
    constants = spec["op_info"].get("constants", {})
    parameters = [f"{name}={value}" for name, value in constants.items()]
    return f"{result} = {spec['op']}({', '.join(inputs + parameters)})"


def _space(spec: Json) -> str:
    *inputs, result = [" ".join(arg["device_coordinates"]) for arg in spec["args"]]
    parts, divided, cores = [], [], 1
    for name, (extent, slices) in spec["iteration_space"].items():
        reduced = name not in _names_in(result) and any(name in _names_in(i) for i in inputs)
        parts.append(f"{name}<{extent}{' R' if reduced else ''}")
        cores *= slices
        if slices > 1:
            divided.append(f"{name} into {slices}")
    over = f"; on {cores} cores: {', '.join(divided)}" if divided else "; on one core"
    return f"for {', '.join(parts) or 'one element'}{over}"


def _names_in(coordinates: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in coordinates).split())


def _around(loops: tuple[int, ...]) -> str:
    return f"; inside of loops of {' x '.join(map(str, loops))}" if loops else ""


def _place(spec: Json) -> str:
    location = spec["op_info"].get("location")
    return f"; {location}" if location else ""


def _argument(argument: Json) -> str:
    if argument["kind"] == "constant":
        return f"constant {argument['value']} {argument['dtype']}"
    return (
        f"{argument['kind']:6s} %{argument['name']} {argument['dtype']} {argument['size']} "
        f"strides {argument['stride']}"
    )


def _where(arg: Json) -> str:
    ((where, byte),) = arg["allocation"].items()
    if where == "hbm":
        return f"argument a{arg['arg_index']}"
    if where == "lx":
        return f"LX from byte {byte} on, a slice on each core"
    return f"memory, pool from byte {byte} on"


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser("spyre capture", description=_SUMMARY)
    parser.add_argument("-o", "--output", default="spyre_capture", help="directory of the files")
    user_script.add_to(parser)
    given = parser.parse_args(arguments)
    if not user_script.is_program(parser.prog, given.script):
        return 2
    capture = Capture(pathlib.Path(given.output))
    try:
        capture.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return complain(parser.prog, given.output, error)
    call_compiler.observers.append(capture)
    try:
        user_script.run(given.script, given.arguments)
    finally:
        call_compiler.observers.remove(capture)
        code = write_lines(parser.prog, map(str, capture.files.values()))
    return code


if __name__ == "__main__":
    # Under its own name, so that the observer is the list that the compiler sees.
    from torch_spyre.debug.capture import main as run

    sys.exit(run())
