# SPDX-License-Identifier: Apache-2.0
"""GELU, compiled for the card and compared with the CPU."""

import torch

torch.manual_seed(0)
x = torch.randn(32, 1024, dtype=torch.float16)
gelu = torch.nn.GELU(approximate="tanh")

result = torch.compile(gelu)(x.to("spyre")).cpu()

print(result)
print(f"max delta: {(result - gelu(x)).abs().max().item()}")
