# SPDX-License-Identifier: Apache-2.0
"""A product, eager and compiled: the same kernel."""

import torch

torch.manual_seed(0)
x, y = (torch.rand(512, 256, dtype=torch.float16) for _ in range(2))

eager = (x.to("spyre") * y.to("spyre")).cpu()
compiled = torch.compile(torch.mul)(x.to("spyre"), y.to("spyre")).cpu()

print(f"eager and compiled agree: {torch.equal(eager, compiled)}")
print(f"max delta: {(compiled - x * y).abs().max().item()}")
