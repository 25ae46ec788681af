# SPDX-License-Identifier: Apache-2.0
"""A feed-forward block, as models are divided between ranks by it."""

import torch
from torch import nn


class Block(nn.Module):
    """[.., 64] -> [.., 64]."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 128)
        self.down = nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))
