# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors that are changed where they are, one after the other: `x[1:-1, 2:] += y`.
Python assigns the changed part to where it came from, which costs nothing here."""

import operator
import random

import pytest
import torch
import torch_spyre
from inputs import half


def stencil(u):
    v = u.clone()
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    v[1:-1, 1:-1] += 0.25 * (around - 4 * u[1:-1, 1:-1])
    return v


def test_a_stencil_reads_dense_copies():
    x = half(256, 256)
    torch._dynamo.reset()
    result = torch.compile(stencil, dynamic=False)(x.to("spyre"))
    torch.testing.assert_close(result.cpu(), stencil(x), atol=0.01, rtol=0.01)
    # A copy with a stick for each element would be 8 MiB.
    assert torch_spyre.last_report().bytes < 4 << 20


@pytest.mark.parametrize("sizes", [(8, 3, 100, 100), (3, 200, 150)])
def test_a_crop_moves_a_few_times_its_bytes(sizes):
    def crop(x):
        return x[..., 9:-7, 5:-9].contiguous()

    x = half(*sizes)
    torch._dynamo.reset()
    result = torch.compile(crop, dynamic=False)(x.to("spyre"))
    torch.testing.assert_close(result.cpu(), crop(x), atol=0.01, rtol=0.01)
    assert torch_spyre.last_report().bytes < 6 * x.nbytes


def once(x, y):
    x = x * 1
    x[:, 3:40] = x[:, 3:40] + y[:, 3:40]
    return x


def in_place(x, y):
    x = x * 1
    x[:, 3:40] += y[:, 3:40]
    return x


def test_what_is_assigned_to_where_it_came_from_is_not_copied():
    x, y, kernels = half(64, 100), half(64, 100), []
    for function in (once, in_place):
        torch._dynamo.reset()
        result = torch.compile(function, dynamic=False)(x.to("spyre"), y.to("spyre"))
        torch.testing.assert_close(result.cpu(), function(x, y), atol=0.01, rtol=0.01)
        kernels.append(torch_spyre.last_report().kernels)
    assert kernels[0] == kernels[1]


OPERATORS = (operator.iadd, operator.isub, operator.imul)


def _part(draw, sizes):
    part = []
    for size in sizes:
        start = draw.randrange(size)
        part.append(slice(start, draw.randint(start + 1, size)))
    at = draw.randrange(len(sizes))
    if draw.random() < 0.3:
        part[at] = draw.randrange(sizes[at])
    elif draw.random() < 0.3:
        part[at] = slice(None)
    return tuple(part)


def _program(draw, sizes):
    """Assignments to parts: changed in place, of another part of the tensor, of a number."""
    steps = []
    for _ in range(draw.randint(1, 4)):
        part = _part(draw, sizes)
        kind = draw.choice(("changed", "again", "other", "number"))
        steps.append((kind, part, draw.choice(OPERATORS), draw.randint(0, 2)))

    def function(x, y):
        x = x * 1
        for kind, part, change, shift in steps:
            if kind == "changed":
                x[part] = change(x[part], y[part])
            elif kind == "again":
                x[part] = x[part].clone()
            elif kind == "other":
                x[part] = x.roll(shift, 0)[part]
            else:
                x[part] = shift
        return x

    return function


@pytest.mark.parametrize("seed", range(24))
def test_random_changes_of_parts(seed):
    draw = random.Random(seed)
    sizes = [draw.choice((2, 3, 5, 8, 17, 63, 64, 65, 130)) for _ in range(draw.randint(1, 3))]
    while torch.Size(sizes).numel() > 20_000:
        sizes[sizes.index(max(sizes))] //= 4
    function = _program(draw, sizes)
    x, y = half(*sizes), half(*sizes)
    expected = function(x.float(), y.float())
    torch._dynamo.reset()
    result = torch.compile(function, dynamic=False)(x.to("spyre"), y.to("spyre"))
    torch.testing.assert_close(result.cpu().float(), expected, atol=0.02, rtol=0.02)


def test_a_part_of_a_copy_in_another_order_is_another():
    def turned(x):
        x = x * 1
        last = x.clone(memory_format=torch.channels_last)
        x[:, :, 1:] = last.permute(0, 2, 3, 1).contiguous()[:, :, 1:]
        return x

    x = half(2, 4, 4, 4)
    torch._dynamo.reset()
    result = torch.compile(turned, dynamic=False)(x.to("spyre"))
    torch.testing.assert_close(result.cpu(), turned(x), atol=0.01, rtol=0.01)
