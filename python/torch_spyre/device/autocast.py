# SPDX-License-Identifier: Apache-2.0
"""`torch.autocast("spyre")`: matrix operators in the low dtype, functions whose range float16
cannot hold in float32, everything else as it comes. The lists are those of PyTorch's own devices
(pytorch/pytorch, aten/src/ATen/autocast_mode.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._pytorch import pytree
from .._pytorch.dispatch import OpOverload, without_autocast

_aten = torch.ops.aten

LOW = """
_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv
linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
_thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
_scaled_dot_product_flash_attention scaled_dot_product_attention
""".split()

FLOAT32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm cosine_similarity
poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
logsumexp prod softmax.int log_softmax.int cumprod cumsum sum sum.dim_IntList norm.Scalar
""".split()


def _kernel(op: OpOverload, chosen_dtype: Callable[[], torch.dtype]) -> Callable[..., Any]:
    def cast(value: object) -> object:
        if not isinstance(value, torch.Tensor) or value.device.type != "spyre":
            return value
        return value.to(chosen_dtype()) if value.is_floating_point() else value

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with without_autocast():
            args, kwargs = pytree.tree_map(cast, (args, kwargs))
            return op(*args, **kwargs)

    return kernel


def register() -> list[torch.library.Library]:
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
    for names, dtype in (
        (LOW, lambda: torch.get_autocast_dtype("spyre")),
        (FLOAT32, lambda: torch.float32),
    ):
        for name in names:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(_aten, packet, None), overload or "default", None)
            if op is not None:
                aten.impl(name, _kernel(op, dtype))
    return [rest, aten]
