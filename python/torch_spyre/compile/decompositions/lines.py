# SPDX-License-Identifier: Apache-2.0
"""Tensors as lines along one dim: [lines, length]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .. import call_compiler

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32)
INDICES = (torch.int64, torch.int32)
INTEGERS = (*INDICES, torch.int16, torch.int8, torch.uint8)
# Comparisons of every element of a line with every other, in all: some 40 ms of the host's time.
# Beyond, operators run on the host, as all that needs to sort in less than n^2 does.
MOST_COMPARISONS = 1 << 22
# float32 has every whole number up to here: sums of ones are exact.
MOST_COUNTED = 1 << 24
LONG_LINE = 1 << 12


def computed() -> tuple[torch.dtype, ...]:
    """In which the card has products and every function: 16 bits, and float32 with the profile
    `extended`."""
    return FLOATS if call_compiler.setting("profile") == "extended" else HALVES


def is_composed(dtype: torch.dtype) -> bool:
    """Of float32 without that profile: functions are made of those that the card has."""
    return dtype is torch.float32 and dtype not in computed()


def to_lines(x: torch.Tensor, dim: int) -> torch.Tensor:
    """[.., n, ..] -> [lines, n]"""
    x = x.reshape(1) if x.dim() == 0 else x
    x = x.movedim(dim, -1)
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def packed(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, dims of one element, too, by whose strides PyTorch tells memory formats."""
    return x.reshape(-1).view(x.shape)


def as_stored(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """With strides in the order of the input's, as PyTorch's kernels give them."""
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        form = torch.contiguous_format if x.is_contiguous() else torch.channels_last
        return result.contiguous(memory_format=form)
    return result.contiguous()


def from_lines(lines: torch.Tensor, shape: Sequence[int], dim: int) -> torch.Tensor:
    """The inverse for a tensor of sizes `shape` but along `dim`, whose size is the lines'."""
    if not shape:
        return lines.reshape(())
    sizes = list(shape)
    sizes.append(sizes.pop(dim))
    sizes[-1] = lines.shape[1]
    return packed(lines.reshape(sizes).movedim(-1, dim))


def count(n: int, like: torch.Tensor) -> torch.Tensor:
    """0, 1, .. n - 1 as int64."""
    return torch.arange(n, device=like.device)


def positions(x: torch.Tensor) -> torch.Tensor:
    """int64 of floating positions, cut to whole numbers. By way of 32 bits, whose ends PyTorch
    leaves open: numbers that become int64 are looked at behind each launch."""
    return x.to(torch.int32).to(torch.int64)


def running_counts(counts: torch.Tensor) -> torch.Tensor:
    """Running sums of whole numbers, float32 [n]. A long line is summed in parts of its own first,
    for one core goes along a line; float32 has every sum of so few, in any order."""
    n = counts.shape[0]
    if n < LONG_LINE:
        return counts.cumsum(0)
    width = 1 << (n.bit_length() // 2)
    wide = torch.ops.aten.constant_pad_nd(counts, [0, -n % width]) if n % width else counts
    parts = wide.reshape(-1, width).cumsum(1)
    ends = parts[:, -1]
    before = ends.cumsum(0) - ends
    return (parts + before.unsqueeze(1)).reshape(-1)[:n]


def checked(index: torch.Tensor, places: int) -> torch.Tensor:
    """The indices, looked up in 0, 1, 2, ..: the card faults where one is out of range."""
    table = count(places, index).unsqueeze(1).expand(places, 2).contiguous()
    found: torch.Tensor = torch.ops.aten.index(table, [index])  # table[index] reads a number
    return found.select(-1, 0)


def least(dtype: torch.dtype) -> float:
    """What no element is below."""
    return 0 if dtype is torch.bool else -math.inf
