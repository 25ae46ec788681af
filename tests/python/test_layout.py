# SPDX-License-Identifier: Apache-2.0
"""SpyreTensorLayout, the enumerations and the layouts of tensors."""

import copy
import itertools
import pickle

import pytest
import torch
import torch_spyre
from torch_spyre import _C
from torch_spyre._C import DataFormats, ElementArrangement, SpyreTensorLayout

F16 = torch.float16


def numbers(*shape):
    """Values that the card's 16-bit format holds exactly."""
    return torch.randint(-99, 99, shape).to(F16)


def test_formats_have_their_numbers():
    names = """SEN169_FP16 IEEE_FP32 INVALID SEN143_FP8 SEN152_FP8 SEN153_FP9 SENINT2 SENINT4
    SENINT8 SENINT16 SENINT24 IEEE_INT64 IEEE_INT32 SENUINT32 SENUINT2 IEEE_FP16 BOOL BFLOAT16
    SEN18F_FP24""".split()
    assert {f.name: f.value for f in DataFormats} == {n: i for i, n in enumerate(names)}
    sticks = {"SEN169_FP16": 64, "IEEE_FP32": 32, "IEEE_INT32": 32, "SEN143_FP8": 128}
    assert {n: DataFormats[n].elems_per_stick() for n in sticks} == sticks
    assert ElementArrangement.STANDARD == 0
    assert str(DataFormats.SEN169_FP16) == "DataFormats.SEN169_FP16"


def test_dtypes_have_their_formats():
    expected = {
        torch.float16: "SEN169_FP16", torch.bfloat16: "SEN169_FP16", torch.bool: "SEN169_FP16",
        torch.float32: "IEEE_FP32", torch.int64: "IEEE_INT32", torch.int32: "IEEE_INT32",
        torch.int16: "SENINT16", torch.int8: "SENINT8", torch.uint8: "SENUINT32",
        torch.float8_e4m3fn: "SEN143_FP8", torch.float8_e5m2fnuz: "SEN152_FP8",
        torch.qint8: "SENINT8", torch.quint8: "SENUINT32",
        torch.quint4x2: "SENUINT2", torch.quint2x4: "SENUINT2",
        torch.float64: "INVALID", torch.complex64: "INVALID",
    }  # fmt: skip
    assert {d: _C.get_device_dtype(d).name for d in expected} == expected
    assert _C.get_elem_in_stick(torch.float16) == 64


@pytest.mark.parametrize(
    "size, device_size, stride_map",
    [
        ([], [1, 64], [-1, -1]),
        ([100], [2, 64], [64, 1]),
        ([5, 100], [2, 5, 64], [64, 100, 1]),
        ([5, 100, 150], [100, 3, 5, 64], [150, 64, 15000, 1]),
    ],
)
def test_the_default_layout(size, device_size, stride_map):
    layout = SpyreTensorLayout(size, F16)
    assert (layout.device_size, layout.stride_map) == (device_size, stride_map)
    assert layout.device_dtype == DataFormats.SEN169_FP16 and layout.elems_per_stick() == 64
    assert layout.element_arrangement == ElementArrangement.STANDARD


def test_one_element_a_stick():
    layout = SpyreTensorLayout([512, 256], [256, 1], F16, [0, 1, -1])
    assert layout.device_size == [256, 1, 512, 64] and layout.stride_map == [1, -1, 256, -1]


def test_ranks_end_at_eight():
    with pytest.raises(RuntimeError, match="Unsupported tensor rank"):
        SpyreTensorLayout([1] * 9, F16)
    with pytest.raises(RuntimeError, match="does not support dtype"):
        SpyreTensorLayout([4], torch.complex64)


def test_text_equality_hash_and_pickle():
    layout = SpyreTensorLayout([5, 100, 150], F16)
    text = (
        "SpyreTensorLayout(device_size=[100, 3, 5, 64], stride_map =[150, 64, 15000, 1], "
        "device_dtype=DataFormats.SEN169_FP16)"
    )
    assert str(layout) == repr(layout) == text
    same = SpyreTensorLayout([100, 3, 5, 64], [150, 64, 15000, 1], DataFormats.SEN169_FP16)
    other = same.with_element_arrangement(ElementArrangement.QFP8CH)
    assert layout == same and hash(layout) == hash(same) and layout != other
    assert other.element_arrangement == ElementArrangement.QFP8CH
    for clone in (pickle.loads(pickle.dumps(other)), copy.deepcopy(other), copy.copy(other)):
        assert clone == other
    assert layout != "layout"
    with pytest.raises(AttributeError):
        layout.device_size = []


def test_bad_layouts_are_refused_by_field():
    with pytest.raises(ValueError, match="device_size has 2 entries, stride_map 1"):
        SpyreTensorLayout([1, 64], [1], DataFormats.SEN169_FP16)
    with pytest.raises(ValueError, match=r"device_size\[1\] is 65"):
        SpyreTensorLayout([1, 65], [1, 1], DataFormats.SEN169_FP16)
    with pytest.raises(TypeError):
        SpyreTensorLayout()


def test_layouts_of_tensors():
    x = torch.randn(5, 100, dtype=F16)
    y = x.to("spyre")
    assert y.device_tensor_layout() == SpyreTensorLayout([5, 100], F16)
    assert y.t().device_tensor_layout() == y.device_tensor_layout()
    assert x.device_tensor_layout() is None
    with pytest.raises(RuntimeError, match="spyre device"):
        torch_spyre.get_spyre_tensor_layout(x)
    transposed = x.t().to("spyre")
    assert transposed.device_tensor_layout().device_size == [2, 5, 64]
    for shape in ((0, 64), (64, 0), (0,)):  # they have no storage
        empty = torch.empty(shape, dtype=F16, device="spyre")
        assert torch_spyre.get_spyre_tensor_layout(empty) == SpyreTensorLayout(list(shape), F16)


def test_a_tensor_moves_into_another_layout():
    x = numbers(40, 100)
    y = x.to("spyre")
    columns = SpyreTensorLayout([40, 100], [100, 1], F16, [1, 0])
    torch_spyre.set_spyre_tensor_layout(y, columns)
    assert y.device_tensor_layout() == columns and y.cpu().equal(x)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_layout_can_be_given(order):
    x = numbers(3, 70, 5)
    layout = SpyreTensorLayout(list(x.shape), list(x.stride()), F16, list(order))
    y = x.to("spyre", device_layout=layout)
    assert y.device_tensor_layout() == layout and y.cpu().equal(x)
    z = torch.empty(3, 70, 5, dtype=F16, device="spyre", device_layout=layout)
    assert z.device_tensor_layout() == layout
    z.copy_(y)
    assert z.cpu().equal(x)


def test_arguments_beside_a_layout():
    layout = SpyreTensorLayout([2, 3, 4, 64], F16)
    options = {"dtype": F16, "device": "spyre", "device_layout": layout}
    made = torch.empty(size=(2, 3, 4, 64), requires_grad=True, layout=torch.strided, **options)
    assert made.requires_grad and made.device_tensor_layout() == layout
    for name, value in {"out": made, "names": None, "layout": torch.sparse_coo}.items():
        with pytest.raises(TypeError, match=f"device_layout does not go with {name}"):
            torch.empty(2, 3, 4, 64, **options, **{name: value})
    for name, value in {"pin_memory": True, "memory_format": torch.channels_last}.items():
        with pytest.raises(RuntimeError, match="only supports contiguous memory format"):
            torch.empty(2, 3, 4, 64, **options, **{name: value})
    x = numbers(2, 3, 4, 64)
    assert x.to("spyre", device_layout=layout, non_blocking=True, copy=True).cpu().equal(x)
    with pytest.raises(TypeError, match="device_layout does not go with memory_format"):
        x.to("spyre", device_layout=layout, memory_format=torch.channels_last)


def test_a_tensor_that_has_the_layout_stays():
    x = numbers(2, 3, 4, 64).to("spyre")
    layout = x.device_tensor_layout()
    assert x.to("spyre", device_layout=layout) is x
    assert x.to(device_layout=layout, dtype=x.dtype) is x
    copied = x.to("spyre", device_layout=layout, copy=True)
    assert copied.data_ptr() != x.data_ptr() and copied.cpu().equal(x.cpu())


def test_empty_refuses_what_the_card_lacks():
    with pytest.raises(RuntimeError, match="Pin memory"):
        torch.empty(3, device="spyre", pin_memory=True)


def test_views_by_layout_share_the_storage():
    x = torch.randn(4, 70, dtype=torch.float16).to("spyre")
    layout = x.device_tensor_layout()
    turned = _C.as_strided_with_layout(x, [70, 4], [1, 70], None, layout)
    part = _C.reinterpret_tensor_with_layout(x[1], [2, 70], [70, 1], 70, layout)
    assert torch.equal(turned.cpu(), x.cpu().t()) and torch.equal(part.cpu(), x.cpu()[2:])
    part.zero_()
    assert not x[2:].cpu().any() and x[:2].cpu().any()
    other = SpyreTensorLayout([4, 70], F16)
    with pytest.raises(RuntimeError, match="1024 bytes .* over a storage of 384"):
        _C.as_strided_with_layout(x.flatten()[:140].clone(), [4, 35], [35, 1], 0, other)


def test_a_layout_is_of_the_card():
    host = torch.randn(4, 8, 128, dtype=torch.float16)
    layout = SpyreTensorLayout(host.size(), host.stride(), torch.float16, [1, 0, 2])
    moved = host.to(device_layout=layout)
    assert moved.device.type == "spyre" and moved.device_tensor_layout() == layout
    assert moved.to(torch.float16, device_layout=layout).device == moved.device
    torch.testing.assert_close(moved.cpu(), host, atol=1e-3, rtol=1e-3)


def their_pickle(*state):
    """A layout as torch-spyre pickles it: class, no arguments, state."""
    head = b"\x80\x02ctorch_spyre._C\nSpyreTensorLayout\n)\x81"
    return head + pickle.dumps(state, 2)[2:-1] + b"b."


def test_pickles_of_torch_spyre():
    layout = SpyreTensorLayout([4, 70], F16)
    size, steps, number = layout.device_size, layout.stride_map, int(layout.device_dtype)
    for state in (
        (3, size, steps, number, 0),
        (2, size, steps, number),
        (1, size, [0], steps, number),
    ):
        assert pickle.loads(their_pickle(*state)) == layout
    for state in ((4, size, steps, number, 0), (3, size), (3, "x", steps, number, 0)):
        with pytest.raises((TypeError, ValueError)):
            pickle.loads(their_pickle(*state))
    with pytest.raises(TypeError, match="does not change"):
        layout.__setstate__((3, size, steps, number, 0))
    with pytest.raises(RuntimeError):
        torch.ones(4, 70).half().to(
            "spyre", device_layout=SpyreTensorLayout.__new__(SpyreTensorLayout)
        )
