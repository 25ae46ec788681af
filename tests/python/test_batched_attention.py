# SPDX-License-Identifier: Apache-2.0
"""Attention under torch.vmap is one node of all samples, and so is its gradient."""

import pytest
import torch
import torch_spyre
from torch.func import grad, jacrev, vmap
from torch.nn.functional import scaled_dot_product_attention as attend

SAMPLES, SIZES = 3, (2, 4, 8, 16)


def squares(*operands, **options):
    return (attend(*operands, **options).float() ** 2).sum()


def of_mask(dims):
    def gradients(q, k, v, mask):
        def loss(mask, q, k, v):
            return squares(q, k, v, attn_mask=mask)

        return vmap(grad(loss), (dims, 0, 0, 0))(mask, q, k, v)

    return gradients


def with_mask(q, k, v, mask):
    return vmap(lambda q, k, v, m: attend(q, k, v, attn_mask=m))(q, k, v, mask)


CASES = {
    "all": (lambda q, k, v: vmap(attend)(q, k, v), ()),
    "queries alone": (lambda q, k, v: vmap(attend, (0, None, None))(q, k[0], v[0]), ()),
    "another dim": (lambda q, k, v: vmap(attend, (1, 1, 1), 1)(q, k, v), ()),
    "heads": (lambda q, k, v: vmap(attend)(q[:, 0], k[:, 0], v[:, 0]), ()),
    "rows": (lambda q, k, v: vmap(attend)(q[:, 0, 0], k[:, 0, 0], v[:, 0, 0]), ()),
    "grouped heads": (
        lambda q, k, v: vmap(lambda *x: attend(*x, enable_gqa=True))(
            q[:, 0], k[:, 0, :2], v[:, 0, :2]), ()),
    "gradients of heads": (
        lambda q, k, v: torch.cat(
            vmap(grad(squares, argnums=(0, 1, 2)))(q[:, 0], k[:, 0], v[:, 0]), -1), ()),
    "gradients of rows": (
        lambda q, k, v: vmap(grad(squares, 1), (0, None, 0))(q[:, 0, 0], k[0, 0, 0], v[:, 0, 0]),
        ()),
    "gradients of heads' masks": (
        lambda q, k, v, m: of_mask(0)(q[:, 0], k[:, 0], v[:, 0], m), (SAMPLES, 4, 8, 8)),
    "gradients of heads' mask": (
        lambda q, k, v, m: of_mask(None)(q[:, 0], k[:, 0], v[:, 0], m), (8, 8)),
    "nested": (
        lambda q, k, v: vmap(vmap(attend, (0, None, None)))(torch.stack((q, 2 * q), 1), k, v), ()),
    "grouped": (
        lambda q, k, v: vmap(lambda *x: attend(*x, enable_gqa=True))(q, k[:, :, :2], v[:, :, :2]),
        (),
    ),
    "one mask": (
        lambda q, k, v, m: vmap(lambda *x: attend(*x, attn_mask=m))(q, k, v), (8, 8)),
    "masks": (with_mask, (SAMPLES, 1, 4, 8, 8)),
    "masks of two dims": (with_mask, (SAMPLES, 8, 8)),
    "gradients": (
        lambda q, k, v: torch.cat(vmap(grad(squares, argnums=(0, 1, 2)))(q, k, v), -1), ()),
    "causal gradients": (
        lambda q, k, v: vmap(grad(lambda *x: squares(*x, is_causal=True), 1))(q, k, v), ()),
    "gradients of one key": (
        lambda q, k, v: vmap(grad(squares, 1), (0, None, 0))(q, k[0], v), ()),
    "grouped gradients": (
        lambda q, k, v: vmap(grad(lambda *x: squares(*x, enable_gqa=True), 1))(
            q, k[:, :, :2], v[:, :, :2]), ()),
    "gradients of masks": (of_mask(0), (SAMPLES, 1, 4, 8, 8)),
    "gradients of masks of two dims": (of_mask(0), (SAMPLES, 8, 8)),
    "gradients of one mask": (of_mask(None), (8, 8)),
    "gradient of all samples": (
        lambda q, k, v: grad(lambda q: (vmap(attend)(q, k, v).float() ** 2).sum())(q), ()),
    "jacobian": (
        lambda q, k, v: jacrev(lambda q: attend(q, k[0, :1, :1], v[0, :1, :1]))(q[0, :1, :1, :2]),
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_float32(name, compiled) -> None:
    function, mask = CASES[name]
    operands = [torch.randn(SAMPLES, *SIZES).half() for _ in range(3)]
    operands += [torch.randn(mask).half()] if mask else []
    expected = function(*(x.float() for x in operands))
    torch._dynamo.reset()
    called = torch.compile(function, dynamic=False) if compiled else function
    found = called(*(x.to("spyre") for x in operands)).cpu().float()
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 2**-7 * expected.abs().max()


def test_samples_are_one_node() -> None:
    operands = [torch.randn(SAMPLES, *SIZES).half().to("spyre") for _ in range(3)]
    torch._dynamo.reset()
    torch.compile(lambda *x: vmap(attend)(*x), dynamic=False)(*operands)
    report = torch_spyre.last_report()
    assert report.nodes_on_host == 0
    assert report.text.count("aten.scaled_dot_product_attention.default") == 1
