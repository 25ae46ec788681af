# SPDX-License-Identifier: Apache-2.0
"""A torch.fx graph: its nodes, what they hold, and the Python it stands for.

python examples/explore_fx_graph.py
"""

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 32)

    def forward(self, x):
        x = self.linear(x)
        return torch.relu(x)


def main():
    traced = torch.fx.symbolic_trace(Model())
    for node in traced.graph.nodes:
        print(f"{node.op:14s} {node.name:8s} target={node.target} args={node.args}")
    print(traced.code)


if __name__ == "__main__":
    main()
