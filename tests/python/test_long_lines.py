# SPDX-License-Identifier: Apache-2.0
"""Signals: one line, or a few, of many elements, of which programs take parts that begin inside of
sticks. Small whole numbers, so that results are exact in every dtype."""

import random

import pytest
import torch
import torch_spyre  # noqa: F401  (registers the device)

functional = torch.nn.functional
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.int64]


def _slices(x, at):
    return x[..., at:] + x[..., : x.shape[-1] - at]


def _between(x, at):
    return x[..., at:-7] - x[..., 7 : x.shape[-1] - at]


def _joined(x, at):
    return torch.cat([x[..., :at], x, x[..., at : 5 * at]], -1)


def _joined_results(x, at):
    return torch.cat([x[..., :at] * 2, x[..., at:] - x[..., :-at]], -1)


def _padded(x, at):
    return functional.pad(x, (at, 3))


def _every_second(x, at):
    return x[..., at::2] + 1


def _every_fifth(x, at):
    y = x[..., at::5]
    return y - x[..., : 5 * y.shape[-1] : 5]


def _written(x, at):
    y = x.clone()
    y[..., at:-at] += x[..., 2 * at :]
    return y


def _rolled(x, at):
    return x.roll(at, -1) * 2


def _stacked(x, at):
    return torch.stack([x[..., at:], x[..., : x.shape[-1] - at]], -2)


def _rows_of_ten(x, at):
    n = (x.shape[-1] - at) // 10
    return x[..., at : at + 10 * n].reshape(*x.shape[:-1], n, 10) + 1


def _frames(x, at):
    return x.unfold(-1, 96 + at % 7, 40) * 2


def _spread_frames(x, at):
    return x[..., at:].unfold(-1, 5, 12).clone()


def _pairs(x, at):
    even = x[..., : x.shape[-1] // 6 * 6].reshape(*x.shape[:-1], -1, 6)
    return even[..., 1:3] - even[..., 4:]


def _largest(x, at):
    return functional.max_pool1d(x.reshape(1, -1, x.shape[-1]).half(), 3, at % 3 + 1)


FORMS = {form.__name__[1:]: form for form in (
    _slices, _between, _joined, _joined_results, _padded, _every_second, _every_fifth, _written,
    _rolled, _stacked, _rows_of_ten, _frames, _spread_frames, _pairs, _largest,
)}  # fmt: skip


def _line(rng, dtype):
    rows = rng.choice([(), (1,), (2,), (3,), (8,), (2, 3)])
    length = rng.choice([1025, 4096, 5000, rng.randrange(2000, 9000)])
    shape = (*rows, length)
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(length)).to(dtype)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FORMS)
def test_parts_of_lines(name, compiled):
    rng = random.Random(name + str(compiled))
    form = FORMS[name]
    for dtype in DTYPES if not compiled else rng.sample(DTYPES, 2):
        x, at = _line(rng, dtype), rng.choice([1, 37, 63, 64, 65, 400])
        run = torch.compile(form, backend="inductor", dynamic=False) if compiled else form
        result = run(x.to("spyre"), at).cpu()
        assert torch.equal(result, form(x, at)), (name, dtype, tuple(x.shape), at)


def test_a_part_of_a_line_moves_no_more_than_the_line():
    """One element a stick was 64 times the bytes."""
    x = torch.ones(100_000, dtype=torch.float16).to("spyre")
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()
    (x[1:] - x[:-1]).cpu()
    torch.cat([x, x[:33], x]).cpu()
    assert torch.spyre.max_memory_allocated() - before < 12 * x.numel() * x.element_size()
