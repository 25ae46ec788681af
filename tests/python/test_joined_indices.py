# SPDX-License-Identifier: Apache-2.0
"""Several indices at once: random tables, views of them, indices that broadcast, read and written
as PyTorch's CPU does; bounds of each index."""

import random

import pytest
import torch

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool)
SIZES = (1, 2, 3, 5, 16, 63, 64, 65, 100, 128, 130, 192)


def numbers(dtype, *shape):
    return torch.randint(0 if dtype is torch.bool else -99, 99, shape).to(dtype)


def table(generator, dtype, rank):
    """A view of a tensor, of the sizes that it has, and that tensor."""
    sizes = [generator.choice(SIZES[1:] if d == rank - 1 else SIZES[:8]) for d in range(rank)]
    kind = generator.choice(("whole", "whole", "turned", "steps", "slice"))
    if kind == "turned":
        a, b = generator.randrange(rank), generator.randrange(rank)
        return numbers(dtype, *sizes), lambda x: x.transpose(a, b)
    if kind == "steps":
        sizes[0] *= 2
        return numbers(dtype, *sizes), lambda x: x[1::2]
    if kind == "slice":
        sizes[-1] += 3
        return numbers(dtype, *sizes), lambda x: x[..., 2:-1]
    return numbers(dtype, *sizes), lambda x: x


def chosen(generator, sizes):
    """An index or None for each dim, and the sizes that those broadcast to."""
    dims = sorted(generator.sample(range(len(sizes)), generator.randrange(1, len(sizes) + 1)))
    shape = [generator.choice((1, 2, 3, 7, 40)) for _ in range(generator.choice((0, 1, 1, 1, 2)))]
    indices = [None] * (dims[-1] + 1)
    for d in dims:
        own = [1 if generator.random() < 0.2 else n for n in shape]
        own = own[generator.randrange(len(own) + 1) if generator.random() < 0.2 else 0 :]
        dtype = generator.choice((torch.int64, torch.int64, torch.int32))
        indices[d] = torch.randint(-sizes[d], sizes[d], own, dtype=dtype)
    return indices


def forms(function):
    torch._dynamo.reset()
    return function, torch.compile(function, dynamic=False)


def is_determined(x, indices):
    """Whether no place is written twice."""
    places = torch.arange(x.numel()).reshape(x.shape)[tuple(map(listed, indices))]
    return places.unique().numel() == places.numel()


def listed(index):
    return slice(None) if index is None else index.long()


def on_card(values):
    return [v if v is None else v.to("spyre") for v in values]


def run_trial(seed):
    generator = random.Random(seed)
    torch.manual_seed(seed)
    dtype = generator.choice(DTYPES)
    whole, view = table(generator, dtype, generator.choice((1, 2, 2, 3, 3, 4)))
    x = view(whole)
    indices = chosen(generator, x.shape)
    expected = torch.ops.aten.index(x, indices)
    say = f"seed {seed}: {dtype} {tuple(x.shape)} {x.stride()} {indices}"
    for read in forms(lambda x, *i: torch.ops.aten.index(view(x), list(i))):
        assert torch.equal(read(whole.to("spyre"), *on_card(indices)).cpu(), expected), say
    accumulates = generator.random() < 0.3 and dtype is not torch.bool
    if not accumulates and not is_determined(x, indices):
        return
    kept = [n if generator.random() < 0.8 else 1 for n in expected.shape]
    values = numbers(dtype, *kept) if dtype is torch.bool else numbers(dtype, *kept) % 3

    def write(x, values, *i):
        return view(x).index_put_(tuple(i), values, accumulates) if None not in i else (
            torch.ops.aten.index_put_(view(x), list(i), values, accumulates)
        )  # fmt: skip

    written = whole.clone()
    write(written, values, *indices)
    for form in forms(write):
        given = whole.to("spyre")
        form(given, values.to("spyre"), *on_card(indices))
        assert torch.equal(given.cpu(), written), say


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_several_indices(first):
    for seed in range(first, first + 10):
        run_trial(seed)


@pytest.mark.long
def test_several_indices_at_length():
    for seed in range(1000, 2000):
        run_trial(seed)


LARGE = ((200, 384), (128, 9, 70), (7, 64, 160), (3, 90, 4, 66))


def few(generator, sizes):
    """Indices of neighbouring dims, which name less than a third of one dim's rows, again and
    again."""
    first = generator.randrange(len(sizes) - 1)
    count = generator.randrange(2, len(sizes) - first + 1)
    indices = [None] * (first + count)
    named = generator.randrange(first, first + count)
    for d in range(first, first + count):
        shape = generator.choice(((5, 1), (1, 4), (20,), (5, 4)))
        shape = generator.choice(((5, 1), (1, 4))) if d == named else shape
        indices[d] = torch.randint(-sizes[d], sizes[d], shape if len(shape) == 2 else (5, 4))
    return indices


@pytest.mark.parametrize("seed", range(16))
def test_few_rows_of_a_large_table(seed):
    generator = random.Random(seed)
    torch.manual_seed(seed)
    dtype, sizes = generator.choice(DTYPES), generator.choice(LARGE)
    x, indices = numbers(dtype, *sizes), few(generator, sizes)
    accumulates = dtype is not torch.bool and generator.random() < 0.5
    if not accumulates:  # else which of equal places wins is open
        indices[-1] = torch.randperm(sizes[len(indices) - 1])[:20].reshape(5, 4)
    values = numbers(dtype, *torch.ops.aten.index(x, indices).shape)
    values = values if dtype is torch.bool else values % 3
    written = torch.ops.aten.index_put(x, indices, values, accumulates)
    for form in forms(
        lambda x, values, *i: torch.ops.aten.index_put_(x, list(i), values, accumulates)
    ):
        given = x.to("spyre")
        form(given, values.to("spyre"), *on_card(indices))
        assert torch.equal(given.cpu(), written), f"{dtype} {sizes} {indices}"


@pytest.mark.parametrize("sizes", [(4, 70), (4, 64), (3, 5, 30)], ids=str)
@pytest.mark.parametrize("reads", [True, False], ids=["read", "written"])
def test_an_index_beyond_its_dim_is_a_fault_that_names_it(sizes, reads):
    x = torch.zeros(sizes, dtype=torch.float16).to("spyre")
    for dim, size in enumerate(sizes):
        for wrong in (size, size + 1, 4000, -size - 1, -4000, 2**31 - 1, -(2**31)):
            indices = [torch.tensor([0, 1, wrong if d == dim else -1]) for d in range(len(sizes))]
            named = min(wrong, 2**29 - 1)
            with pytest.raises(RuntimeError, match=f"row {named}, outside"):
                indices = tuple(i.to("spyre") for i in indices)
                (x[indices] if reads else x.index_put(indices, x.flatten()[:1])).cpu()
    assert x.cpu().sum() == 0
