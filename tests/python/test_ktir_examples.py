# SPDX-License-Identifier: Apache-2.0
"""The examples of torch-spyre/ktir-cpu, whose checkout KTIR_CPU names: text, bytes by both ways,
PyTorch's results."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch_spyre.ktir as ktir

CHECKOUT = os.environ.get("KTIR_CPU", "")
EXAMPLES = sorted(
    p for p in Path(CHECKOUT, "examples").rglob("*") if p.suffix in (".mlir", ".ktir")
)
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="KTIR_CPU names no checkout of ktir-cpu")

Tensors = dict[str, torch.Tensor]
MOST_INTERPRETED = 1 << 19  # elements: the interpreter takes minutes for more


def _half(*shape: int) -> torch.Tensor:
    return torch.randn(shape).half()


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return x.float().softmax(-1)


def _attention(t: Tensors) -> torch.Tensor:
    q, k, v = (t[n].float() for n in ("q_ptr", "k_ptr", "v_ptr"))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _swiglu(t: Tensors) -> torch.Tensor:
    x, gate, up, down = (t[f"{n}_ptr"].float() for n in ("x", "w_gate", "w_up", "w_down"))
    return x + (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down


def _rms_norm(t: Tensors) -> torch.Tensor:
    x = t["X"].float()
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3) * t["W"].float()


def _layer_norm(t: Tensors) -> torch.Tensor:
    x = t["X"].float()
    normed = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-3)
    return normed * t["W"].float() + t["B"].float()


def _rope(t: Tensors) -> torch.Tensor:
    x, cos, sin = t["x_ptr"].float(), t["cos_ptr"].float(), t["sin_ptr"].float()
    first, second = x.view(-1, 4096, 128)[..., :64], x.view(-1, 4096, 128)[..., 64:]
    turned = torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
    return turned.view(-1, 128)


def _paged(t: Tensors) -> torch.Tensor:
    """Eight queries at positions 24 to 31 of 32, four heads to a head of keys."""
    pages = t["block_tables_ptr"].view(-1)[:2].long()
    k, v = (t[n][pages].reshape(32, 8, 128).float() for n in ("key_cache_ptr", "value_cache_ptr"))
    q = t["query_ptr"].float().view(8, 8, 4, 128)
    scores = torch.einsum("qhgd,khd->qhgk", q, k) * 0.08
    later = torch.arange(32) > (torch.arange(8) + 24)[:, None]
    scores = scores.masked_fill(later[:, None, None], float("-inf"))
    return torch.einsum("qhgk,khd->qhgd", scores.softmax(-1), v).reshape(8, 32, 128)


# File, inputs, numbers, the output and what it is.
Case = tuple[dict, dict, str, tuple[int, ...], Callable[[Tensors], torch.Tensor]]
_BLOCKS = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 512, "BLOCK_SIZE_K": 128}
CASES: dict[str, Case] = {
    "triton-ktir/vector_add_ktir": (
        {"x_ptr": (4096,), "y_ptr": (4096,)},
        {"BLOCK_SIZE": 128},
        "output_ptr",
        (4096,),
        lambda t: t["x_ptr"] + t["y_ptr"],
    ),
    "triton-ktir/softmax_fwd_ktir": (
        {"input_ptr": (4096, 1024)},
        {"n_rows": 4096},
        "output_ptr",
        (4096, 1024),
        lambda t: _softmax(t["input_ptr"]),
    ),
    "latency/softmax_small": (
        {"input_ptr": (64, 64)},
        {"n_rows": 64},
        "output_ptr",
        (64, 64),
        lambda t: _softmax(t["input_ptr"]),
    ),
    "triton-ktir/layernorm_fwd_ktir": (
        {"X": (1151, 8192), "W": (1151, 8192), "B": (1151, 8192), "Mean": (1151,), "Rstd": (1151,)},
        {"N": 8192, "eps": 1e-3, "BLOCK_SIZE": 1024},
        "Y",
        (1151, 8192),
        _layer_norm,
    ),
    "triton-ktir/matmul_fwd_ktir": (
        {"a_ptr": (64, 2048), "b_ptr": (2048, 8192)},
        {"K": 2048, **_BLOCKS},
        "c_ptr",
        (64, 8192),
        lambda t: t["a_ptr"].float() @ t["b_ptr"].float(),
    ),
    "triton-ktir/sdpa_2d": (
        {"q_ptr": (32, 64), "k_ptr": (32, 64), "v_ptr": (32, 64)},
        {},
        "output_ptr",
        (32, 64),
        _attention,
    ),
    "latency/rope_fwd_4x2": (
        {"x_ptr": (163840, 128), "cos_ptr": (4096, 64), "sin_ptr": (4096, 64)},
        {},
        "out_ptr",
        (163840, 128),
        _rope,
    ),
    "latency/rmsnorm_4core_4x1": (
        {"X": (256, 4096), "W": (256, 4096)},
        {"N": 4096, "eps": 1e-3, "BLOCK_SIZE": 1024},
        "Y",
        (256, 4096),
        _rms_norm,
    ),
    "ktir/ring_reduce": (
        {"in_ptr": (4, 128)},
        {},
        "out_ptr",
        (1, 128),
        lambda t: t["in_ptr"].float().sum(0, keepdim=True),
    ),
    "ktir/ffn_swiglu": (
        {"x_ptr": (1, 64), "w_gate_ptr": (64, 128), "w_up_ptr": (64, 128), "w_down_ptr": (128, 64)},
        {},
        "out_ptr",
        (1, 64),
        _swiglu,
    ),
    "triton-ktir/paged_attention": (
        {
            "query_ptr": (8, 32, 128),
            "key_cache_ptr": (64, 16, 8, 128),
            "value_cache_ptr": (64, 16, 8, 128),
        },
        {
            "cur_batch_start_index": 0,
            "block_table_offset": 0,
            "num_tiles": 2,
            "context_len": 24,
            "scale": 0.08,
        },
        "output_ptr",
        (8, 32, 128),
        _paged,
    ),
    "triton-ktir/indexed_add": (
        {"x_ptr": (128, 64, 8, 128), "y_ptr": (2, 32, 8, 128)},
        {"dim1_start": 0},
        "output_ptr",
        (2, 32, 8, 128),
        lambda t: t["x_ptr"][t["index_ptr"], :32].float() + t["y_ptr"].float(),
    ),
    "rfc/add-with-control-flow": (
        {"A_view": (96, 64), "B_view": (96, 64)},
        {},
        "C_view",
        (96, 64),
        lambda t: t["A_view"] + t["B_view"],
    ),
}
INDICES = {
    "block_tables_ptr": torch.arange(16, dtype=torch.int32).mul(3).view(1, 16),
    "index_ptr": torch.tensor([5, 77]),
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_text(path: Path) -> None:
    kernel = ktir.load(path)
    assert str(ktir.loads(str(kernel))) == str(kernel)


@pytest.mark.parametrize("name", CASES)
def test_run(name: str) -> None:
    torch.manual_seed(0)
    inputs, numbers, output, shape, expected = CASES[name]
    kernel = ktir.load(Path(CHECKOUT, "examples", f"{name}.mlir"))
    tensors = {k: _half(*s) / (8 if k.startswith("w_") else 1) for k, s in inputs.items()}
    parameters = {p.name for p in kernel.functions[0].parameters}
    tensors |= {k: v for k, v in INDICES.items() if k in parameters}
    grid = () if kernel.functions[0].grid else (32,)
    small = sum(t.numel() for t in tensors.values()) <= MOST_INTERPRETED
    outputs = []
    for interpret in (False, True) if small else (False,):
        out = torch.zeros(shape).half()
        kernel.run(interpret=interpret, grid=grid, **tensors, **numbers, **{output: out})
        outputs.append(out)
    assert torch.equal(outputs[0], outputs[-1])
    wanted = expected(tensors).float()
    scale = float(wanted.abs().max())
    torch.testing.assert_close(outputs[0].float(), wanted, atol=2e-2 * scale, rtol=2e-2)
