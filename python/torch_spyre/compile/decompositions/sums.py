# SPDX-License-Identifier: Apache-2.0
"""Products and sums of them that PyTorch leaves whole, and norms of any order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..register_decomposition import NOT_TAKEN, NotTaken, library_part, part
from .lines import FLOATS, computed, is_composed

_aten = torch.ops.aten


@part(_aten.addbmm.default)
def addbmm(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor | NotTaken:
    if a.dtype not in computed() or a.dim() != 3 or b.dim() != 3:
        return NOT_TAKEN
    product = torch.bmm(a, b).sum(0)
    return _weighted(x, beta, product, alpha)


@part(_aten.addmv.default)
def addmv(
    x: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, *, beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor | NotTaken:  # fmt: skip
    if matrix.dtype not in computed() or matrix.dim() != 2 or vector.dim() != 1:
        return NOT_TAKEN
    return _weighted(x, beta, torch.mv(matrix, vector), alpha)


@library_part("prims::fma")
def fma(x: torch.Tensor, y: torch.Tensor | float, z: torch.Tensor) -> torch.Tensor:
    """What Dynamo makes of addcmul_ and addcdiv_ with a factor."""
    return z + x * y


def _weighted(x: torch.Tensor, beta: float, product: torch.Tensor, alpha: float) -> torch.Tensor:
    """With beta 0 what is in x does not matter, NaN included."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (x if beta == 1 else x * beta)


@part(_aten.trace.default)
def trace(x: torch.Tensor) -> torch.Tensor | NotTaken:
    if x.dim() != 2 or x.dtype not in FLOATS or x.numel() == 0:
        return NOT_TAKEN
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    return torch.where(rows.unsqueeze(1) == columns, x, 0.0).sum()


@part(_aten.vdot.default)
def vdot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | NotTaken:
    return torch.dot(x, y) if x.dtype in computed() and x.dtype == y.dtype else NOT_TAKEN


@part(_aten.linalg_vector_norm.default)
def vector_norm(
    x: torch.Tensor,
    order: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor | NotTaken:
    """Orders other than the compiler's 1, 2 and infinities: powers of the elements beside the one
    that counts most, so that none leaves the range of 16 bits."""
    if x.dtype not in computed() or x.numel() == 0 or dtype not in (None, x.dtype):
        return NOT_TAKEN
    if order in (1, 2, math.inf, -math.inf):
        return NOT_TAKEN
    dims = list(range(x.dim())) if dim is None else list(dim)
    if order == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim)
    x = x.abs()
    unit = x.amax(dims, True) if order > 0 else x.amin(dims, True)
    unit = torch.where((unit > 0) & (unit < math.inf), unit, 1.0)
    norm = (x / unit).pow(order).sum(dims, keepdim).pow(1 / order)
    return norm * unit.reshape(norm.shape)


@part(_aten.dist.default)
def dist(x: torch.Tensor, y: torch.Tensor, order: float = 2) -> torch.Tensor | NotTaken:
    if x.dtype not in computed() or x.dtype != y.dtype or x.numel() == 0 or y.numel() == 0:
        return NOT_TAKEN
    distance: torch.Tensor = _aten.linalg_vector_norm(x - y, order)
    return distance


@part(_aten.native_layer_norm.default)
def native_layer_norm(
    x: torch.Tensor,
    sizes: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, ...] | NotTaken:
    """Over several dims: over one that they are joined to. Over one element, which the opfuncs have
    no layout for: 0, of infinity NaN."""
    kept = x.dim() - len(sizes)
    if kept < 0 or list(x.shape[kept:]) != list(sizes) or x.numel() == 0:
        return NOT_TAKEN
    joined = math.prod(sizes)
    if joined == 1 and x.is_floating_point():
        scale = eps**-0.5 if eps > 0 else math.nan
        result, mean = (x - x) * scale, x.to(torch.float32)
        result = result if weight is None else result * weight
        result = result if bias is None else result + bias
        return result, mean, torch.full_like(mean, scale)
    if len(sizes) < 2:
        return NOT_TAKEN
    parts = [None if w is None else w.reshape(joined) for w in (weight, bias)]
    lines = x.reshape(*x.shape[:kept], joined)
    result, mean, rstd = _aten.native_layer_norm(lines, [joined], *parts, eps)
    moments = [*x.shape[:kept], *(1 for _ in sizes)]
    return result.reshape(x.shape), mean.reshape(moments), rstd.reshape(moments)


@part(_aten.norm.Scalar)
def norm(x: torch.Tensor, order: float = 2) -> torch.Tensor | NotTaken:
    return vector_norm(x, order)


@part(_aten.norm.ScalarOpt_dim)
def norm_dim(
    x: torch.Tensor, order: float | None, dim: Sequence[int], keepdim: bool = False
) -> torch.Tensor | NotTaken:
    return vector_norm(x, 2 if order is None else order, dim, keepdim)


@part(_aten.logsumexp.default)
def logsumexp(
    x: torch.Tensor, dim: Sequence[int], keepdim: bool = False
) -> torch.Tensor | NotTaken:
    if x.dtype not in computed() or x.numel() == 0 or x.dim() == 0:
        return NOT_TAKEN
    dims = list(dim)
    top = x.amax(dims, True)
    top = torch.where(top.abs() == math.inf, 0.0, top)
    total = (x - top).exp().sum(dims, keepdim).log()
    result: torch.Tensor = total + (top if keepdim else top.sum(dims))
    return result


@part(_aten._log_softmax.default)
def log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor | NotTaken:
    if not is_composed(x.dtype) or x.numel() == 0 or x.dim() == 0:
        return NOT_TAKEN
    distance = x - x.amax(dim, True)
    return distance - distance.exp().sum(dim, True).log()
