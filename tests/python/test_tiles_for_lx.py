# SPDX-License-Identifier: Apache-2.0
"""What passes between ops in tiles, because LX is small, has the values of one piece."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from torch_spyre import config

LITTLE = 0.998  # of LX is the back-end's: 4 KiB a core are left


def _scatter_and_scale(x, index):
    """Zeros that a scatter writes into before they are read."""
    y = torch.zeros_like(x).scatter(1, index, 2.0)
    return (y * x - y.exp() * x.sigmoid()) * 0.5


def _loss_gradient(x, index):
    return torch.func.grad(lambda x: F.cross_entropy(x, index[:, 0], reduction="sum"))(x)


def _norm_gradient(x, index):
    def norm(x):
        return (F.layer_norm(x, x.shape[-1:]) * x.sigmoid()).sum()

    return torch.func.grad(norm)(x) + index[:, :1]


def _column_softmax(x, index):
    return x.softmax(0) * 8 + (x - x.mean(0)).tanh()


def _written_pieces(x, index):
    y = x.exp()
    z = torch.cat((y[:, :64] * 2, y[:, 64:].tanh()), 1)
    return z - y + z.roll(1, 1)


def _bags(x, index):
    return F.embedding_bag(index.reshape(64, 8), x, mode="sum") * 0.5


def _rows_of_what_is_made(x, index):
    """Any tile may want any row of the table."""
    rows = x.exp()[(index[:, 0] * 2 + 1) % 512]
    return rows * x - rows.tanh()


def _elements(x, index):
    chosen = x.gather(1, (index + torch.arange(256, device=x.device)) % 256)
    return chosen * x - chosen.sigmoid()


def _rms_norm(x, index):
    return F.rms_norm(x, (256,), x[0].abs() + 0.5)


def _batch_norm(x, index):
    maps = x.view(8, 64, 16, 16)
    return F.batch_norm(maps, None, None, x[0, :64], x[1, :64], training=True)


def _group_norm(x, index):
    return F.group_norm(x.view(8, 64, 16, 16), 4, x[0, :64], x[1, :64])


@pytest.mark.parametrize("function", [_rms_norm, _batch_norm, _group_norm])
@pytest.mark.parametrize("little", [0.99, LITTLE])
def test_norms_in_tiles_have_the_values_of_one_piece(function, little):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(512, 256, generator=generator).half()
    index = torch.zeros(512, 1, dtype=torch.int64)
    whole = torch.compile(function)(x.to("spyre"), index.to("spyre")).cpu()
    torch._dynamo.reset()
    with config.patch(dxp_lx_frac_avail=little):
        tiled = torch.compile(function)(x.to("spyre"), index.to("spyre")).cpu()
    torch.testing.assert_close(tiled, whole, rtol=2e-3, atol=2e-3)
    wide = x.float()
    torch.testing.assert_close(tiled.float(), function(wide, index), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "function",
    [
        _scatter_and_scale, _loss_gradient, _norm_gradient, _column_softmax, _written_pieces,
        _bags, _rows_of_what_is_made, _elements,
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_tiles_have_the_values_of_one_piece(function, dtype):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(512, 256, generator=generator).to(dtype)
    index = torch.randint(256, (512, 1), generator=generator)
    operands = x.to("spyre"), index.to("spyre")
    whole = torch.compile(function)(*operands).cpu()
    kernels = torch_spyre.last_report().kernels
    torch._dynamo.reset()
    with config.patch(dxp_lx_frac_avail=LITTLE):
        tiled = torch.compile(function)(*operands).cpu()
    if function is not _written_pieces:  # two ops write one tensor, which stays whole
        assert torch_spyre.last_report().kernels > kernels
    torch.testing.assert_close(tiled, whole, rtol=2e-3, atol=2e-3)
