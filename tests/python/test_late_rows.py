# SPDX-License-Identifier: Apache-2.0
"""Tensors whose rows are computed when they are read: they are as any other tensor."""

import copy
import io

import pytest
import torch
from torch_spyre.sendnn import late_rows


@pytest.fixture
def both():
    """A tensor, the same one late, and what was asked of that: rows, None for all."""
    plain, asked = torch.randn(2, 8, 5), []
    values = plain.clone()

    def compute(wanted):
        asked.append(wanted)
        rows = values.flatten(0, 1)
        return rows if wanted is None else rows[wanted]

    return plain, late_rows.LateRows.of(plain.shape, plain.dtype, compute), asked


FIRST = torch.tensor([True, False])
PLACES = torch.tensor([1, 0])


@pytest.mark.parametrize(
    "index, rows",
    [
        ((FIRST, -1, slice(None)), [7]),
        ((FIRST, -3), [5]),
        ((PLACES, torch.tensor([2, -1]), slice(None)), [10, 7]),
        ((slice(None), torch.tensor([0, 3])), [0, 3, 8, 11]),
        ((slice(None, 1), PLACES, slice(None)), [1, 0]),
        ((FIRST, None, 0), [0]),
        (torch.arange(16).view(2, 8) == 9, [9]),
        ((PLACES[:1], slice(1, 3)), [9, 10]),
    ],
)
def test_an_index_that_copies_computes_its_rows(both, index, rows):
    plain, late, asked = both
    assert torch.equal(late[index], plain[index])
    assert asked == [rows] and type(late[index]) is torch.Tensor


@pytest.mark.parametrize(
    "index",
    [
        -1, (0, -1), (slice(None), -1, slice(None)), Ellipsis, None, [0], (FIRST, Ellipsis),
        (PLACES, -1, 2), (PLACES, -1, slice(1, 3)), (FIRST, 0, PLACES[:1]), PLACES,
        (FIRST, -1, slice(None), None), FIRST & ~FIRST, (FIRST, True), torch.ones(2, 8, 5) > 0,
    ],
)  # fmt: skip
def test_any_other_index_is_that_of_all_values(both, index):
    plain, late, asked = both
    assert torch.equal(late[index], plain[index])
    assert asked == [None]


def test_an_index_that_does_not_fit(both):
    with pytest.raises(IndexError):
        both[1][PLACES + 1, 0]
    with pytest.raises(IndexError):
        both[1][FIRST, 8, :]


def test_it_tells_its_form_without_values(both):
    plain, late, asked = both
    assert (late.shape, late.dtype, late.device) == (plain.shape, plain.dtype, plain.device)
    assert (len(late), late.ndim, late.size(1), late.dim(), late.numel()) == (2, 3, 8, 3, 80)
    assert isinstance(late, torch.Tensor) and not late.requires_grad and not asked


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: torch.softmax(x, -1),
        lambda x: torch.cat([x, x]),
        lambda x: torch.ops.aten.mul.Tensor(x, 2),
        lambda x: x.view(-1)[3:],
        lambda x: torch.from_numpy(x.numpy()),
        lambda x: torch.tensor(x.tolist()),
        lambda x: torch.from_dlpack(x),
        lambda x: copy.deepcopy(x),
        lambda x: x.clone().copy_(x),
        lambda x: torch.zeros(2, 8, 5).copy_(x),
        lambda x: torch.stack(list(x)),
        lambda x: torch.nn.functional.linear(x, torch.ones(3, 5)),
        lambda x: torch.frombuffer(bytearray(x.numpy().tobytes()), dtype=torch.float32),
    ],
)
def test_it_is_used_as_its_values(both, use):
    plain, late, asked = both
    assert torch.equal(use(late), use(plain)) and torch.equal(use(late), use(plain))
    assert asked == [None] and str(late) == str(plain)


def test_what_is_written_is_read(both):
    plain, late, _ = both
    for tensor in (plain, late):
        tensor[0, -1] = 7.0
        tensor[:, 2].mul_(3)
        tensor.add_(1)
    assert torch.equal(late[FIRST, -1, :], plain[FIRST, -1, :]) and torch.equal(late, plain)


def test_it_is_saved(both):
    plain, late, _ = both
    file = io.BytesIO()
    torch.save(late, file)
    file.seek(0)
    assert torch.equal(torch.load(file), plain)


def test_a_compiled_function_takes_it(both):
    plain, late, _ = both
    compiled = torch.compile(lambda x: x[:, -1] * 2, backend="eager")
    assert torch.equal(compiled(late), plain[:, -1] * 2)
