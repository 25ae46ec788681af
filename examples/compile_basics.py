# SPDX-License-Identifier: Apache-2.0
"""What torch.compile does, seen from inside: a compiled function, the graph that a backend gets,
and the code that becomes of it.

    python examples/compile_basics.py
"""

import torch


@torch.compile
def product(x, y):
    return torch.relu(x @ y.T)


def inspect_graph(gm: torch.fx.GraphModule, example_inputs):
    """A backend: it gets the graph that Dynamo captured and returns what runs in its place."""
    print("nodes:", ", ".join(node.op for node in gm.graph.nodes))
    for node in gm.graph.nodes:
        print(f"  {node.op:14s} {node.name:10s} {getattr(node.target, '__name__', node.target)}")
    print(gm.code)
    return gm.forward


@torch.compile(backend=inspect_graph)
def three_ops(x, w):
    h = torch.relu(x)
    y = torch.matmul(h, w)
    return torch.softmax(y, dim=-1)


@torch.compile
def swish(x):
    return x * torch.sigmoid(x) + 1


def numbers(*shape):
    return torch.randn(shape, dtype=torch.float16).to("spyre")


def main():
    torch.manual_seed(0)

    print("--- a compiled function")
    print(product(numbers(128, 64), numbers(128, 64)).shape)

    print("\n--- a backend that shows its graph")
    print(three_ops(numbers(32, 128), numbers(128, 64)).shape)

    print("\n--- the code that runs")
    torch._logging.set_logs(output_code=True)  # as TORCH_LOGS=output_code
    result = swish(numbers(64, 64))
    torch._logging.set_logs()
    print(f"sum of {result.numel()} elements: {result.float().sum().item():.0f}")


if __name__ == "__main__":
    main()
