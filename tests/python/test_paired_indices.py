# SPDX-License-Identifier: Apache-2.0
"""x[arange(n), j]: beside an index that counts its dim off another one is an index, or a line of
them, for each of that dim, read and written as PyTorch's CPU does, for the price of the rows."""

import random

import pytest
import torch
import torch_spyre

DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool,
    torch.int8, torch.uint8, torch.int16,
)  # fmt: skip
SIZES = (2, 3, 5, 17, 63, 64, 65, 130)


def numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randint(0 if dtype in (torch.bool, torch.uint8) else -9, 9, shape).to(dtype)


def run_trial(seed: int) -> None:
    generator = random.Random(seed)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    rank, dtype = generator.randrange(2, 5), generator.choice(DTYPES)
    sizes = [generator.choice(SIZES[:4] if rank > 2 else SIZES) for _ in range(rank)]
    sizes[-1] = generator.choice(SIZES)
    counted, chosen = generator.sample(range(rank), 2)
    # Beside counts: all of them, all but the first, every second of twice as many.
    first, step, spare = generator.choice([(0, 1, 0)] * 4 + [(1, 1, 1), (0, 2, sizes[counted] - 1)])
    x = numbers(dtype, *(n + spare * (d == counted) for d, n in enumerate(sizes)))
    line = generator.choice([(), (), (1,), (4,)])  # of places for each of the counted dim
    j = torch.randint(-sizes[chosen], sizes[chosen], (sizes[counted], *line))
    expands, shares = generator.random() < 0.2, bool(line) and generator.random() < 0.2
    j = j[:1] if shares else j  # one line for all

    def both(j: torch.Tensor) -> list[torch.Tensor | None]:
        indices: list[torch.Tensor | None] = [None] * (max(counted, chosen) + 1)
        counts = first + torch.arange(0, step * sizes[counted], step, device=j.device)
        counts = counts.unsqueeze(1) if line else counts
        indices[counted] = counts.expand(sizes[counted], *line) if expands else counts
        indices[chosen] = j
        return indices

    def read(x: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.index(x, both(j))

    # Which of equal places is the last is not defined.
    accumulates = (line == (4,) or generator.random() < 0.3) and dtype is not torch.bool

    def write(x: torch.Tensor, j: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.index_put_(x, both(j), y, accumulates)

    expected = read(x, j)
    y = numbers(dtype, *(n if generator.random() < 0.8 else 1 for n in expected.shape))
    say = f"seed {seed}: {dtype} {sizes} counted {counted} chosen {chosen} from {first} by {step}"
    card = x.to("spyre")
    found = torch.compile(read, dynamic=False)(card, j.to("spyre"))
    assert torch.equal(found.cpu(), expected), say
    if line == (4,) and not accumulates:
        return
    write(x, j, y)
    torch.compile(write, dynamic=False)(card, j.to("spyre"), y.to("spyre"))
    assert torch.equal(card.cpu(), x), say


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_counts_beside_an_index(first: int) -> None:
    for seed in range(first, first + 10):
        run_trial(seed)


@pytest.mark.long
def test_counts_beside_an_index_at_length() -> None:
    for seed in range(1000, 1500):
        run_trial(seed)


def test_a_cache_of_lines_costs_their_rows() -> None:
    def put(cache: torch.Tensor, at: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        lines = torch.arange(len(at), device=at.device)
        cache[lines, :, at] = rows
        return cache[lines, :, at - 1]

    torch._dynamo.reset()
    cache, rows = (numbers(torch.float16, *s) for s in ((4, 8, 512, 64), (4, 8, 64)))
    at, card = torch.tensor([5, 500, 1, 77]), cache.to("spyre")
    before = torch.compile(put, dynamic=False)(card, at.to("spyre"), rows.to("spyre"))
    assert torch.equal(before.cpu(), put(cache, at, rows)) and torch.equal(card.cpu(), cache)
    assert torch_spyre.last_report().bytes < 10 * rows.nbytes


def test_an_index_beyond_its_dim_is_a_fault() -> None:
    torch._dynamo.reset()
    take = torch.compile(lambda x, j: x[torch.arange(3, device=j.device), j], dynamic=False)
    x = torch.zeros(3, 10, 64).half().to("spyre")
    with pytest.raises(torch_spyre.IndexFault, match="row 10, outside 0..9"):
        take(x, torch.tensor([0, 10, 1]).to("spyre")).cpu()
