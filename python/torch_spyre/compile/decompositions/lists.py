# SPDX-License-Identifier: Apache-2.0
"""Operators on lists of tensors (`_foreach_*`, of optimizers): PyTorch's own loop over the lists,
which they are in eager mode, too."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from ..._pytorch.dispatch import call_composite, composed
from ..register_decomposition import part

_aten = torch.ops.aten

for op in composed("_foreach_"):
    part(op)(functools.partial(call_composite, op))


# Of these PyTorch's composition writes into clones, which a traced graph may not.
@part(_aten._foreach_zero.default)
def zero(own: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.zeros_like(x) for x in own]


@part(_aten._foreach_copy.default)
def copy(
    own: Sequence[torch.Tensor], source: Sequence[torch.Tensor], _non_blocking: bool = False
) -> list[torch.Tensor]:
    return [_aten.copy.default(x, y) for x, y in zip(own, source, strict=True)]
