# SPDX-License-Identifier: Apache-2.0
"""Softmax, compiled for the card and compared with the CPU."""

import torch

torch.manual_seed(0)
x = torch.rand(512, 1024, dtype=torch.float16)

compiled = torch.compile(lambda x: torch.softmax(x, dim=1))
result = compiled(x.to("spyre")).cpu()

print(result)
print(f"max delta: {(result - torch.softmax(x, dim=1)).abs().max().item()}")
