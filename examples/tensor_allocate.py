# SPDX-License-Identifier: Apache-2.0
"""Tensors on the card: how they lie there, and that what comes back is what went in."""

import torch

x = torch.arange(5 * 100, dtype=torch.float16).reshape(5, 100)
on_card = x.to("spyre")

print(on_card.device, on_card.shape, on_card.dtype)
print(on_card.device_tensor_layout())
print(f"allocated bytes: {torch.spyre.memory_allocated()}")
print(f"max delta: {(on_card.cpu() - x).abs().max().item()}")
