# SPDX-License-Identifier: Apache-2.0
"""Tiled launches: a program takes tensors that are larger than it was compiled for in rounds, where
that computes the same, and refuses them where it does not."""

import random

import pytest
import torch
from torch_spyre import _C
from torch_spyre.compile import call_compiler


def numbers(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(1)).half().to("spyre")


@pytest.fixture
def plan_of(tmp_path):
    def compile_and_write(function, *sizes):
        made = []
        call_compiler.observers.append(made.append)
        try:
            torch._dynamo.reset()
            torch.compile(function, dynamic=False)(*(numbers(*each) for each in sizes))
        finally:
            call_compiler.observers.pop()
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        made[0].write(0, "spyrecode", str(path))
        return _C.prepare_kernel(str(path))

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
        # Along inner dims of the layout.
        (chain, [(40, 128), (40, 128)], [(160, 128), (160, 128)]),
        (chain, [(40, 128), (128,)], [(80, 128), (128,)]),
        (product, [(64, 128), (128, 192)], [(256, 128), (128, 192)]),
        (softmax, [(32, 256)], [(96, 256)]),
        (chain, [(2, 24, 128), (2, 24, 1)], [(8, 24, 128), (8, 24, 1)]),
        (chain, [(2, 24, 128), (24, 128)], [(6, 24, 128), (24, 128)]),
        (chain, [(2, 24, 128), (24, 128)], [(2, 72, 128), (72, 128)]),
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
        (softmax, [(32, 128)], [(32, 256)], (32, 256), "2 times as large, but not along dim 1"),
        (chain, [(40, 128)] * 2, [(40, 256), (40, 128)], (40, 256), "would compute something else"),
        (chain, [(40, 128)] * 2, [(40, 256)] * 2, (40, 128), "would compute something else"),
        (chain, [(40, 128)] * 2, [(40, 192)] * 2, (40, 192), "0 has 15360 .* no divisor"),
        (chain, [(40, 128)] * 2, [(60, 256)] * 2, (60, 256), "2 has .* 3 times as large, but not"),
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


def test_more_sizes_than_programs_that_are_kept(plan_of):
    plan = plan_of(softmax, (8, 256))
    for rounds in [*range(2, 40), 2, 3]:
        x = numbers(8 * rounds, 256)
        result = torch.zeros_like(x)
        _C.launch_jobplan(plan, [x, result])
        assert torch.equal(result.cpu(), softmax(x).cpu()), rounds


# ---- Random functions of whole numbers, which all orders of additions add to the same sums

STEPS = [
    lambda x, y: x + y,
    lambda x, y: x * 2 - y,
    lambda x, y: torch.maximum(x, y),
    lambda x, y: x.relu(),
    lambda x, y: x - x.amax(-1, keepdim=True),
    lambda x, y: x - x.amax(0, keepdim=True),
    lambda x, y: x - x.sum(-2, keepdim=True),
    lambda x, y: x.sum(-1),
    lambda x, y: x.sum(0),
    lambda x, y: x.transpose(-1, -2).contiguous(),
    lambda x, y: x.transpose(0, -2).contiguous(),
    lambda x, y: x @ y.transpose(-1, -2),
    lambda x, y: x.flip(-1),
    lambda x, y: x.flip(0),
    lambda x, y: torch.cat((x, y), -2),
    lambda x, y: torch.cat((x, y), -1),
    lambda x, y: x[..., : x.shape[-1] // 2],
    lambda x, y: x[1:],
    lambda x, y: x.roll(1, -2),
    lambda x, y: x.cumsum(-2).clamp(-4, 4),  # sums of more are no whole numbers of the format
    lambda x, y: x.unfold(-2, 2, 1).sum(-1),
    lambda x, y: x.repeat_interleave(2, 0),
    lambda x, y: x.float() + 1,
    lambda x, y: x.flatten(0, 1) * 2,
    lambda x, y: x.tril(),
]


def random_function(draw):
    first, *others = draw.choices(STEPS, k=draw.randint(1, 2))

    def function(x, y):
        x = first(x, y)
        for step in others:
            x = step(x, x)
        return x

    return function


def whole_numbers(draw, sizes):
    generator = torch.Generator().manual_seed(draw.randint(0, 1 << 30))
    return torch.randint(-1, 2, sizes, generator=generator).half()


class Unused:
    """Of a shape; what is done with it fails."""

    def __init__(self, sizes):
        self.shape = torch.Size(sizes)


def operand_count(function, sizes):
    """0 of a function that those sizes have not, 1 of one that leaves out the second."""
    try:
        function(*(torch.zeros(sizes).half(),) * 2)
    except (IndexError, RuntimeError):
        return 0
    try:
        function(torch.zeros(sizes).half(), Unused(sizes))
    except (AttributeError, TypeError):
        return 2
    return 1


def launch(plan, function, operands, used):
    """None where the launch is refused, else whether it is right. Two sizes may be as one."""
    try:
        expected = function(*operands)
    except (IndexError, RuntimeError):
        return None
    result = torch.full_like(expected, 77).to("spyre")
    try:
        _C.launch_jobplan(plan, [*(each.to("spyre") for each in operands[:used]), result])
    except ValueError as refused:
        assert "launch argument" in str(refused) or "of a launch" in str(refused)
        assert result.cpu().eq(77).all()
        return None
    return torch.equal(result.cpu(), expected)


def check_random(plan_of, seed):
    """The number of launches in rounds, along any dims, that were right."""
    draw = random.Random(seed)
    sizes = [draw.choice([2, 3, 8, 24, 64]) for _ in range(draw.randint(1, 3))]
    sizes.append(draw.choice([64, 128, 192, 256, 32, 100]))
    function, right = random_function(draw), 0
    used = operand_count(function, sizes)
    if not used:
        return 0
    try:
        plan = plan_of(function, sizes, sizes)
    except ValueError as nothing_to_do:
        assert "runs on the host" in str(nothing_to_do)
        return 0
    for dim in range(len(sizes)):
        times = draw.choice([2, 3, 5])
        larger = [n * (times if d == dim else 1) for d, n in enumerate(sizes)]
        for given in ([larger, larger], [larger, sizes], [sizes, larger]):
            operands = [whole_numbers(draw, each) for each in given]
            outcome = launch(plan, function, operands, used)
            assert outcome is not False, (seed, sizes, given)
            right += outcome or 0
    return right


def test_random_functions_compute_the_whole_or_are_refused(plan_of):
    assert sum(check_random(plan_of, seed) for seed in range(12)) > 6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
def test_more_random_functions(plan_of, seed):
    check_random(plan_of, seed)
