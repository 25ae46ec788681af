# SPDX-License-Identifier: Apache-2.0
"""Transformer blocks as models write them, with random weights: fp16, inference."""

import torch
import torch.nn.functional as F
from torch import nn


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    batch, length, size = x.shape
    return x.view(batch, length, heads, size // heads).transpose(1, 2)


def _merged(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


class Bert(nn.Module):
    """Attention and MLP, norms behind the sums, as in BERT."""

    def __init__(self, size: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(size, size) for _ in range(4))
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norm, self.last = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x):
        q, k, v = (_heads(project(x), self.heads) for project in (self.q, self.k, self.v))
        x = self.norm(x + self.out(_merged(F.scaled_dot_product_attention(q, k, v))))
        return self.last(x + self.down(F.gelu(self.up(x))))


class Gpt2(nn.Module):
    """One projection to q, k and v, norms before, a causal mask, as in GPT-2."""

    def __init__(self, size: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norm, self.last = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x):
        q, k, v = (_heads(part, self.heads) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(_merged(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.down(F.gelu(self.up(self.last(x)), approximate="tanh"))


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Llama(nn.Module):
    """Rotary positions, grouped queries, RMS norm and a gated MLP, as in Llama."""

    def __init__(self, size: int, heads: int, groups: int):
        super().__init__()
        head = size // heads
        self.heads, self.groups = heads, groups
        self.q, self.out = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.k, self.v = (nn.Linear(size, groups * head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(size, 3 * size, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * size, size, bias=False)
        self.norm, self.last = nn.RMSNorm(size), nn.RMSNorm(size)

    def forward(self, x, cos, sin):
        h = self.norm(x)
        q = _rotated(_heads(self.q(h), self.heads), cos, sin)
        k = _rotated(_heads(self.k(h), self.groups), cos, sin)
        k, v = (y.repeat_interleave(self.heads // self.groups, 1)
                for y in (k, _heads(self.v(h), self.groups)))  # fmt: skip
        x = x + self.out(_merged(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        h = self.last(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Experts(nn.Module):
    """A mixture of MLPs, all computed and weighted by a softmax over experts."""

    def __init__(self, size: int, experts: int):
        super().__init__()
        self.router = nn.Linear(size, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, size, 2 * size) / size**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * size, size) / size**0.5)

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights = self.router(flat).softmax(-1)
        each = torch.matmul(F.silu(torch.matmul(flat[None], self.up)), self.down)
        return x + (each * weights.t()[:, :, None]).sum(0).view_as(x)


def blocks(batch: int = 2, length: int = 128) -> dict[str, tuple[nn.Module, list[torch.Tensor]]]:
    """name -> (module, operands), on the CPU."""

    def tokens(size: int) -> torch.Tensor:
        return torch.randn(batch, length, size, dtype=torch.float16)

    turn = torch.arange(length)[:, None] / 10000 ** (torch.arange(64) % 32 / 32)[None]
    rotation = [turn.cos().half(), turn.sin().half()]
    modules: dict[str, tuple[nn.Module, list[torch.Tensor]]] = {
        "BERT, heads of 32": (Bert(384, 12), [tokens(384)]),
        "BERT, heads of 64": (Bert(384, 6), [tokens(384)]),
        "GPT-2": (Gpt2(384, 6), [tokens(384)]),
        "Llama, RoPE, GQA": (Llama(512, 8, 2), [tokens(512), *rotation]),
        "MoE MLP": (Experts(256, 4), [tokens(256)]),
    }
    return {name: (module.eval().half(), operands) for name, (module, operands) in modules.items()}
