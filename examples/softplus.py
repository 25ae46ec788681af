# SPDX-License-Identifier: Apache-2.0
"""Softplus with its parameters, compiled for the card and compared with the CPU."""

import torch

torch.manual_seed(0)
x = torch.randn(512, 256, dtype=torch.float16)
softplus = torch.nn.Softplus(beta=2.0, threshold=10.0)

result = torch.compile(softplus)(x.to("spyre")).cpu()

print(result)
print(f"max delta: {(result - softplus(x)).abs().max().item()}")
