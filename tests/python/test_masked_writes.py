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


@pytest.mark.host("aten._index_put_impl_")
def test_values_of_each_place_and_of_other_sizes():
    """They are the host's, which refuses what PyTorch refuses."""
    x = numbers((4, 70), torch.float16).to("spyre")
    mask = torch.tensor([True, False, True, True], device="spyre")
    rows = numbers((3, 70), torch.float16)
    x[mask] = rows.to("spyre")
    assert torch.equal(x.cpu()[[0, 2, 3]], rows)
    for shape in ((2, 70), (69,), (1, 1, 2, 70)):
        with pytest.raises((RuntimeError, IndexError)):
            x[mask] = numbers(shape, torch.float16).to("spyre")
    assert torch.equal(x.cpu()[[0, 2, 3]], rows)


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
