# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts as libraries write them: counts by bins, rows in groups, one product each."""

import random

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre


def bins_of_a_device(values, bins, low, high):
    """What kernels of devices count for integers; the CPU has none."""
    counts = [0] * bins
    for value in values.flatten().tolist():
        if low <= value <= high:
            counts[min((value - low) * bins // (high - low), bins - 1)] += 1
    return torch.tensor(counts, dtype=values.dtype)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.float32])
def test_counts_by_bins(dtype):
    draw = random.Random(3)
    torch.manual_seed(3)
    for _ in range(25):
        count, bins = draw.choice([1, 64, 100, 1000]), draw.choice([1, 2, 7, 60, 128])
        low = draw.randint(5, 9)
        high = low + draw.randint(1, 40)
        if dtype is torch.float32:
            values = torch.randn(count) * 15 + 10
            expected = torch.histc(values, bins, low, high)
        else:
            values = torch.randint(low - 5, high + 6, (count,)).to(dtype)
            expected = bins_of_a_device(values, bins, low, high)
        found = torch.histc(values.to("spyre"), bins, low, high)
        assert found.dtype == dtype
        assert torch.equal(found.cpu(), expected), (count, bins, low, high)


def test_wrong_bins():
    for dtype in (torch.int32, torch.float16):
        x = torch.ones(3, dtype=dtype, device="spyre")
        with pytest.raises(RuntimeError, match="bins must be > 0"):
            torch.histc(x, 0)
        with pytest.raises(RuntimeError, match="max must be larger than min"):
            torch.histc(x, 3, 2, 1)


def in_groups(rows, matrices, ends):
    """In float32; rows behind the last group are 0."""
    result, start = torch.zeros(rows.shape[0], matrices.shape[2]), 0
    for matrix, end in zip(matrices.float(), ends.tolist(), strict=True):
        result[start:end] = rows[start:end].float() @ matrix
        start = end
    return result


def drawn(draw, dtype):
    groups, count = draw.choice([1, 2, 4, 8, 60]), draw.choice([1, 3, 17, 64, 100, 700])
    width, columns = draw.choice([8, 64, 72]), draw.choice([8, 40, 64])
    ends = sorted(draw.randint(0, count) for _ in range(groups))
    if draw.random() < 0.6:
        ends[-1] = count
    rows = torch.randn(count, width, dtype=dtype)
    matrices = torch.randn(groups, columns, width, dtype=dtype) / width**0.5
    return rows, matrices.transpose(1, 2), torch.tensor(ends, dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_in_groups(dtype):
    draw = random.Random(5)
    torch.manual_seed(5)
    for _ in range(20):
        given = drawn(draw, dtype)
        found = F.grouped_mm(*(t.to("spyre") for t in given[:2]), offs=given[2].to("spyre"))
        torch.testing.assert_close(found.float().cpu(), in_groups(*given), atol=0.02, rtol=0.02)


def test_rows_in_groups_compiled_are_one_program():
    draw = random.Random(7)
    torch.manual_seed(7)
    for _ in range(4):
        torch._dynamo.reset()
        given = drawn(draw, torch.bfloat16)
        product = torch.compile(lambda a, b, offs: F.grouped_mm(a, b, offs=offs) + 1)
        found = product(*(t.to("spyre") for t in given))
        assert torch_spyre.last_report().host_ops == []
        expected = in_groups(*given) + 1
        torch.testing.assert_close(found.float().cpu(), expected, atol=0.03, rtol=0.02)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_rows_in_groups(compiled):
    torch.manual_seed(2)
    torch._dynamo.reset()
    ends = torch.tensor([5, 5, 12, 20], dtype=torch.int32)
    rows = torch.randn(20, 64, dtype=torch.bfloat16)
    matrices = torch.randn(4, 64, 32, dtype=torch.bfloat16)
    a, b = (t.to("spyre").requires_grad_() for t in (rows, matrices))

    def loss(a, b, offs):
        return F.grouped_mm(a, b, offs=offs).float().square().sum()

    (torch.compile(loss) if compiled else loss)(a, b, ends.to("spyre")).backward()
    x, y = (t.float().requires_grad_() for t in (rows, matrices))
    parts = [x[:5] @ y[0], x[5:12] @ y[2], x[12:] @ y[3]]
    torch.cat(parts).square().sum().backward()
    torch.testing.assert_close(a.grad.float().cpu(), x.grad, atol=0.5, rtol=0.03)
    torch.testing.assert_close(b.grad.float().cpu(), y.grad, atol=0.5, rtol=0.03)
