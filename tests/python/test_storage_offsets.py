# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs whose arguments begin elsewhere in their storage than those they were traced
with, which guards do not tell apart: views of them move with them."""

import random

import pytest
import torch
from inputs import numbers

VIEWS = [
    lambda x: x.unsqueeze(0),
    lambda x: x[:, 1:],
    lambda x: x.t(),
    lambda x: x.reshape(-1),
    lambda x: x.view(x.shape[1], x.shape[0]),
    lambda x: x.split(2, 1)[1],
    lambda x: x.unbind(0)[1],
    lambda x: x.expand(2, *x.shape),
    lambda x: x.detach(),
    lambda x: x[1:, ::2].t(),
    lambda x: x.chunk(2, 1)[0].unsqueeze(1),
]
STEPS = [
    lambda x: x.clone(),
    lambda x: x * 2 + 1,
    lambda x: x.contiguous().view(-1, 1),
    lambda x: x.sum(-1),
    lambda x: x.cumsum(-1),  # on the host
]


def rows(dtype):
    """Views of the same sizes and strides at places of one storage."""
    height, width = random.choice([2, 3, 5]), random.choice([4, 32, 64, 70])
    base = numbers(6 * height * width + 7, dtype=dtype)
    places = [random.randrange(5 * height * width) for _ in range(3)]
    return base, [(place, height, width) for place in [0, *places]]


def at(base, place, height, width):
    return base[place : place + height * width].view(height, width)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.host("aten.cumsum", "aten.sum")
def test_views_move_with_their_argument(dtype, dynamic):
    random.seed(f"{dtype} {dynamic}")
    for _ in range(12):
        view, step = random.choice(VIEWS), random.choice(STEPS)
        base, places = rows(dtype)
        on_card = base.to("spyre")
        torch._dynamo.reset()
        function = torch.compile(lambda x, v=view, s=step: (s(v(x)), v(x), x + 1), dynamic=dynamic)
        for place in places:
            x = at(base, *place)
            found = function(at(on_card, *place))
            for a, e in zip(found, (step(view(x)), view(x), x + 1), strict=True):
                torch.testing.assert_close(a.cpu(), e, atol=5e-2, rtol=5e-3)


def test_views_that_are_written_move_with_their_argument():
    base = numbers(6, 5, 70)
    on_card, expected = base.to("spyre"), base.clone()
    function = torch.compile(lambda x: x[1:].t().mul_(2))
    for place in (0, 3, 5):
        function(on_card[place])
        expected[place, 1:] *= 2
    assert torch.equal(on_card.cpu(), expected)
