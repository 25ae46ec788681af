# SPDX-License-Identifier: Apache-2.0
"""torch.ops.spyre: float8_e4m3fn."""

from __future__ import annotations

import torch
from torch import Tensor

from ...constants import FP8_E4M3FN_MAX, FP8_E4M3FN_MIN, QUANTSCALEPERTOKENFP8_CLIP_MIN
from .declare_operator import operator


@operator("(Tensor input) -> Tensor")
def qfp8ch(input: Tensor) -> Tensor:
    return input.clamp(FP8_E4M3FN_MIN, FP8_E4M3FN_MAX).to(torch.float8_e4m3fn)


@operator("(Tensor input) -> Tensor")
def qfp8wt(input: Tensor) -> Tensor:
    return qfp8ch(input)


@operator("(Tensor input, float scale_ub=448.0) -> Tensor")
def quantscalepertokenfp8(input: Tensor, scale_ub: float = FP8_E4M3FN_MAX) -> Tensor:
    """[.., hidden] -> [.., 1]: what a line is divided by to lie within +- scale_ub."""
    if scale_ub <= 0.0:
        raise ValueError(f"quantscalepertokenfp8: scale_ub must be positive, not {scale_ub}")
    if input.dim() == 0:
        raise ValueError("quantscalepertokenfp8: expected a tensor of at least one dim, not 0")
    return (input.abs().amax(-1, keepdim=True) * (1.0 / scale_ub)).clamp(
        min=QUANTSCALEPERTOKENFP8_CLIP_MIN
    )


@operator("(Tensor mat1, Tensor mat2, ScalarType? out_dtype=None) -> Tensor")
def scaled_mm(mat1: Tensor, mat2: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    """[.., M, K] x [K, N], or [B, M, K] x [B, K, N], of float8 without scales: out_dtype, float16
    when it is None. PyTorch's own `_scaled_mm` has two dims."""
    if mat2.dim() == 3:
        if mat1.dim() != 3 or mat1.shape[0] != mat2.shape[0]:
            text = (
                f"{list(mat1.shape)} x {list(mat2.shape)}: expected as many matrices on both sides"
            )
            raise ValueError(f"scaled_mm: {text}")
        return torch.stack([scaled_mm(a, b, out_dtype) for a, b in zip(mat1, mat2, strict=True)])
    one = torch.ones((), device=mat1.device)
    rows = mat1.reshape(-1, mat1.shape[-1])
    result: Tensor = torch.ops.aten._scaled_mm(
        rows, mat2, one, one, out_dtype=out_dtype or torch.float16
    )
    return result.reshape(*mat1.shape[:-1], mat2.shape[-1])


@operator("(Tensor input, Tensor scale) -> Tensor")
def quantize_fp8_with_scale(input: Tensor, scale: Tensor) -> Tensor:
    return qfp8ch(input * scale.reciprocal())


@operator("(Tensor input, Tensor scale) -> Tensor")
def quantize_weight_fp8_with_scale(input: Tensor, scale: Tensor) -> Tensor:
    return quantize_fp8_with_scale(input, scale)


@operator("(Tensor input, Tensor scale) -> Tensor")
def dequantize_fp8_with_scale(input: Tensor, scale: Tensor) -> Tensor:
    return input.to(scale.dtype) * scale
