# SPDX-License-Identifier: Apache-2.0
"""Integers outside of torch.compile, call by call: what is known to stay within the card's 32 bits
is launched without Python, all else is exact, too."""

import random
import warnings

import pytest
import torch
import torch_spyre
from torch_spyre import _C
from torch_spyre.compile.integers import integer_overflow, integer_ranges
from torch_spyre.eager import operator_program

WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


@pytest.fixture
def asked(monkeypatch):
    """Names of operators that Python was asked for."""
    names, find = [], operator_program.Operator.find

    def noted(self, *args):
        names.append(self.op.overloadpacket.__name__)
        return find(self, *args)

    monkeypatch.setattr(operator_program.Operator, "find", noted)
    return names


# ---- ranges


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_ranges_are_those_of_the_values(dtype):
    choose = random.Random(str(dtype))
    for _ in range(20):
        shape = [choose.choice((1, 3, 64, 65)) for _ in range(choose.randint(0, 3))]
        x = torch.randint(-90, 100, shape).to(dtype)
        x = x.where(x != 0, x.new_ones(())) if choose.random() < 0.5 else x
        card = x.to("spyre")
        views = [lambda v: v]
        if shape:
            views += [lambda v: v[-1], lambda v: v[v.shape[0] // 2 :], lambda v: v.transpose(0, -1)]
        for view in views:
            part = view(x)
            least, most, has_zero = _C.integer_range(view(card))
            wanted = int(part.min()), int(part.max()), bool((part == 0).any())
            assert (least, most, has_zero) == wanted


def _write_more(x, more):
    x.copy_(more + 1)


def _with_values(x, number):
    """Ways of writing numbers from `number` on into all or a part of a tensor of 3 rows."""
    more = torch.full_like(x, number)
    return {
        "copy": lambda: x.copy_(more),
        "from the host": lambda: x.copy_(more.cpu()),
        "fill": lambda: x.fill_(number),
        "one element": lambda: x[1, 2].fill_(number),
        "a row": lambda: x[2].copy_(more[0]),
        "add": lambda: x.add_(number),
        "out": lambda: torch.add(more, 1, out=x),
        "rows": lambda: x.index_copy_(0, torch.tensor([1], device="spyre"), more[:1]),
        "data": lambda: x.set_(more),
        "a column": lambda: x.t()[0].copy_(more[:, 0]),
        "compiled": lambda: torch.compile(_write_more, dynamic=False)(x, more),
    }


@pytest.mark.parametrize("way", _with_values(torch.zeros(3, 5, dtype=torch.int64), 1))
def test_a_range_is_known_until_the_tensor_is_written(way):
    x = torch.arange(1, 16).view(3, 5).to("spyre")
    for number in (100, -2000, 30000):
        before = x.cpu()
        wanted = int(before.min()), int(before.max()), bool((before == 0).any())
        assert _C.integer_range(x) == _C.integer_range(x) == wanted
        _with_values(x, number)[way]()
        after = x.cpu()
        assert not torch.equal(before, after)
        assert _C.integer_range(x) == (after.min(), after.max(), bool((after == 0).any()))


def test_ranges_of_tensors_in_one_memory():
    x = torch.arange(8).to("spyre")
    longer = torch.cat((x, x + 8))
    for tensor in (x, longer):
        _C.integer_range(tensor)
    longer[3] = -5
    x[4] = 70
    assert _C.integer_range(x) == (0, 70, True)
    assert _C.integer_range(longer) == (-5, 15, True)


def test_ranges_of_what_has_none():
    assert _C.integer_range(torch.zeros(0, 3, dtype=torch.int64, device="spyre")) == (0, 0, True)
    with pytest.raises(torch_spyre.Unsupported, match="no integer"):
        _C.integer_range(torch.ones(3, dtype=torch.float16, device="spyre"))
    with pytest.raises(ValueError, match="of the card"):
        _C.integer_range(torch.ones(3, dtype=torch.int64))


def test_a_range_beyond_32_bits():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.tensor([5, 2**40, -(2**50)]).to("spyre")
    assert _C.integer_range(x) == (-(2**50), 2**40, False)


def test_bounds_are_as_wide_as_results_allow():
    x = torch.tensor([3, 7])
    assert integer_overflow.bounds_of(torch.ops.aten.add.Tensor, [x, 5, 1])[0] == (0, 2**30 - 1)
    low, high = integer_overflow.bounds_of(torch.ops.aten.mul.Tensor, [x, x])[0]
    assert (low, high) == (0, 2**15 - 1)
    divisor = integer_overflow.bounds_of(
        torch.ops.aten.floor_divide.default, [x, torch.tensor([2, 3])]
    )[1]
    assert divisor[0] <= 2 and not integer_ranges.has_zero(divisor)


# ---- calls


def counted(asked, name, call):
    asked.clear()
    result = call()
    return result, asked.count(name)


def test_numbers_that_move_are_asked_for_once(asked):
    x = torch.arange(20)
    card = x.to("spyre")
    for number in range(10):
        found, times = counted(asked, "add", lambda n=number: card + (5 + n))
        assert found.cpu().equal(x + (5 + number)) and times == (number == 0)
    step = torch.zeros((), dtype=torch.int64, device="spyre")
    for number in range(10):
        _, times = counted(asked, "add", lambda: step.add_(1))
        assert step.item() == number + 1 and times <= (number < 2)


def test_a_divisor_without_0_is_asked_for_once(asked):
    x = torch.arange(-8, 8)
    for number in (2, 3, -5, 9):
        y = torch.full((16,), number)
        found, times = counted(asked, "floor_divide", lambda y=y: x.to("spyre") // y.to("spyre"))
        assert found.cpu().equal(x // y) and times <= 1
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x.to("spyre") // torch.zeros(16, dtype=torch.int64).to("spyre")


OPERATORS = (
    lambda a, b, n: a + b,
    lambda a, b, n: a - b,
    lambda a, b, n: a * b,
    lambda a, b, n: a + n,
    lambda a, b, n: n - a,
    lambda a, b, n: a * n,
    lambda a, b, n: torch.add(a, b, alpha=n),
    lambda a, b, n: torch.sub(a, n, alpha=3),
    lambda a, b, n: a.clone().add_(b),
    lambda a, b, n: a.clone().mul_(n),
    lambda a, b, n: torch.mul(a, b, out=torch.empty_like(a)),
    lambda a, b, n: a.cumsum(-1),
    lambda a, b, n: a.sum(-1),
    lambda a, b, n: a.abs(),
    lambda a, b, n: -a,
    lambda a, b, n: a**2,
    lambda a, b, n: a // b,
    lambda a, b, n: a % b,
    lambda a, b, n: a.prod(-1),
    lambda a, b, n: a << (b & 7),
)


def magnitude(choose):
    return 2 ** choose.choice((2, 8, 15, 16, 30, 31, 33))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_random_calls_of_the_same_sizes(seed):
    """Whatever the values of the last call were, results are those of 64 bits."""
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    for _ in range(25):
        operator, shape = choose.choice(OPERATORS), choose.choice(((5,), (3, 70), (64,)))
        dtype = choose.choice((torch.int64, torch.int64, torch.int32))
        offset = choose.choice((0, 2))
        for _ in range(6):
            ends = [min(magnitude(choose), 2**31 if dtype is torch.int32 else 2**40) for _ in "ab"]
            sizes = (*shape[:-1], shape[-1] + offset)
            a, b = (torch.randint(-end + 1, end, sizes, generator=generator) for end in ends)
            if choose.random() < 0.8:
                b = b.where(b != 0, 1)
            a, b = a.to(dtype), b.to(dtype)
            n = choose.choice((0, 1, -1, 2, 5, 70000, -(2**20)))
            cards = [t.to("spyre")[..., offset:] for t in (a, b)]
            with torch_spyre.fallback("silent"):
                try:
                    wanted = operator(a[..., offset:], b[..., offset:], n)
                except RuntimeError as error:
                    with pytest.raises(RuntimeError, match=str(error)[:12]):
                        operator(*cards, n).cpu()
                    continue
                found = operator(*cards, n)
            assert found.dtype is wanted.dtype and found.cpu().equal(wanted)
