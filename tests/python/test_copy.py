# SPDX-License-Identifier: Apache-2.0
"""`x.to("spyre").cpu()` returns x, for every dtype, rank and stride."""

import hypothesis
import pytest
import torch
import torch_spyre
from hypothesis import strategies as st

DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8,
]  # fmt: skip


def make(shape, dtype):
    """Values that every format of the card holds exactly."""
    numbers = torch.randint(0, 2 if dtype == torch.bool else 128, shape)
    if dtype.is_floating_point or dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        numbers = numbers - 64
    return numbers.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (64,), (3, 65), (2, 3, 130), (2, 1, 3, 5), (2, 2, 2, 2, 3, 33)]
)
def test_every_dtype_and_rank(dtype, shape):
    x = make(shape, dtype)
    y = x.to("spyre")
    assert y.dtype == dtype and y.shape == x.shape and y.stride() == x.stride()
    assert y.cpu().equal(x)


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(st.data())
def test_every_stride(data):
    rank = data.draw(st.integers(1, 5))
    x = make(data.draw(st.tuples(*[st.integers(1, 9)] * rank)), torch.float16)
    x = x.permute(data.draw(st.permutations(range(rank))))
    dim = data.draw(st.integers(0, rank - 1))
    begin = data.draw(st.integers(0, x.shape[dim] - 1))
    step = data.draw(st.integers(1, 3))
    x = x[(slice(None),) * dim + (slice(begin, None, step),)]
    if data.draw(st.booleans()):
        x = x.unsqueeze(0).expand(3, *x.shape)
    assert x.to("spyre").cpu().equal(x)


def test_no_elements():
    x = torch.empty(0, 3).to("spyre")
    assert x.shape == (0, 3) and x.cpu().shape == (0, 3)
    assert (x + x).cpu().shape == (0, 3)


def test_rank_seven_travels_although_the_layouts_end_at_six():
    x = torch.randn(2, 1, 2, 1, 2, 1, 3)
    assert x.to("spyre").cpu().equal(x)


def test_dtypes_convert_on_the_way():
    x = torch.tensor([1.5, -2.25, 3.0])
    assert x.to("spyre", torch.float16).cpu().equal(x.half())
    assert x.to("spyre").to(torch.float16).cpu().equal(x.half())
    assert x.to("spyre").to("cpu", torch.int32).tolist() == [1, -2, 3]


def test_parts_are_written_without_touching_the_rest():
    x = torch.arange(130.0).view(2, 65)
    y = x.to("spyre")
    y[1, 3:7] = torch.tensor([9.0, 8.0, 7.0, 6.0])
    x[1, 3:7] = torch.tensor([9.0, 8.0, 7.0, 6.0])
    assert y.cpu().equal(x)
    y[0].copy_(y[1])
    x[0].copy_(x[1])
    assert y.cpu().equal(x)


@hypothesis.settings(deadline=None, max_examples=80)
@hypothesis.given(st.data())
def test_any_part_is_read_and_written(data):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 5, 64, 70, 130]), min_size=1, max_size=3))
    dtype = data.draw(st.sampled_from(DTYPES))
    x = make(shape, dtype)
    y = x.to("spyre")

    def slice_of(length):
        begin = data.draw(st.integers(0, length - 1))
        return slice(begin, data.draw(st.integers(begin, length)), data.draw(st.integers(1, 3)))

    where = tuple(map(slice_of, shape))
    assert y[where].cpu().equal(x[where])
    if len(shape) > 1:
        assert y[where].mT.cpu().equal(x[where].mT)
    fresh = make(x[where].shape, dtype)
    x[where] = fresh
    y[where] = fresh
    assert y.cpu().equal(x)
    assert y.view(-1)[3:70:2].cpu().equal(x.view(-1)[3:70:2])


def test_copies_on_the_card():
    x = torch.randn(5, 7).to("spyre")
    y = torch.empty(5, 7, device="spyre")
    y.copy_(x)
    assert y.cpu().equal(x.cpu())
    y.t().copy_(x.t() * 2)
    assert y.cpu().equal(x.cpu() * 2)
    assert x.clone().cpu().equal(x.cpu())
    assert x.t().contiguous().cpu().equal(x.cpu().t())


def test_int64_that_does_not_fit_warns_once(run_python):
    source = (
        "import torch, torch_spyre, warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(3): torch.arange(VALUES).to('spyre')\n"
        "print(sum('outside 32 bits' in str(w.message) for w in seen), len(seen))\n"
    )
    assert run_python(source.replace("VALUES", "-(2**31), 3 - 2**31")).stdout == "0 0\n"
    source = source.replace("VALUES", "2**31 - 2, 2**31 + 2")
    assert run_python(source).stdout == "1 1\n"
    assert run_python(source, TORCH_SPYRE_DOWNCAST_WARN="0").stdout == "0 0\n"


def test_the_warning_of_int64_is_a_switch(run_python):
    run_python(
        "import torch, warnings\n"
        "def warned():\n"
        "    with warnings.catch_warnings(record=True) as seen:\n"
        "        warnings.simplefilter('always')\n"
        "        torch.tensor([2**31]).to('spyre')\n"
        "    return any('int64 values outside 32 bits' in str(w.message) for w in seen)\n"
        "assert torch.spyre.get_downcast_warning() is True\n"
        "torch.spyre.set_downcast_warning(False)\n"
        "assert torch.spyre.get_downcast_warning() is False and not warned()\n"
        "torch.spyre.set_downcast_warning(True)\n"
        "torch.set_warn_always(True)\n"
        "assert warned() and warned()\n"
        "torch.set_warn_always(False)\n"
        "assert warned() and not warned()\n"
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_nan_becomes_positive_infinity(dtype):
    """One rule for every way in, whatever sign PyTorch gives its NaN."""
    nan, infinity = float("nan"), float("inf")
    values = torch.tensor([nan, -nan, infinity, -infinity, 1.0] * 40)
    expected = torch.tensor([infinity, infinity, infinity, -infinity, 1.0] * 40, dtype=dtype)
    for x in (values.to(dtype), values.to(dtype).neg().neg()):
        assert x.to("spyre").cpu().equal(expected)
        assert x[:3].to("spyre").cpu().equal(expected[:3])
        assert x.view(40, 5).t().to("spyre").cpu().equal(expected.view(40, 5).t())
    made = torch.tensor([0.0, -1.0, infinity], dtype=dtype).to("spyre")
    for y in (made / 0 * 0, made.sub(infinity).mul(0)[1:], torch.sqrt(made - 2)[:2]):
        assert y.cpu().eq(infinity).all()


GUARDED = """
import sys, torch
try:
    x = torch.zeros(3, 70).half()
    x.to("spyre")
    torch.tensor([float("nan")]).to("spyre")  # float32 keeps it
    x[1, 2] = x[2, 69] = float("nan")
    x.t().to("spyre")
except RuntimeError as error:
    print("refused:", error, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "answer, refused, message",
    [
        ("ignore", False, ""),
        ("warn", False, "spyre warning: copy to card: 2 NaN, the first is element "),
        ("error", True, "SEN169_FP16 has none, they become infinity"),
        ("maybe", True, "SPYRE_NAN=maybe"),
    ],
)
def test_nan_can_be_found_out(run_python, answer, refused, message):
    done = run_python(GUARDED, SPYRE_NAN=answer)
    assert ("refused:" in done.stderr) == refused
    assert message in done.stderr


@pytest.mark.parametrize("width", [64, 128, 40, 192])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_rows_of_a_table(width, dtype):
    target, source = torch.randn(100, width).to(dtype), torch.randn(7, width).to(dtype)
    runs = [(3, 0, 2), (99, 6, 1), (50, 2, 3), (4, 5, 0)]
    moved = target.to("spyre")
    assert torch_spyre._C.copy_rows(moved, source.to("spyre"), runs)
    expected = target.to("spyre").cpu()
    for to, first, count in runs:
        expected[to : to + count] = source.to("spyre").cpu()[first : first + count]
    assert torch.equal(moved.cpu(), expected)


def test_rows_that_a_table_does_not_have():
    table = torch.zeros(8, 64).half().to("spyre")
    for run in ((8, 0, 1), (0, 7, 2), (-1, 0, 1), (0, 0, -1)):
        with pytest.raises(IndexError, match="tables of 8 and 8 rows"):
            torch_spyre._C.copy_rows(table, table, [run])
    wide = torch.zeros(8, 128).half().to("spyre")
    for other in (table.cpu(), table.t(), wide, wide[:, 32:96]):
        assert not torch_spyre._C.copy_rows(table, other, [(0, 0, 1)])
