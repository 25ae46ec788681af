# SPDX-License-Identifier: Apache-2.0
"""Products of groups of rows with a matrix for each group: the experts of a mixture.

Where each group ends is known on the card alone. Of few rows each has its group's matrix gathered
for it. More are laid out in blocks of one group each, so many that every group's last one may be
part of a block; a block has its matrix gathered, and the rows that the result asks for are taken.
"""

from __future__ import annotations

import torch

from ..._pytorch.fake import is_surely
from ..register_decomposition import NOT_TAKEN, NotTaken, library_part, part
from .lines import computed

_aten = torch.ops.aten
_BLOCK_LEAST, _BLOCK_MOST = 16, 128  # rows
# A block of s rows more a group against n / s copied matrices: cheapest at s^2 = cost * n / groups,
# a copy of a matrix at the cost of so many rows of a product.
_COPY_COST = 24


# transformers calls its own where PyTorch compiles bfloat16 alone.
@library_part("transformers::grouped_mm_fallback", narrow=True)
@part(_aten._grouped_mm.default, narrow=True)
def grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor | NotTaken:
    """[rows, columns] of a [rows, width] and b [groups, width, columns]; group g ends before row
    offs[g]. Rows behind the last group are 0. Without `offs` the product of two batches."""
    if a.dtype not in computed() or b.dtype != a.dtype or bias is not None:
        return NOT_TAKEN
    if out_dtype not in (None, a.dtype):
        return NOT_TAKEN
    if offs is None:
        return torch.bmm(a, b) if a.dim() == b.dim() == 3 else NOT_TAKEN
    if a.dim() != 2 or b.dim() != 3 or offs.shape != b.shape[:1] or a.shape[1] != b.shape[1]:
        return NOT_TAKEN
    if a.numel() == 0 or b.numel() == 0:
        return a.new_zeros(a.shape[0], b.shape[2])
    ends = offs.to(torch.int32)
    by_row = _each_alone if is_surely(a.shape[0] <= b.shape[0]) else _in_blocks
    product = by_row(a, b, ends)
    return torch.where((_numbers(a.shape[0], a) < ends[-1]).unsqueeze(1), product, 0.0)


def _numbers(n: int, like: torch.Tensor) -> torch.Tensor:
    """0, 1, .. n - 1 in 32 bits, which hold all that is computed with them here."""
    return torch.arange(n, device=like.device, dtype=torch.int32)


def _group_of(numbers: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Of each number, the last group for those behind it."""
    passed = (ends <= numbers.unsqueeze(1)).to(torch.float32).sum(1).to(torch.int32)
    return passed.clamp(max=ends.shape[0] - 1)


def _each_alone(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    own = b[_group_of(_numbers(a.shape[0], a), ends)]
    return torch.bmm(a.unsqueeze(1), own).squeeze(1)


def _in_blocks(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    rows, groups = a.shape[0], b.shape[0]
    size = _BLOCK_LEAST
    while is_surely((2 * size) ** 2 * groups <= _COPY_COST * rows) and 2 * size <= _BLOCK_MOST:
        size *= 2
    starts = torch.cat([torch.zeros_like(ends[:1]), ends])[:-1]
    blocks = (ends - starts + (size - 1)) // size
    block_ends = blocks.cumsum(0, dtype=torch.int32)
    shift = (block_ends - blocks) * size - starts  # from a row to its place in the blocks
    number = _numbers(rows // size + groups, a)
    group = _group_of(number, block_ends)
    place = (number * size - shift[group]).unsqueeze(1) + _numbers(size, a)
    source = place.clamp(min=0, max=rows - 1).reshape(-1)  # of rows that nothing asks for, too
    product = torch.bmm(a[source].reshape(-1, size, a.shape[1]), b[group])
    row = _numbers(rows, a)
    wanted = row + shift[_group_of(row, ends)]
    most = product.shape[0] * size - 1  # of rows behind the last group
    return product.reshape(-1, b.shape[2])[wanted.clamp(max=most)]
