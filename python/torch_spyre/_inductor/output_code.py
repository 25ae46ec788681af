# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs as Python that runs by itself and may be edited."""

from __future__ import annotations

from collections.abc import Iterator

import torch

_HEADER = '''"""{title}"""

import torch
import torch_spyre  # the device
from torch import device, inf, nan
from torch._dynamo.testing import rand_strided
{imports}
'''

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


def of_program(program) -> str:
    """The segments of a compiled graph and the call that runs them in order."""
    body = "".join(_segment(program, index) for index in range(len(program.segments)))
    inputs = [program.fakes[value] for value, _source in program.inputs]
    return (
        _HEADER.format(
            title="A compiled graph: card segments as text, host segments as PyTorch.",
            imports="from torch_spyre._inductor.output_code import card_segment\n",
        )
        + body
        + _call(program)
        + _main(inputs, "call(example_inputs())")
    )


def card_segment(text: str, name: str):
    """A function of card tensors from the text form of a segment (docs/graph-text.md)."""
    from .. import _C, handover

    executable = handover.compile_graph(_C.Graph(text, name), host_fallback=False)
    launch = handover.Launch(executable, 0)

    def placed(index: int, tensor: torch.Tensor) -> torch.Tensor:
        size, stride, layout = executable.input_storage(0, index)
        storage = _C.spyre_empty_with_layout(size, stride, tensor.dtype, layout)
        view = storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return view.copy_(tensor)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        placed_tensors = [placed(index, tensor) for index, tensor in enumerate(tensors)]
        return launch(placed_tensors, _C.current_device())

    return run


# ---- pieces


def _segment(program, index: int) -> str:
    segment = program.segments[index]
    if segment["kind"] == "card":
        text = program.executable.text(index, "graph").rstrip()
        kernels = segment["kernels"]
        return (
            f'\n# kernels on the card: {kernels}\nsegment_{index} = card_segment(\n    """\n'
            + text.replace("\\", "\\\\").replace('"""', '\\"""')
            + f'\n""",\n    "segment_{index}",\n)\n'
        )
    return f"\n\ndef segment_{index}({_names(segment['inputs'])}):\n" + "".join(
        f"    {line}\n" for line in _host_lines(program, segment)
    )


def _host_lines(program, segment) -> Iterator[str]:
    """The nodes of a host segment as statements over CPU tensors."""
    for value in segment["inputs"]:
        yield f"v{value} = v{value}.cpu()"
    for number in segment["nodes"]:
        node = program.nodes[number]
        ids = program.ids[node]
        targets = ", ".join(f"v{i}" for i in ids) if isinstance(ids, list) else f"v{ids}"
        arguments = [_argument(program, a) for a in program.resolve(list(node.args))]
        arguments += [
            f"{k}={_argument(program, program.resolve(a))}" for k, a in node.kwargs.items()
        ]
        yield f"{targets} = torch.ops.{node.target}({', '.join(arguments)})"
    yield f"return [{_names(segment['outputs'])}]"


def _argument(program, argument) -> str:
    if isinstance(argument, torch.fx.Node):
        return f"v{program.ids[argument]}"
    if isinstance(argument, (list, tuple)):
        return f"[{', '.join(_argument(program, item) for item in argument)}]"
    if isinstance(argument, torch.device):
        return 'device("cpu")'
    return repr(argument)


def _names(values) -> str:
    return ", ".join(f"v{value}" for value in values)


def _call(program) -> str:
    lines = [f"{_names([value for value, _ in program.inputs])}, = args"]
    for index, segment in enumerate(program.segments):
        results = _names(segment["outputs"])
        lines.append(f"{results}, = segment_{index}({_names(segment['inputs'])})")
    outputs = [f"v{v}" if v is not None else repr(constant) for v, constant in program.outputs]
    lines.append(f"return [{', '.join(outputs)}]")
    return "\n\ndef call(args):\n" + "".join(f"    {line}\n" for line in lines)


def _main(values, call: str) -> str:
    inputs = "\n".join(f"        {_example(value)}," for value in values)
    return _MAIN.format(inputs=inputs, call=call)


def _example(value) -> str:
    """An expression for an input like `value`, a fake tensor or a number."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    size, stride = tuple(value.shape), tuple(value.stride())
    return f'rand_strided({size}, {stride}, device="{value.device.type}", dtype={value.dtype})'
