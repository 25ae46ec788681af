# SPDX-License-Identifier: Apache-2.0
"""The mean over either dim: a reduction across sticks, and one inside of them."""

import torch

torch.manual_seed(0)
x = torch.rand(67, 256, dtype=torch.float16)

for dim in (0, 1):
    compiled = torch.compile(lambda x, dim=dim: x.mean(dim=dim))
    result = compiled(x.to("spyre")).cpu()
    print(f"dim {dim}, max delta: {(result - x.mean(dim=dim)).abs().max().item()}")
