# SPDX-License-Identifier: Apache-2.0
"""A function that torch.jit scripts: the first use of the device, from C++."""

import torch


def make(n: int):
    return torch.ones([n, n], device=torch.device("spyre")).relu().cpu()
