# SPDX-License-Identifier: Apache-2.0
"""Hints: a product divided over the cores by hand, and a layer that runs tile by tile."""

import torch
import torch_spyre
from torch_spyre.hints import declare_tensor_dim, name_tensor_dims, spyre_hint

torch.manual_seed(0)
M, K, N = 64, 256, 512
x, up, down = (torch.rand(s, dtype=torch.float16) / 16 for s in ((M, K), (K, N), (N, K)))
on_card = [t.to("spyre") for t in (x, up, down)]

for name, size in (("M", M), ("K", K), ("N", N)):
    declare_tensor_dim(name, size)
for tensor, names in zip(on_card, (["M", "K"], ["K", "N"], ["N", "K"]), strict=True):
    name_tensor_dims(tensor, names)


def divided(x, up, down):
    with spyre_hint(work_div={"M": 4, "K": 2}):
        return x @ up @ down


def tiled(x, up, down):
    with spyre_hint(num_tiles_per_dim={"M": 2}):
        return torch.relu(x @ up) @ down


for layer in (divided, tiled):
    result = torch.compile(layer)(*on_card).cpu()
    report = torch_spyre.last_report()
    delta = (result - layer(x, up, down)).abs().max().item()
    print(f"{layer.__name__}: {report.kernels} kernels, max delta: {delta}")
