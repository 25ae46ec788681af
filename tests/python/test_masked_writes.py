# SPDX-License-Identifier: Apache-2.0
"""`x[.., mask] = values` where the values do not depend on how many places the mask has."""

import itertools

import pytest
import torch
import torch_spyre

# The shape of x, dims in front of the mask, dims of the mask.
PLACES = [((4, 6), 0, 1), ((4, 6), 1, 1), ((4, 6), 0, 2), ((3, 4, 70), 1, 1), ((3, 4, 70), 0, 2),
          ((2, 3, 4, 70), 1, 2), ((5,), 0, 1)]  # fmt: skip
DTYPES = [torch.float16, torch.float32, torch.int64, torch.bool]


def numbers(shape, dtype):
    return torch.randint(-8, 8, shape).to(dtype)


def shapes_of(shape, before, masked):
    """Of values: broadcast, with and without a dim for the mask's places."""
    behind = shape[before + masked :]
    yield ()
    for front, rest in itertools.product(
        (shape[:before], (1,) * before), (behind, (1,) * len(behind))
    ):
        yield (*front, 1, *rest)
    yield behind
    yield (1, *behind)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize(
    "dtype, accumulate", [*((d, False) for d in DTYPES), *((d, True) for d in DTYPES[:-1])]
)
def test_values_of_all_places_are_written_on_the_card(place, dtype, accumulate):
    shape, before, masked = place
    mask = torch.randint(0, 2, shape[before : before + masked]).bool()
    for given in shapes_of(*place):
        x, values = numbers(shape, dtype), numbers(given, dtype)
        wanted = x.clone()
        torch.ops.aten.index_put_(wanted, [*[None] * before, mask], values, accumulate)
        on_card, mask_there = x.to("spyre"), mask.to("spyre")
        torch.ops.aten.index_put_(
            on_card, [*[None] * before, mask_there], values.to("spyre"), accumulate
        )
        assert torch.equal(on_card.cpu(), wanted), given


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0], ids=["none", "some", "all"])
def test_each_place_gets_a_value_of_its_own(place, dtype, share):
    """How many places there are is read, as PyTorch does."""
    shape, before, masked = place
    mask = torch.rand(shape[before : before + masked]) < share
    indices = [*[None] * before, mask]
    rows = [*shape[:before], int(mask.sum()), *shape[before + masked :]]
    x, values = numbers(shape, dtype), numbers(rows, dtype)
    wanted, on_card = x.clone(), x.to("spyre")
    torch.ops.aten.index_put_(wanted, indices, values)
    torch.ops.aten.index_put_(
        on_card, [*[None] * before, mask.to("spyre")], values.to("spyre"), False
    )
    assert torch.equal(on_card.cpu(), wanted)


def test_a_mask_of_bytes_stays_on_the_card():
    """PyTorch's old form of a mask: one warning for each, PyTorch's."""
    mask = torch.tensor([1, 0, 1, 1], dtype=torch.uint8)
    x = numbers((4, 6), torch.float16)
    on_card, mask_there = x.to("spyre"), mask.to("spyre")
    with pytest.warns(UserWarning, match="torch.uint8 is now deprecated") as read:
        found = on_card[mask_there]
    assert len(read) == 1 and torch.equal(found.cpu(), x[mask.bool()])
    with pytest.warns(UserWarning, match="torch.uint8 is now deprecated") as written:
        on_card.index_put_((mask_there,), found, accumulate=True)
    assert len(written) == 1 and torch.equal(on_card.cpu(), x + x * mask.bool()[:, None])


def test_a_mask_beside_an_index():
    x, rows = numbers((4, 70, 6), torch.float16), torch.tensor([2, 0, 3])
    mask = torch.arange(70) % 30 == 7  # three places
    values = numbers((3, 6), torch.float16)
    wanted, on_card = x.clone(), x.to("spyre")
    wanted[rows, mask] = values
    on_card[rows.to("spyre"), mask.to("spyre")] = values.to("spyre")
    assert torch.equal(on_card.cpu(), wanted)


@pytest.mark.host("aten._index_put_impl_")
def test_values_of_other_sizes_are_refused():
    x = numbers((4, 70), torch.float16).to("spyre")
    before, mask = x.cpu(), torch.tensor([True, False, True, True], device="spyre")
    for shape in ((2, 70), (69,), (1, 1, 2, 70)):
        with pytest.raises((RuntimeError, IndexError)):
            x[mask] = numbers(shape, torch.float16).to("spyre")
    assert torch.equal(x.cpu(), before)


def test_compiled():
    def written(x, mask, row):
        x = x.clone()
        x[:, mask] = row
        return x * 2

    x, row = numbers((3, 4, 70), torch.float16), numbers((70,), torch.float16)
    mask = torch.tensor([True, False, False, True])
    found = torch.compile(written)(x.to("spyre"), mask.to("spyre"), row.to("spyre"))
    assert torch.equal(found.cpu(), written(x, mask, row))
    assert torch_spyre.last_report().nodes_on_host == 0
