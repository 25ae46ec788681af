# SPDX-License-Identifier: Apache-2.0
"""Tiled launches: a program takes tensors that are larger than it was compiled for in rounds, where
that computes the same, and refuses them where it does not."""

import pytest
import torch
from torch_spyre import _C
from torch_spyre.compile import handover


def numbers(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(1)).half().to("spyre")


@pytest.fixture
def plan_of(tmp_path):
    def compile_and_write(function, *sizes):
        made = []
        handover.observers.append(made.append)
        try:
            torch._dynamo.reset()
            torch.compile(function, dynamic=False)(*(numbers(*each) for each in sizes))
        finally:
            handover.observers.pop()
        made[0].write(0, "spyrecode", str(tmp_path))
        return _C.prepare_kernel(str(tmp_path))

    return compile_and_write


def chain(x, y):
    return torch.relu(x * 2 + y) * x


def product(a, b):
    return torch.relu(a @ b)


def softmax(x):
    return x.softmax(-1)


def total(x):
    return x.sum(0)


@pytest.mark.parametrize(
    ("function", "compiled_for", "given"),
    [
        (chain, [(40, 128), (40, 128)], [(40, 640), (40, 640)]),
        (chain, [(40, 128), (128,)], [(40, 256), (256,)]),
        (chain, [(40, 128), (40, 1)], [(40, 256), (40, 1)]),  # which every round reads
        (product, [(64, 96), (96, 128)], [(64, 96), (96, 384)]),
        (product, [(64, 64), (64, 64)], [(256, 64), (64, 64)]),  # by rows of a
        (product, [(64, 64), (64, 64)], [(64, 64), (64, 128)]),  # by columns of b
        (softmax, [(32, 64)], [(96, 64)]),
        (total, [(32, 128)], [(32, 256)]),
    ],
)
def test_rounds_compute_the_whole(plan_of, function, compiled_for, given):
    plan = plan_of(function, *compiled_for)
    operands = [numbers(*sizes) for sizes in given]
    expected = function(*operands)
    result = torch.zeros_like(expected)
    with pytest.raises(ValueError, match="times as large .*allow_tiled_launch is False"):
        _C.launch_jobplan(plan, [*operands, result], allow_tiled_launch=False)
    assert not result.cpu().any()
    _C.launch_jobplan(plan, [*operands, result])
    assert torch.equal(result.cpu(), expected.cpu())


@pytest.mark.parametrize(
    ("function", "compiled_for", "given", "out", "rule"),
    [
        (softmax, [(32, 128)], [(32, 256)], (32, 256), "would compute something else"),
        (chain, [(40, 128)] * 2, [(40, 256), (40, 128)], (40, 256), "would compute something else"),
        (chain, [(40, 128)] * 2, [(40, 256)] * 2, (40, 128), "would compute something else"),
        (chain, [(40, 128)] * 2, [(40, 192)] * 2, (40, 192), "0 has 15360 .* no divisor"),
        (chain, [(40, 128)] * 2, [(160, 128)] * 2, (160, 128), "no whole number .* dim 0, of 2"),
        (chain, [(40, 128)] * 2, [(40, 256), (40, 384)], (40, 256), "0 is 2 times .* 1 3 times"),
        (product, [(64, 64)] * 2, [(64, 128), (128, 64)], (64, 64), "would compute something else"),
    ],
)
def test_what_is_not_the_whole_is_refused(plan_of, function, compiled_for, given, out, rule):
    plan = plan_of(function, *compiled_for)
    result = torch.zeros(out, dtype=torch.float16, device="spyre")
    with pytest.raises(ValueError, match=f"launch argument .*{rule}"):
        _C.launch_jobplan(plan, [*(numbers(*sizes) for sizes in given), result])
    assert not result.cpu().any()


def test_a_tensor_that_one_round_writes_and_all_read(plan_of):
    plan = plan_of(product, (64, 64), (64, 64))
    x = numbers(64, 64)
    with pytest.raises(ValueError, match="launch argument .*would compute something else"):
        _C.launch_jobplan(plan, [numbers(256, 64), x, x])  # a result that is not larger
    large = numbers(256, 64)
    _C.launch_jobplan(plan, [large, x, large])  # each round reads its own tile
    assert torch.equal(large.cpu(), product(numbers(256, 64), x).cpu())
