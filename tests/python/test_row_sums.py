# SPDX-License-Identifier: Apache-2.0
"""Sums over many rows that have values of their own are summed in 32 parts first."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch


def scaled(x: torch.Tensor) -> torch.Tensor:
    rows = x.float()
    return rows * rows.square().mean(-1, keepdim=True).rsqrt()


def exact_numbers(size: tuple[int, ...]) -> torch.Tensor:
    """Of 9 bits, which the card's 16-bit format has."""
    torch.manual_seed(0)
    return (torch.randint(-255, 256, size) / 64).half()


def on_card(function, *tensors: torch.Tensor) -> torch.Tensor:
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)(*(x.to("spyre") for x in tensors)).cpu()


SIZES = [(1024, 96), (4096, 200), (32, 128, 70), (8, 64, 130), (4, 16, 8, 256)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_are_those_of_the_parts(size: tuple[int, ...], keepdim: bool) -> None:
    x = exact_numbers(size)
    dims = tuple(range(len(size) - 1))
    got = on_card(lambda x: scaled(x).sum(dims, keepdim=keepdim), x)
    parts = on_card(lambda x: scaled(x).view(32, -1, size[-1]).sum(1), x)
    step = on_card(lambda x: x.sum(0), parts)
    wanted = scaled(x.double()).sum(dims, keepdim=keepdim)
    assert got.shape == wanted.shape and got.dtype == torch.float32
    assert torch.equal(got.flatten(), step)
    assert (got - wanted).abs().max() < 2e-6 * len(x.flatten()) ** 0.5


@pytest.mark.parametrize("size", SIZES)
def test_sums_beside_values_of_rows(size: tuple[int, ...]) -> None:
    """As the gradient of a norm's bias sums what its input's gradient scales row by row."""
    x = exact_numbers(size) * 2.0 ** torch.randint(-8, 14, size)
    x = x.half()
    dims = tuple(range(len(size) - 1))

    def beside(x: torch.Tensor) -> torch.Tensor:
        return torch.cat((x.float().sum(dims), scaled(x).flatten()))

    def before(x: torch.Tensor) -> torch.Tensor:
        return torch.cat((scaled(x).flatten(), x.float().sum(dims)))

    got = on_card(before, x)[-size[-1] :]
    parts = on_card(lambda x: x.float().view(32, -1, size[-1]).sum(1), x)
    assert torch.equal(got, on_card(lambda x: x.sum(0), parts))
    wanted, sizes = x.double().sum(dims), x.double().abs().sum(dims)
    for sums in (got, on_card(beside, x)[: size[-1]]):
        assert ((sums - wanted).abs() < 1e-6 * sizes).all()


@pytest.mark.parametrize("size", [(1000, 96), (33, 64, 70), (512, 64), (2, 2048, 3)])
def test_sums_of_other_numbers_of_rows(size: tuple[int, ...]) -> None:
    x = exact_numbers(size)
    dims = tuple(range(len(size) - 1))
    got = on_card(lambda x: scaled(x).sum(dims), x)
    wanted = scaled(x.double()).sum(dims)
    assert (got - wanted).abs().max() < 2e-6 * len(x.flatten()) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [(64, 2048), (2048, 100), (8, 16, 1024), (3, 70000)])
def test_sums_of_everything_round_once(size: tuple[int, ...], dtype: torch.dtype) -> None:
    x = (exact_numbers(size).float() * 0.25 + 1.5).to(dtype)
    mean, total, largest = on_card(lambda x: torch.stack((x.mean(), x.sum() / 64, x.max())), x)
    wanted = x.double()
    for got, exact in zip(
        (mean, total, largest), (wanted.mean(), wanted.sum() / 64, wanted.max()), strict=True
    ):
        assert abs(got.double() - exact) <= 2**-8 * abs(exact), (got, exact)
    assert largest == x.max()


@pytest.mark.parametrize("size", [(64, 2048), (7, 33000)])
def test_integers_of_everything_are_exact(size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randint(-9000, 9000, size)
    total, largest = on_card(lambda x: torch.stack((x.sum(), x.max())), x)
    assert total == x.sum() and largest == x.max()


def test_rows_that_no_block_divides_are_taken_in_blocks(tmp_path, monkeypatch) -> None:
    """197 rows a core: blocks of one were all that divided them, and those of all cores are one
    fusion, since the results become one line."""
    x = torch.randint(-9, 10, (32 * 197, 192), generator=torch.Generator().manual_seed(0)).half()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SPYRE_KERNEL_FILES", "1")
    got = on_card(lambda x: x.var(-1), x)
    torch.testing.assert_close(got, x.double().var(-1).half(), rtol=2e-3, atol=2e-3)
    (program,) = tmp_path.rglob("init.bin")
    command = [pathlib.Path(sys.executable).parent / "spyre", "inspect", "--plan", program]
    plan = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(re.findall(r"groups of 197, blocks of (\d+)", plan)[-1]) >= 16
