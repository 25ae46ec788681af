# SPDX-License-Identifier: Apache-2.0
"""A backend of torch.compile in one page: a registry of operations, a report of what is supported,
a compiler from the graph to a linear program, and an executor.

    python examples/my_accel.py

The kernels are the card's (kernel_lib.py); what the registry does not have runs in PyTorch. See
docs/backends.md.
"""

import operator
from dataclasses import dataclass, field

import kernel_lib
import torch
import torch.nn.functional as F

# Both forms of an operation: functions that a graph calls, and names of methods.
REGISTRY = {
    torch.relu: "relu",
    F.relu: "relu",
    "relu": "relu",
    torch.matmul: "matmul",
    operator.matmul: "matmul",
    "matmul": "matmul",
    torch.softmax: "softmax",
    F.softmax: "softmax",
    "softmax": "softmax",
}


@dataclass
class Instruction:
    op: str  # "input", "call" or "output"
    name: str
    target: object = None
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    kernel: str | None = None  # None: PyTorch runs it


def is_call(node):
    return node.op in ("call_function", "call_method")


def report_support(gm):
    for node in filter(is_call, gm.graph.nodes):
        name = getattr(node.target, "__name__", node.target)
        supported = node.target in REGISTRY
        print(f"  Found op: {name} - {'supported' if supported else 'falls back to PyTorch'}")


def weights_of(gm, example_inputs):
    """Parameters of the model by the name of their node: they are part of the program."""
    nodes = gm.graph.find_nodes(op="placeholder")
    return {
        node.name: value.detach()
        for node, value in zip(nodes, example_inputs, strict=True)
        if isinstance(value, torch.nn.Parameter)
    }


def compile_graph(gm, weights):
    """The graph as a linear program: inputs, calls, output."""
    program = []
    for node in gm.graph.nodes:
        if node.op == "placeholder" and node.name not in weights:
            program.append(Instruction("input", node.name))
        elif is_call(node):
            kernel = REGISTRY.get(node.target)
            program.append(
                Instruction("call", node.name, node.target, node.args, node.kwargs, kernel)
            )
        elif node.op == "output":
            program.append(Instruction("output", node.name, args=node.args))
    return program


kernels = {}  # by operation, shapes and parameters


def call_kernel(name, *args, **parameters):
    """Runs an operation on the card."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if name == "softmax":
        parameters = {"dim": parameters.get("dim", args[-1])}
    shapes = tuple(tuple(t.shape) for t in tensors)
    key = (name, shapes, *parameters.items())
    if key not in kernels:
        code = kernel_lib.build(name, shapes, **parameters)
        kernels[key] = kernel_lib.Kernel(code, kernel_lib.result_shape(name, shapes))
    told = "".join(f", {k}={v}" for k, v in parameters.items())
    print(f"  [MY_ACCEL] {name} called: {' @ '.join(str(list(s)) for s in shapes)}{told}")
    return torch.from_numpy(kernels[key](*(t.numpy() for t in tensors)))


def call_fallback(instruction, args, kwargs):
    print(f"  [PYTORCH] {getattr(instruction.target, '__name__', instruction.target)} called")
    if isinstance(instruction.target, str):
        return getattr(args[0], instruction.target)(*args[1:], **kwargs)
    return instruction.target(*args, **kwargs)


def execute(program, weights, inputs):
    print("--- EXECUTING ON MY_ACCEL ---")
    values, inputs = dict(weights), iter(inputs)

    def resolve(arguments):
        return torch.fx.map_arg(arguments, lambda node: values[node.name])

    for instruction in program:
        args, kwargs = resolve(instruction.args), resolve(instruction.kwargs)
        if instruction.op == "input":
            values[instruction.name] = next(inputs)
        elif instruction.op == "output":
            return args[0]
        elif instruction.kernel:
            values[instruction.name] = call_kernel(instruction.kernel, *args, **kwargs)
        else:
            values[instruction.name] = call_fallback(instruction, args, kwargs)


invocations = 0  # of the backend: one for each graph, however often it is called


def my_accel_backend(gm: torch.fx.GraphModule, example_inputs):
    global invocations
    invocations += 1
    print("MY_ACCEL BACKEND - GRAPH RECEIVED")
    report_support(gm)
    weights = weights_of(gm, example_inputs)
    calls = sum(node.op == "call_function" for node in gm.graph.nodes)
    print(f"Compiling graph -> {calls} call_function nodes")
    program = compile_graph(gm, weights)
    print(f"Program length: {len(program)}")
    names = [node.name for node in gm.graph.find_nodes(op="placeholder")]

    def run(*args):
        inputs = [a for name, a in zip(names, args, strict=True) if name not in weights]
        return execute(program, weights, inputs)

    return run


class ThreeOps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 16, dtype=torch.float16))

    def forward(self, x):
        return torch.softmax(torch.matmul(torch.relu(x), self.weight), dim=-1)


def main():
    torch.manual_seed(0)
    model = ThreeOps()
    compiled = torch.compile(model, backend=my_accel_backend)
    with torch.no_grad():
        x = torch.randn(4, 8, dtype=torch.float16)
        result = compiled(x)
        print(f"Final output shape: {list(result.shape)}")
        print(f"Output sum: {result.float().sum().item():.2f}")
        print(f"Largest difference to PyTorch: {(result - model(x)).abs().max().item():.2f}")
        print("--- Second call (the graph is known) ---")
        compiled(torch.randn(4, 8, dtype=torch.float16))
    print(f"Backend invoked {invocations} time(s)")


if __name__ == "__main__":
    main()
