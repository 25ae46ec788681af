# SPDX-License-Identifier: Apache-2.0
"""Bags of embeddings, points of images and their gradients are computed on the card."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

INDICES = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9])
OFFSETS = torch.tensor([0, 3, 3, 9])  # the second bag is empty


def check(
    function: Callable[..., torch.Tensor], *operands: torch.Tensor, is_compiled: bool = False
) -> None:
    """Results and gradients against float64, on the operands as the card holds them."""
    halves = [x.half().to("spyre").cpu() for x in operands]
    exact = [x.double().requires_grad_() for x in halves]
    card = [x.to("spyre").requires_grad_() for x in halves]
    torch._dynamo.reset()
    with torch_spyre.fallback("error"):
        actual = (torch.compile(function) if is_compiled else function)(*card)
        expected = function(*exact)
        weights = torch.linspace(0.5, 1, expected.numel()).reshape(expected.shape).half()
        actual.backward(weights.to("spyre"))
    expected.backward(weights.double())
    found, wanted = [actual.detach(), *(x.grad for x in card)], [expected, *(x.grad for x in exact)]
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            bound = 4e-3 * other.abs().amax().item() + 1e-3
            assert (one.cpu().double() - other).abs().max().item() <= bound


def bags(mode: str, **options: object) -> Callable[..., torch.Tensor]:
    def function(table: torch.Tensor, factors: torch.Tensor | None = None) -> torch.Tensor:
        given = {**options, "per_sample_weights": factors} if factors is not None else options
        return F.embedding_bag(
            INDICES.to(table.device), table, OFFSETS.to(table.device), mode=mode, **given
        )

    return function


TABLE = torch.randn(12, 70, generator=torch.Generator().manual_seed(1))
FACTORS = torch.linspace(-1, 1, len(INDICES))
BAGS = {
    "sum": (bags("sum"), TABLE),
    "mean": (bags("mean", padding_idx=5), TABLE),
    "max": (bags("max"), TABLE),
    "factors": (bags("sum"), TABLE, FACTORS),
    "end": (bags("sum", include_last_offset=True), TABLE),
    "rows": (lambda t: F.embedding_bag(INDICES[:12].reshape(3, 4).to(t.device), t), TABLE),
    "means of rows": (
        lambda t: F.embedding_bag(INDICES[:12].reshape(3, 4).to(t.device), t, mode="mean"),
        TABLE,
    ),
    "rows by factors": (
        lambda t, f: F.embedding_bag(
            INDICES[:12].reshape(4, 3).to(t.device),
            t,
            mode="sum",
            per_sample_weights=f.reshape(4, 3),
        ),
        TABLE,
        FACTORS[:12],
    ),
    "by frequency": (
        lambda t: F.embedding(INDICES.to(t.device), t, 5, scale_grad_by_freq=True),
        TABLE,
    ),
    "one index": (lambda t: F.embedding(INDICES[0].to(t.device), t), TABLE),
}


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", BAGS)
def test_bags(name: str, is_compiled: bool) -> None:
    function, *operands = BAGS[name]
    check(function, *operands, is_compiled=is_compiled)


@pytest.mark.parametrize("offsets", ([0, 14], [1, 2]), ids=str)
def test_offsets_beyond_the_indices_are_faults(offsets: list[int]) -> None:
    table, card = torch.ones(12, 3).half(), torch.ones(12, 3).half().to("spyre")
    with torch_spyre.fallback("error"), pytest.raises(RuntimeError, match="outside 0"):
        F.embedding_bag(INDICES.to("spyre"), card, torch.tensor(offsets).to("spyre")).cpu()
    assert torch.equal((card + 1).cpu(), table + 1)  # the device stays usable


@pytest.mark.parametrize("order", (1.0, 2.0))
def test_rows_are_cut_to_a_norm(order: float) -> None:
    table, card = TABLE.half(), TABLE.half().to("spyre")
    expected = table.float()
    F.embedding(INDICES, expected, max_norm=3.0, norm_type=order)
    with torch_spyre.fallback("error"):
        F.embedding(INDICES.to("spyre"), card, max_norm=3.0, norm_type=order)
    assert torch.allclose(card.cpu().float(), expected, rtol=2e-3, atol=1e-3)


def grids(mode: str, padding: str, align: bool) -> Callable[..., torch.Tensor]:
    def function(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, align)

    return function


MODES = list(
    itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    )
)


@pytest.mark.parametrize("how", MODES, ids=str)
def test_points_of_images(how: tuple[str, str, bool]) -> None:
    torch.manual_seed(2)
    image, grid = torch.randn(2, 3, 6, 7), torch.rand(2, 4, 5, 2) * 2.6 - 1.3
    check(grids(*how), image, grid)


@pytest.mark.parametrize("how", [MODES[0], MODES[5], MODES[8]], ids=str)
def test_points_of_images_compiled(how: tuple[str, str, bool]) -> None:
    torch.manual_seed(3)
    image, grid = torch.randn(1, 2, 5, 6), torch.rand(1, 3, 4, 2) * 2.6 - 1.3
    check(grids(*how), image, grid, is_compiled=True)


@pytest.mark.parametrize("mode", ("bilinear", "nearest"))
def test_points_of_volumes(mode: str) -> None:
    torch.manual_seed(4)
    image, grid = torch.randn(1, 2, 4, 5, 3), torch.rand(1, 2, 3, 3, 3) * 2.4 - 1.2
    check(grids(mode, "reflection", False), image, grid)


def test_halves_go_to_even_places() -> None:
    """Of an image of 8 columns whose points lie between two of them."""
    image = torch.arange(8.0).reshape(1, 1, 1, 8)
    points = (torch.arange(-1, 9) + 0.5) * 2 / 7 - 1
    grid = torch.stack([points, torch.zeros_like(points)], -1).reshape(1, 1, 10, 2)
    torch._dynamo.reset()
    with torch_spyre.fallback("error"), torch_spyre.config.patch(profile="extended"):
        actual = F.grid_sample(image.to("spyre"), grid.to("spyre"), "nearest", "border", True)
    assert torch.equal(actual.cpu(), F.grid_sample(image, grid, "nearest", "border", True))


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_what_follows_from_a_written_view(is_compiled: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        source = x.flatten()[:4].reshape(2, 2) * 2
        return torch.as_strided_scatter(x, source, (2, 2), (1, 3), 1)

    check(function, TABLE[:6, :8], is_compiled=is_compiled)


def test_gradients_of_transposed_volumes() -> None:
    torch.manual_seed(5)
    x, weight = torch.randn(1, 4, 3, 4, 4), torch.randn(4, 3, 3, 3, 3) * 0.2
    check(lambda x, w: F.conv_transpose3d(x, w, stride=2, padding=1), x, weight)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("sizes", [(2, 1, 4, 5), (1, 3, 4, 5), (2, 3, 1, 5), (1, 1, 3, 1)])
def test_images_of_one_channel_have_the_strides_of_pytorch(sizes, dtype, compiled):
    """By them a convolution tells the memory format of its result."""
    x, grid = torch.randn(sizes), torch.rand(sizes[0], 3, 6, 2) * 2 - 1

    def sample(x, grid):
        return F.grid_sample(x, grid, align_corners=False)

    torch._dynamo.reset()
    function = torch.compile(sample) if compiled else sample
    found = function(x.to("spyre", dtype), grid.to("spyre", dtype))
    expected = sample(x, grid)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found.cpu().float(), expected, atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("width", [64, 100])
def test_sums_of_rows_that_go_to_one(dtype: torch.dtype, width: int) -> None:
    times = torch.tensor([1, 3, 4, 5, 32, 40, 2, 9])
    to = torch.arange(len(times)).repeat_interleave(times)
    rows = torch.randint(-3, 4, (len(to), width)).to(dtype)
    start = torch.randint(-3, 4, (len(times), width)).to(dtype)
    found = torch.index_add(start.to("spyre"), 0, to.to("spyre"), rows.to("spyre"))
    assert torch.equal(found.cpu(), torch.index_add(start, 0, to, rows))
