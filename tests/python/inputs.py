# SPDX-License-Identifier: Apache-2.0
"""Random tensors that tests begin with."""

import torch

HALF = torch.float16


def numbers(*shape, dtype=HALF, most=2):
    """Multiples of 1/32 up to `most`, which formats of 16 bits have."""
    return (torch.randint(-32 * most, 32 * most + 1, shape) / 32).to(dtype)


def half(*shape):
    """Normally distributed."""
    return torch.randn(*shape, dtype=HALF)
