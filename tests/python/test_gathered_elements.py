# SPDX-License-Identifier: Apache-2.0
"""Elements of tables at an index for each dim, eager and compiled, beside the CPU: their lines are
gathered first where these are less to move than a stick for each element of the table."""

from random import Random

import pytest
import torch
import torch_spyre

DTYPES = (torch.float16, torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool)
PLACES = ((1,), (5,), (100,), (3, 4), (2, 1, 5), (), (0,))


def _case(seed):
    """A function of a table and indices, these, and whether one is out of range."""
    random, generator = Random(seed), torch.Generator().manual_seed(seed)
    shape = [random.choice((1, 2, 3, 17)) for _ in range(random.randint(1, 3))]
    shape.append(random.choice((1, 2, 63, 64, 65, 130)))
    if random.random() < 0.3:
        random.shuffle(shape)
    table = (torch.randn([n + 2 for n in shape], generator=generator) * 8).round()
    turns, places = random.random() < 0.3, random.choice(PLACES)
    dims = shape[::-1] if turns else shape
    index = [torch.randint(-n, n, places, generator=generator) for n in dims]
    order = list(reversed(range(len(shape))))
    beyond = 0 not in places and random.random() < 0.2
    if beyond:
        dim = random.randrange(len(dims))
        index[dim].view(-1)[-1] = dims[dim] + random.choice((0, 1, 30, 64, 1000))

    def function(table, *index):
        x = table[tuple(slice(1, n + 1) for n in shape)]
        return (x.permute(order) if turns else x)[index]

    return function, (table.to(random.choice(DTYPES)), *index), beyond


@pytest.mark.parametrize("seed", range(24))
def test_random_elements(seed):
    function, operands, beyond = _case(seed)
    torch._dynamo.reset()
    for form in (function, torch.compile(function, dynamic=False)):
        on_card = [t.to("spyre") for t in operands]
        if beyond:
            with pytest.raises(IndexError):
                form(*on_card).cpu()
        else:
            assert torch.equal(form(*on_card).cpu(), function(*operands))


def test_few_elements_move_no_stick_for_each_element_of_the_table():
    """Scores at labels, and a diagonal."""
    scores = torch.randint(-100, 100, (128, 1000)).half()
    labels = torch.arange(128) * 7

    def chosen(scores, labels):
        rows = torch.arange(128, device=scores.device)
        return scores[rows, labels], scores[:, :128].diagonal() * 1

    torch._dynamo.reset()
    results = torch.compile(chosen)(scores.to("spyre"), labels.to("spyre"))
    for found, expected in zip(results, chosen(scores, labels), strict=True):
        assert torch.equal(found.cpu(), expected)
    assert torch_spyre.last_report().bytes < 8 * scores.nbytes
