# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs as Python that runs by itself and may be edited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ..compile.program import Program
    from ..compile.segments import Segment

Json = dict[str, Any]  # of a kernel, an op or an operand, as docs/op-spec.md has it

_HEADER = '''"""{title}"""

import torch
import torch_spyre  # the device
from torch import device, inf, nan
from torch._dynamo.testing import rand_strided
{imports}
'''

KERNEL_IMPORTS = """
from torch_spyre._C import DataFormats, SpyreTensorLayout, spyre_empty_with_layout
from torch_spyre._inductor.op_spec import (
    LoopSpec,
    OpSpec,
    TensorArg,
    UnimplementedOp,
    expression as sympify,
    spyre_constant_tensor,
)
from torch_spyre.execution.async_compile import SpyreAsyncCompile, placed

async_compile = SpyreAsyncCompile()
"""

_MAIN = '''

def example_inputs():
    """Random values in the place of the real ones."""
    return [
{inputs}
    ]


if __name__ == "__main__":
    for result in {call}:
        print(result)
'''


def runnable_graph(gm: torch.fx.GraphModule) -> str:
    """The graph as a module, with a main program that compiles and calls it."""
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    forward = gm.print_readable(print_output=False).strip().partition("\n")[2]
    attributes = [node.target for node in gm.graph.find_nodes(op="get_attr")]
    notes = "".join(
        f"# {target} is a tensor of the graph itself: set it\n" for target in attributes
    )
    return (
        _HEADER.format(title="An ATen graph of the card: edit and run.", imports="")
        + f"\n{notes}class Graph(torch.nn.Module):\n{forward}\n"
        + _main(values, "torch.compile(Graph(), dynamic=False)(*example_inputs())")
    )


def of_program(program: Program) -> str:
    """The segments of a compiled graph and the call that runs them in order."""
    body = "".join(_segment(program, segment) for segment in program.segments)
    inputs = [program.fakes[value] for value, _source in program.inputs]
    return (
        _HEADER.format(
            title="A compiled graph: kernels of the card as OpSpecs, host segments as PyTorch.",
            imports=KERNEL_IMPORTS,
        )
        + _call(program)  # in front: readers of provenance look behind it
        + "\n"
        + body
        + _main(inputs, "call(example_inputs())")
    )


# ---- pieces


def _segment(program: Program, segment: Segment) -> str:
    if segment.on_card:
        kernel = json.loads(program.executable.text(segment.index, "opspec"))
        return card_segment(kernel, segment.name, segment.index, segment.inputs)
    return f"\n\ndef segment_{segment.index}({_names(segment.inputs)}):\n" + "".join(
        f"    {line}\n" for line in _host_lines(program, segment)
    )


def _ops(specs: Sequence[Json]) -> Iterator[str]:
    for spec in specs:
        if "body" in spec:
            yield from _ops(spec["body"])
        else:
            yield spec["op"]


def card_segment(kernel: Json, name: str, index: int, inputs: Sequence[int]) -> str:
    """The kernel of a card segment and the function that calls it; `kernel` is the segment's text
    "opspec", `name` the segment's."""
    lines = [f"def segment_{index}({_names(inputs)}):"]
    values = iter(inputs)
    for number, argument in enumerate(kernel["arguments"]):
        lines.append(f"    a{number} = {_kernel_argument(argument, values)}")
    arguments = ", ".join(f"a{number}" for number in range(len(kernel["arguments"])))
    results = [
        f"a{r['argument']}.as_strided({tuple(r['size'])}, {tuple(r['stride'])}, {r['offset']})"
        for r in kernel["results"]
    ]
    lines += [f"    {name}.run({arguments})", f"    return [{', '.join(results)}]"]
    names = (f"segment{index}_{number}_{op}" for number, op in enumerate(_ops(kernel["specs"])))
    specs = "".join(_spec_source(spec, "        ", names) for spec in kernel["specs"])
    return (
        f"\n{name} = async_compile.sdsc(\n    {name!r},\n    [\n{specs}    ],\n)\n\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _kernel_argument(argument: Json, values: Iterator[int]) -> str:
    if argument["kind"] == "constant":
        value = float(argument["value"])
        return f"spyre_constant_tensor({value!r}, 'spyre', torch.{argument['dtype']})"
    given = argument["layout"]
    layout = (
        f"SpyreTensorLayout({given['device_size']}, {given['stride_map']}, "
        f"DataFormats.{given['device_dtype']})"
    )
    size, stride = argument["size"], argument["stride"]
    if argument["kind"] == "input":
        return f"placed(v{next(values)}, {size}, {stride}, {layout})"
    return f"spyre_empty_with_layout({size}, {stride}, torch.{argument['dtype']}, {layout})"


def _symbols(names: Sequence[str]) -> str:
    return "[" + ", ".join(f"sympify('{name}')" for name in names) + "]"


def _spec_source(spec: Json, indent: str, names: Iterator[str]) -> str:
    """The constructor call; `names` are those of the OpSpecs in order, as provenance has them."""
    tiled = _symbols(spec["tiled_symbols"])
    inner = indent + "    "
    if "body" in spec:
        body = "".join(_spec_source(item, inner + "    ", names) for item in spec["body"])
        return (
            f"{indent}LoopSpec(\n{inner}count=sympify('{spec['count']}'),\n{inner}body=[\n{body}"
            f"{inner}],\n{inner}tiled_symbols={tiled},\n{indent}),\n"
        )
    space = ", ".join(
        f"sympify('{name}'): (sympify('{extent}'), {slices})"
        for name, (extent, slices) in spec["iteration_space"].items()
    )
    info = dict(spec["op_info"])
    if "constants" in info:
        info["constants"] = {name: float(value) for name, value in info["constants"].items()}
    args = "".join(_arg_source(arg, inner + "    ") for arg in spec["args"])
    return (
        f"{indent}# {next(names)}\n{indent}OpSpec(\n{inner}op={spec['op']!r},\n"
        f"{inner}is_reduction={spec['is_reduction']},\n{inner}iteration_space={{{space}}},\n"
        f"{inner}args=[\n{args}{inner}],\n{inner}op_info={info!r},\n"
        f"{inner}tiled_symbols={tiled},\n{indent}),\n"
    )


def _arg_source(arg: Json, indent: str) -> str:
    fields = {
        "is_input": arg["is_input"],
        "arg_index": arg["arg_index"],
        "device_dtype": f"DataFormats.{arg['device_dtype']}",
        "device_size": arg["device_size"],
        "device_coordinates": _symbols(arg["device_coordinates"]),
        "allocation": arg["allocation"],
        "stride_map": arg["stride_map"],
        "per_tile_fixed": arg["per_tile_fixed"],
        "name": repr(arg["name"]),
    }
    if "counted_from" in arg:
        fields["counted_from"] = arg["counted_from"]
    inner = indent + "    "
    lines = "".join(f"{inner}{name}={value},\n" for name, value in fields.items())
    return f"{indent}TensorArg(\n{lines}{indent}),\n"


def _host_lines(program: Program, segment: Segment) -> Iterator[str]:
    """The nodes of a host segment as statements over CPU tensors."""
    for value in segment.inputs:
        yield f"v{value} = v{value}.cpu()"
    for number in segment.nodes:
        node = program.nodes[number]
        ids = program.ids[node]
        targets = ", ".join(f"v{i}" for i in ids) if isinstance(ids, list) else f"v{ids}"
        arguments = [_argument(program, a) for a in program.resolve(node, list(node.args))]
        arguments += [
            f"{k}={_argument(program, program.resolve(node, a))}" for k, a in node.kwargs.items()
        ]
        yield f"{targets} = torch.ops.{node.target}({', '.join(arguments)})"
    yield f"return [{_names(segment.outputs)}]"


def _argument(program: Program, argument: object) -> str:
    if isinstance(argument, torch.fx.Node):
        return f"v{program.ids[argument]}"
    if isinstance(argument, (list, tuple)):
        return f"[{', '.join(_argument(program, item) for item in argument)}]"
    if isinstance(argument, torch.device):
        return 'device("cpu")'
    return repr(argument)


def _names(values: Iterable[int]) -> str:
    return ", ".join(f"v{value}" for value in values)


def _call(program: Program) -> str:
    lines = [f"{_names([value for value, _ in program.inputs])}, = args"]
    for segment in program.segments:
        results = _names(segment.outputs)
        lines.append(f"{results}, = segment_{segment.index}({_names(segment.inputs)})")
    outputs = [f"v{v}" if v is not None else repr(constant) for v, constant in program.outputs]
    lines.append(f"return [{', '.join(outputs)}]")
    return "\n\ndef call(args):\n" + "".join(f"    {line}\n" for line in lines)


def _main(values: Iterable[object], call: str) -> str:
    inputs = "\n".join(f"        {_example(value)}," for value in values)
    return _MAIN.format(inputs=inputs, call=call)


def _example(value: object) -> str:
    """An expression for an input like `value`, a fake tensor or a number."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    size, stride = tuple(value.shape), tuple(value.stride())
    return f'rand_strided({size}, {stride}, device="{value.device.type}", dtype={value.dtype})'
