# SPDX-License-Identifier: Apache-2.0
"""Layers of torch.nn whose operators PyTorch keeps whole stay on the card, eager and compiled."""

import copy

import pytest
import torch
import torch_spyre
from inputs import HALF, numbers
from torch import nn
from torch_spyre.eager.operator_program import operator_of


def trained(norm):
    """A batch norm that has seen data."""
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return norm


LAYERS = {
    "attention": (lambda: nn.MultiheadAttention(64, 4, batch_first=True), (2, 5, 64)),
    "batch_norm": (lambda: trained(nn.BatchNorm2d(7)), (3, 7, 5, 4)),
    "instance_norm": (lambda: nn.InstanceNorm2d(6, affine=True), (3, 6, 5, 4)),
    "group_norm": (lambda: nn.GroupNorm(2, 6), (3, 6, 5, 4)),
    "log_sigmoid": (nn.LogSigmoid, (3, 70)),
    "avg_pool": (lambda: nn.AvgPool2d(2), (2, 3, 8, 8)),
    "avg_pool1d": (lambda: nn.AvgPool1d(2), (2, 3, 8)),
}


def compare(name, compiled, **options):
    layer, shape = LAYERS[name]
    layer, x = layer().eval(), numbers(*shape)
    wide, moved = copy.deepcopy(layer), layer.half().to("spyre")
    torch._dynamo.reset()
    function = torch.compile(moved) if compiled else moved
    y, on_card = x.float(), x.to("spyre")
    with torch.no_grad():
        if name == "attention":
            expected, actual = (
                wide(y, y, y, **options),
                function(on_card, on_card, on_card, **options),
            )
        else:
            expected, actual = (wide(y),), (function(on_card),)
    for a, e in zip(actual, expected, strict=True):
        if e is None:
            assert a is None
            continue
        torch.testing.assert_close(a.cpu().float(), e, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, compiled):
    # Groups of padded rows are the host's there.
    with torch_spyre.fallback("silent" if (name, compiled) == ("group_norm", True) else "error"):
        compare(name, compiled)


def test_options_of_attention():
    mask = torch.zeros(2, 5, dtype=torch.bool, device="spyre")
    for options in ({"need_weights": False}, {"average_attn_weights": False}):
        compare("attention", False, **options)
    layer, x = nn.MultiheadAttention(64, 4, batch_first=True).eval(), numbers(2, 5, 64)
    mask[1, 3:] = True
    with torch.no_grad():
        expected, _weights = layer(x.float(), x.float(), x.float(), key_padding_mask=mask.cpu())
        y = x.to("spyre")
        actual, _weights = layer.half().to("spyre")(y, y, y, key_padding_mask=mask)
    torch.testing.assert_close(actual.cpu().float(), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32), ids=str)
@pytest.mark.parametrize("form", (torch.contiguous_format, torch.channels_last), ids=str)
@pytest.mark.parametrize("tracked", (False, True))
def test_batch_norm_in_training(tracked, form, dtype):
    torch._dynamo.reset()
    norm = nn.BatchNorm2d(8, track_running_stats=tracked)
    x = (torch.randn(4, 8, 6, 6) * 2 + 30).to(dtype).contiguous(memory_format=form)
    unit = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-9, torch.float32: 2.0**-18}[dtype]
    for compiled in (False, True):
        wide, moved = copy.deepcopy(norm).double(), copy.deepcopy(norm).to(dtype).to("spyre")
        function = torch.compile(moved) if compiled else moved
        for _ in range(2):
            expected, actual = wide(x.double()), function(x.to("spyre"))
        assert actual.dtype == dtype and actual.stride() == expected.stride()
        near = {"rtol": 4 * unit, "atol": 4 * unit, "check_dtype": False}
        torch.testing.assert_close(actual.cpu(), expected, **near)
        for name, value in moved.named_buffers():
            torch.testing.assert_close(value.cpu(), wide.get_buffer(name), **near)
            assert value.dtype == (dtype if value.is_floating_point() else torch.int64)


@pytest.mark.host("aten.avg_pool2d", "aten.native_batch_norm")
def test_what_a_decomposition_does_not_take_is_the_hosts():
    single = numbers(1, 4, 1)
    results = []
    for device in ("cpu", "spyre"):  # the variance of one element has no bias to correct
        mean, variance = torch.zeros(4).half().to(device), torch.ones(4).half().to(device)
        torch.native_batch_norm(single.to(device), None, None, mean, variance, True, 0.1, 1e-5)
        results.append(mean.cpu())
    torch.testing.assert_close(*results)
    x = numbers(3, 4, 5, 6)
    padded = nn.AvgPool2d(3, 2, padding=1)
    torch.testing.assert_close(padded(x.to("spyre")).cpu(), padded(x), atol=1e-2, rtol=1e-2)


@pytest.mark.host("aten.avg_pool3d", "aten.pow")
def test_the_host_has_kernels_in_float32_for_16_bits():
    x = numbers(1, 6, 5, 4)
    layer = nn.LocalResponseNorm(2)  # avg_pool3d, which the CPU has not in float16
    for form in (layer, torch.compile(layer)):
        actual = form(x.to("spyre"))
        assert actual.dtype == HALF
        torch.testing.assert_close(actual.cpu().float(), layer(x.float()), atol=1e-2, rtol=1e-2)


POOLS = [
    (3, 2, 1, 1, False),
    (2, 2, 0, 1, True),
    ((2, 3), (1, 2), (1, 0), 2, False),
    (5, 1, 2, 1, False),
]


@pytest.mark.host("aten.max_pool2d_with_indices")
@pytest.mark.parametrize("kernel, stride, padding, dilation, ceil_mode", POOLS)
def test_max_pool(kernel, stride, padding, dilation, ceil_mode):
    pool = nn.MaxPool2d(kernel, stride, padding, dilation, ceil_mode=ceil_mode)
    for x in (numbers(2, 3, 11, 12), numbers(3, 7, 66).float(), numbers(1, 5, 9, 8).mT):
        torch._dynamo.reset()
        actual = torch.compile(pool)(x.to("spyre"))
        assert dilation > 1 or ": host" not in torch_spyre.last_report().text
        assert actual.shape == pool(x).shape and torch.equal(actual.cpu(), pool(x))


@pytest.mark.host("aten.max_pool2d_with_indices")
def test_max_pool_whose_indices_are_used_is_the_hosts():
    pool, x = nn.MaxPool2d(3, 2, return_indices=True), numbers(1, 2, 9, 9)
    actual, expected = torch.compile(pool)(x.to("spyre")), pool(x)
    assert all(torch.equal(a.cpu(), e) for a, e in zip(actual, expected, strict=True))


@pytest.mark.parametrize("name", ["batch_norm", "log_sigmoid"])
def test_a_layer_is_one_launch(name):
    layer, shape = LAYERS[name]
    layer, x = layer().eval().half().to("spyre"), numbers(*shape).to("spyre")
    with torch.no_grad():
        layer(x)
        with torch.profiler.profile() as profile:
            layer(x)
    names = [event.name for event in profile.events()]
    assert sum(name.startswith("launch_kernel") for name in names) == 1, names


def test_gradients_of_weights_alone_are_one_program():
    convolution = nn.Conv2d(6, 8, 3).half().to("spyre")
    x, ones = numbers(2, 6, 9, 9).to("spyre"), torch.ones(2, 8, 7, 7, dtype=HALF, device="spyre")
    operator = operator_of(torch.ops.aten.convolution_backward.default)
    how = [8], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, True]
    program, _tensors, reason = operator.find([ones, x, convolution.weight, *how], {})
    assert program is not None, reason
    assert program.results[0] is None and len(program.results) == 3


def test_statistics_of_inference_are_empty_tensors_of_their_own():
    x, vector = numbers(2, 6, 4, 4).to("spyre"), torch.ones(6, dtype=HALF, device="spyre")
    for _ in range(3):  # compiled, remembered, launched from C
        results = torch.native_batch_norm(x, vector, vector, vector, vector, False, 0.1, 1e-5)
        assert [tuple(r.shape) for r in results] == [(2, 6, 4, 4), (0,), (0,)]
        assert {r.dtype for r in results} == {HALF} and {r.device.type for r in results} == {
            "spyre"
        }
        assert len({r.untyped_storage()._cdata for r in results}) == 3
