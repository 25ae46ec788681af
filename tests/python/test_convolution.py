# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the card, against float32 on the CPU."""

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from inputs import numbers

# x, weight, then stride, padding, dilation, groups.
CASES = {
    "same": ((1, 3, 8, 9), (4, 3, 3, 3), 1, 1, 1, 1),
    "strided": ((2, 4, 9, 7), (6, 2, 3, 3), (2, 1), 0, 1, 2),
    "depthwise": ((2, 4, 8, 8), (4, 1, 3, 3), 1, 1, 1, 4),
    "dilated": ((1, 8, 9, 9), (3, 8, 3, 3), 1, (2, 1), 2, 1),
    "few channels": ((1, 2, 9, 9), (3, 2, 3, 3), 1, (2, 1), 2, 1),
    "few channels in steps": ((2, 3, 21, 26), (70, 3, 7, 7), 2, 3, 1, 1),
    "few channels, taps of two dims": ((2, 1, 9, 9), (3, 1, 2, 2), 1, (0, 1), 1, 1),
    "few channels, many taps": ((1, 1, 3, 150), (3, 1, 1, 40), (1, 20), 0, 1, 1),
    "columns": ((2, 3, 10, 70), (5, 3, 3, 3), 1, 1, 1, 1),
    "columns in steps": ((2, 3, 11, 130), (64, 3, 3, 5), (2, 3), (1, 2), 1, 1),
    "columns, dilated": ((1, 2, 20, 64), (3, 2, 3, 3), (2, 1), 2, (4, 2), 1),
    "columns, steps that taps do not divide": ((1, 2, 20, 64), (3, 2, 3, 3), (3, 1), 1, (2, 1), 1),
    "columns of 16 channels": ((2, 16, 9, 64), (16, 16, 3, 3), 1, (0, 1), 1, 1),
    "columns of groups": ((2, 6, 9, 66), (4, 3, 3, 3), 1, 1, 1, 2),
    "columns of groups in steps": ((1, 8, 12, 70), (12, 2, 3, 2), (2, 1), (1, 0), (1, 2), 4),
    "columns of images": ((70, 6, 9, 11), (16, 6, 3, 5), (2, 1), (1, 0), (1, 2), 1),
    "columns of images in groups": ((64, 4, 7, 8), (6, 2, 3, 3), 1, 1, 1, 2),
    "columns of tiles": ((2, 3, 13, 129), (7, 3, 3, 2), (3, 2), 0, 1, 1),
    "few features": ((2, 40, 9, 33), (2, 40, 3, 3), 1, 1, 1, 1),
    "few features, dilated": ((1, 64, 12, 40), (3, 64, 3, 2), 1, (2, 3), (2, 3), 1),
    "one feature": ((3, 70, 8, 64), (1, 70, 1, 5), 1, (0, 2), 1, 1),
    "dilated and strided": ((2, 70, 9, 12), (5, 70, 3, 2), (2, 3), (1, 0), (1, 2), 1),
    "one channel, taps of one dim": ((1, 1, 10, 20), (1, 1, 1, 5), 1, 0, 2, 1),
    "one channel, taps of lines": ((1, 1, 18, 2), (1, 1, 4, 1), 1, 0, 2, 1),
    "one line of windows": ((1, 9, 5, 9), (3, 9, 5, 3), 1, 0, 1, 1),
    "one window": ((2, 9, 5, 9), (3, 9, 5, 9), 1, 0, 1, 1),
    "one window of each channel": ((2, 66, 3, 5), (66, 1, 3, 3), 1, 0, 1, 66),
    "depthwise in steps": ((2, 70, 9, 8), (70, 1, 3, 3), 2, 1, 1, 70),
    "depthwise tiles, padded": ((2, 40, 8, 12), (40, 1, 2, 3), (2, 3), (1, 1), 1, 40),
    "depthwise tiles, padded, that leave a rest": ((1, 5, 9, 8), (10, 1, 3, 3), 3, 1, 1, 5),
    "depthwise, taps of one dim": ((1, 5, 6, 7), (5, 1, 1, 3), 1, 0, 2, 5),
    "a factor for each channel": ((2, 70, 9, 8), (70, 1, 1, 1), 1, 0, 1, 70),
    "factors in steps, several a channel": ((2, 6, 9, 8), (18, 1, 1, 1), (2, 3), (1, 2), 1, 6),
    "several features a channel": ((1, 3, 6, 7), (6, 1, 3, 2), 1, 1, 1, 3),
    "patches": ((2, 3, 16, 24), (70, 3, 8, 8), 8, 0, 1, 1),
    "pointwise": ((1, 5, 6, 8), (4, 5, 1, 1), 1, 0, 1, 1),
    "groups": ((1, 6, 8, 8), (4, 3, 2, 2), 2, 0, 1, 2),
}


def check(case, compiled, prepare=lambda x: x):
    (x, w), rest = (numbers(*case[0]), numbers(*case[1])), case[2:]
    bias = numbers(case[1][0])
    torch._dynamo.reset()

    def function(x, *others):
        return F.conv2d(prepare(x), *others)

    function = torch.compile(function) if compiled else function
    for b in (bias,) if compiled else (bias, None):
        actual = function(x.to("spyre"), w.to("spyre"), b if b is None else b.to("spyre"), *rest)
        expected = F.conv2d(x.float(), w.float(), b if b is None else b.float(), *rest)
        assert actual.is_contiguous() and actual.device.type == "spyre"
        torch.testing.assert_close(actual.cpu().float(), expected, atol=5e-2, rtol=2e-2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_windows(name, compiled):
    with torch_spyre.fallback("error"):
        check(CASES[name], compiled)


def test_windows_of_parts_and_of_what_was_folded():
    """A dim of the input that is none of its storage is copied, or cut where windows do not lie."""
    with torch_spyre.fallback("error"):
        check(CASES["dilated"], True, lambda x: torch.cat((x, x), 2)[:, :, 9:])
        check(CASES["one line of windows"], True, lambda x: x.flatten(1).neg().neg().view(x.shape))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_weight_whose_channels_are_two_dims_of_its_storage(groups):
    x, w = numbers(2, 21 * groups, 9, 12), numbers(4, 3, 5, 7)

    def function(x, w):
        w = w.permute(0, 3, 1, 2).reshape(4, 21, 5, 1)
        return F.conv2d(x, w, stride=(2, 1), groups=groups)

    with torch_spyre.fallback("error"):
        for f in (function, torch.compile(function)):
            actual = f(x.to("spyre"), w.to("spyre"))
            expected = function(x.float(), w.float())
            torch.testing.assert_close(actual.cpu().float(), expected, atol=5e-2, rtol=2e-2)


@pytest.mark.parametrize("name", [
    "few channels", "few channels in steps", "patches", "columns in steps", "columns of tiles",
    "few features, dilated", "columns of groups", "columns of images",
    "a factor for each channel", "factors in steps, several a channel",
])  # fmt: skip
def test_channels_last(name):
    torch._dynamo.reset()
    shapes, how = CASES[name][:2], CASES[name][2:]
    x, w = (numbers(*shape) for shape in shapes)
    x = x.to("spyre").contiguous(memory_format=torch.channels_last)
    for f in (F.conv2d, torch.compile(F.conv2d)):
        actual = f(x, w.to("spyre"), None, *how)
        assert actual.is_contiguous(memory_format=torch.channels_last)
        expected = F.conv2d(x.cpu().float(), w.float(), None, *how)
        torch.testing.assert_close(actual.cpu().float(), expected, atol=5e-2, rtol=2e-2)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_factors_of_channels_with_gradients(rank):
    """Of windows of one element, transposed ones too."""
    for transposed, stride in ((False, 1), (False, 2), (True, 1), (True, 2)):
        of = f"Conv{'Transpose' if transposed else ''}{rank}d"
        layer = getattr(torch.nn, of)(6, 12, 1, stride, groups=6)
        x = numbers(2, 6, *(7, 6, 5)[:rank]).float().requires_grad_()
        expected = layer(x)
        expected.square().sum().backward()
        moved = copy.deepcopy(layer).half().to("spyre")
        moved.zero_grad()
        given = x.detach().half().to("spyre").requires_grad_()
        with torch_spyre.fallback("error"):
            actual = moved(given)
            actual.float().square().sum().backward()
        assert actual.stride() == expected.stride()
        for a, b in ((actual, expected), (given.grad, x.grad)):
            torch.testing.assert_close(a.cpu().float(), b, atol=5e-2, rtol=2e-2)
        assert moved.weight.grad is not None and layer.weight.grad is not None
        torch.testing.assert_close(
            moved.weight.grad.cpu().float(), layer.weight.grad, atol=0.3, rtol=2e-2
        )


def test_few_features_of_any_number_of_images():
    torch._dynamo.reset()
    weight = numbers(3, 64, 3, 3)
    function = torch.compile(lambda x, w: F.conv2d(x, w, padding=1))
    for images in (2, 3, 5):
        x = numbers(images, 64, 12, 40)
        given = x.to("spyre")
        torch._dynamo.mark_dynamic(given, 0)
        with torch_spyre.fallback("error"):
            actual = function(given, weight.to("spyre")).cpu().float()
        expected = F.conv2d(x.float(), weight.float(), padding=1)
        torch.testing.assert_close(actual, expected, atol=5e-2, rtol=2e-2)


@pytest.mark.host("aten.convolution")
def test_layers():
    for layer, x in (
        (torch.nn.Conv1d(3, 4, 3, padding=1), numbers(2, 3, 10)),
        (torch.nn.ConvTranspose2d(3, 4, 2, stride=2), numbers(1, 3, 5, 5)),
        (torch.nn.Conv2d(3, 4, 2, stride=2, padding="valid"), numbers(1, 3, 6, 6)),
    ):
        expected = layer(x.float())
        moved = layer.half().to("spyre")
        for function in (moved, torch.compile(moved)):
            actual = function(x.to("spyre"))
            torch.testing.assert_close(actual.cpu().float(), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.host("aten.convolution_backward")
def test_gradients():
    layer = torch.nn.Conv2d(3, 4, 3, padding=1)
    x = numbers(1, 3, 6, 6)
    layer(x.float()).square().sum().backward()
    expected = layer.weight.grad.clone()
    layer.zero_grad()
    moved = layer.half().to("spyre")
    moved(x.to("spyre")).square().sum().backward()
    torch.testing.assert_close(moved.weight.grad.cpu().float(), expected, atol=0.5, rtol=3e-2)


TURNED = {
    "1d of few channels": (F.conv1d, (2, 2, 140), (5, 2, 7), {"stride": 2, "padding": 3}),
    "1d of many images": (F.conv1d, (64, 3, 20), (8, 3, 5), {"stride": 2, "padding": 2, "bias": 8}),
    "2d of few channels": (F.conv2d, (2, 2, 9, 66), (3, 2, 3, 3), {"padding": 1, "bias": 3}),
    "2d of small groups": (F.conv2d, (2, 6, 9, 66), (9, 2, 3, 3), {"padding": 1, "groups": 3}),
    "3d of few channels": (
        F.conv3d, (2, 2, 5, 6, 66), (3, 2, 3, 2, 3), {"padding": (2, 0, 1), "dilation": (2, 1, 1)},
    ),
    "1d of few features": (F.conv1d, (2, 20, 70), (2, 20, 5), {"padding": 2, "bias": 2}),
    "3d of few features": (F.conv3d, (2, 30, 4, 5, 34), (1, 30, 3, 2, 3), {"padding": (1, 0, 2)}),
    "1d of many channels": (F.conv1d, (3, 66, 40), (9, 66, 4), {"dilation": 2}),
    "2d of many channels": (F.conv2d, (2, 12, 20, 17), (40, 12, 3, 3), {"padding": 1}),
    "2d of many channels, dilated": (
        F.conv2d, (1, 70, 12, 33), (17, 70, 2, 3), {"padding": (0, 2), "dilation": (3, 2)},
    ),
    "3d of many channels": (F.conv3d, (2, 20, 4, 6, 9), (16, 20, 3, 2, 3), {"padding": (1, 0, 1)}),
    "2d of many channels in steps": (
        F.conv2d, (2, 36, 19, 24), (20, 36, 3, 4), {"stride": (2, 3), "padding": (1, 0)},
    ),
    "3d of many channels in steps": (
        F.conv3d, (1, 16, 6, 9, 10), (24, 16, 3, 3, 3), {"stride": (1, 2, 2), "padding": 1},
    ),
    "transpose 2d of many channels in steps": (
        F.conv_transpose2d, (2, 34, 7, 9), (34, 12, 4, 4), {"stride": 2, "padding": 1},
    ),
    "transpose 2d of many channels": (
        F.conv_transpose2d, (2, 33, 9, 11), (33, 10, 3, 2),
        {"padding": 1, "dilation": (1, 2), "output_padding": (0, 1)},
    ),
    "transpose 1d": (F.conv_transpose1d, (2, 4, 9), (4, 6, 3), {}),
    "transpose 1d of 2": (F.conv_transpose1d, (2, 4, 70), (4, 6, 4), {"stride": 2, "padding": 1}),
    "transpose 2d": (
        F.conv_transpose2d, (2, 4, 9, 7), (4, 6, 3, 3),
        {"stride": 2, "padding": 1, "output_padding": 1, "bias": 6},
    ),
    "transpose 2d of groups": (
        F.conv_transpose2d, (2, 4, 9, 7), (4, 3, 2, 2), {"stride": 2, "groups": 2, "bias": 6},
    ),
    "transpose 2d dilated": (
        F.conv_transpose2d, (1, 8, 5, 5), (8, 8, 3, 3), {"dilation": 2, "padding": 3},
    ),
    "transpose 3d": (
        F.conv_transpose3d, (1, 4, 3, 5, 6), (4, 6, 3, 3, 3), {"stride": 2, "padding": 1},
    ),
    "transpose 1d beyond a stride": (
        F.conv_transpose1d, (1, 9, 5), (9, 4, 3), {"dilation": 2, "output_padding": 1},
    ),
    "transpose 2d of tiles": (
        F.conv_transpose2d, (2, 9, 5, 4), (9, 6, 2, 3),
        {"stride": (2, 3), "output_padding": (1, 2), "bias": 6},
    ),
    "2d tiles with a rest": (F.conv2d, (2, 20, 9, 11), (17, 20, 2, 3), {"stride": (2, 3)}),
    "2d of many taps": (F.conv2d, (2, 9, 14, 13), (5, 9, 9, 10), {"padding": 4}),
    "3d patches": (F.conv3d, (1, 3, 8, 16, 16), (8, 3, 2, 4, 4), {"stride": (2, 4, 4), "bias": 8}),
    "3d": (F.conv3d, (1, 4, 6, 16, 16), (8, 4, 3, 3, 3), {"padding": 1}),
    "3d in steps": (
        F.conv3d, (2, 4, 5, 16, 16), (6, 4, 3, 3, 3), {"stride": (2, 1, 1), "padding": (0, 1, 1)},
    ),
    "3d in small groups": (
        F.conv3d, (2, 4, 6, 7, 8), (4, 2, 2, 3, 2), {"groups": 2, "stride": 2, "dilation": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("name", TURNED)
def test_transposed_ones_and_those_of_three_dims(name, dtype):
    torch._dynamo.reset()
    function, size, of_weight, options = TURNED[name]
    options = dict(options)
    x, weight = torch.randn(size).to(dtype), (torch.randn(of_weight) * 0.2).to(dtype)
    bias = torch.randn(options.pop("bias")).to(dtype) if "bias" in options else None
    wide = None if bias is None else bias.float()
    expected = function(x.float(), weight.float(), wide, **options)
    for form in (function, torch.compile(function, dynamic=False)):
        given = None if bias is None else bias.to("spyre")
        actual = form(x.to("spyre"), weight.to("spyre"), given, **options).cpu()
        assert actual.shape == expected.shape
        tolerance = 0.01 if dtype is torch.float16 else 0.05
        torch.testing.assert_close(actual.float(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", TURNED)
def test_their_gradients(name):
    torch._dynamo.reset()
    function, size, of_weight, options = TURNED[name]
    options = {name: value for name, value in options.items() if name != "bias"}
    x, weight = torch.randn(size).half(), (torch.randn(of_weight) * 0.2).half()

    def gradients(function, device, dtype):
        leaves = [t.to(device, dtype).requires_grad_() for t in (x, weight)]
        function(*leaves, **options).float().square().sum().backward()
        return [leaf.grad.cpu().float() for leaf in leaves]

    expected = gradients(function, "cpu", torch.float32)
    with torch_spyre.fallback("error"):
        for form in (function, torch.compile(function, dynamic=False)):
            for actual, wanted in zip(gradients(form, "spyre", torch.half), expected, strict=True):
                assert (actual - wanted).norm() < 0.01 * wanted.norm()


@pytest.mark.parametrize("sizes, weight, stride, padding, dilation, groups", [
    ((1, 16, 7), (128, 1, 2), 2, 2, 1, 16),  # several features of a channel
    ((2, 24, 9, 8), (48, 1, 3, 2), (3, 2), 0, (2, 1), 24),
    ((1, 16, 12, 9), (8, 16, 5, 1), (1, 3), (0, 2), 1, 1),  # windows of one element, apart
    ((1, 16, 7, 9), (8, 16, 5, 3), (2, 1), (1, 0), (2, 1), 1),  # one window, spread and padded
    ((2, 1, 90), (16, 1, 10), 5, 0, 1, 1),  # lines of one channel
])  # fmt: skip
def test_windows_that_do_not_overlap_or_move(sizes, weight, stride, padding, dilation, groups):
    x, w = torch.randn(sizes).half(), torch.randn(weight).half() / 4
    form = torch.nn.functional.conv1d if len(sizes) == 3 else torch.nn.functional.conv2d
    how = (None, stride, padding, dilation, groups)
    with torch_spyre.fallback("error"):
        results = [f(x.to("spyre"), w.to("spyre"), *how) for f in (form, torch.compile(form))]
    for result in results:
        expected = form(x.float(), w.float(), *how)
        torch.testing.assert_close(result.cpu().float(), expected, rtol=1e-2, atol=2e-2)


def windows(x, size):
    """[N, C, H, W] -> [N * windows, C, size, size]"""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // size, size, w // size, size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(-1, c, size, size)


@pytest.mark.parametrize("groups", (1, 66))
def test_between_windows_of_attention(groups):
    """What windows are written into lines of an image, and read as such: the lines stay whole."""
    x, weight = numbers(1, 66, 14, 14), numbers(66, 66 // groups, 3, 3) / 16

    def block(x, weight):
        x = windows(x, 7).neg().view(2, 2, 66, 7, 7).permute(2, 0, 3, 1, 4).reshape(1, 66, 14, 14)
        y = x + F.conv2d(x, weight, padding=1, groups=groups)
        return windows(y, 7).flatten(2).softmax(-1)

    torch._dynamo.reset()
    with torch_spyre.fallback("error"):
        actual = torch.compile(block)(x.to("spyre"), weight.to("spyre"))
    expected = block(x.float(), weight.float())
    torch.testing.assert_close(actual.cpu().float(), expected, atol=1e-2, rtol=2e-2)


@pytest.mark.parametrize("around", [(0, 2), (2, 0), (0, 3), (0, 55), (1, 0, 2, 3)])
def test_padding_of_what_lies_in_parts(around):
    x = numbers(20, 4, 3, 2, 3)

    def padded(x):
        return F.pad(x.transpose(2, 3).reshape(20, 8, 9), around)

    torch._dynamo.reset()
    with torch_spyre.fallback("error"):
        for form in (padded, torch.compile(padded)):
            actual = form(x.to("spyre")).cpu()
            assert torch.equal(actual, padded(x.to("spyre").cpu()))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels, size", [(64, 32), (48, 17)])
def test_gradients_of_channels_one_by_one_that_come_channels_last(channels, size, stride):
    """Rows of an operand lie further apart than in the result: room, which is no sum."""
    weight, x = numbers(channels, 1, 3, 3), numbers(2, channels, size, size)
    grad = numbers(*F.conv2d(x, weight, stride=stride, padding=1, groups=channels).shape)
    grad = grad.contiguous(memory_format=torch.channels_last)
    backward = torch.ops.aten.convolution_backward
    options = [0], [stride] * 2, [1, 1], [1, 1], False, [0, 0], channels, [True, True, False]
    found = backward(*(t.to("spyre") for t in (grad, x, weight)), *options)
    wanted = backward(*(t.float() for t in (grad, x, weight)), *options)
    for one, other in zip(found[:2], wanted[:2], strict=True):
        scale = other.abs().max().item()
        torch.testing.assert_close(one.cpu().float(), other, rtol=0, atol=0.005 * scale)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kernel, stride", [((3,), 2), ((5,), 3), ((3, 5), 2)])
def test_gradients_of_windows_in_steps_are_the_cards(kernel, stride, compiled):
    """Every second of three taps is a weight whose strides are no multiples of each other."""
    channels, sizes = 32, (163, 9)[: len(kernel)]
    x, weight = numbers(2, channels, *sizes), numbers(channels, channels, *kernel)

    def windows(x, weight):
        form = F.conv1d if len(kernel) == 1 else F.conv2d
        return form(x, weight, stride=stride)

    form = torch.compile(windows, dynamic=False) if compiled else windows
    torch._dynamo.reset()
    gradients = []
    with torch_spyre.fallback("error"):
        for run, device, dtype in ((form, "spyre", x.dtype), (windows, "cpu", torch.float64)):
            given = [t.to(device).to(dtype).detach().requires_grad_() for t in (x, weight)]
            result = run(*given)
            seed = (torch.arange(result.numel()) % 7 - 3).reshape(result.shape).to(result.dtype)
            result.backward(seed.to(result.device))
            gradients.append([t.grad.cpu().double() for t in given])
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0.005 * wanted.abs().max().item())


@pytest.mark.parametrize("kernel, most", [(7, 12), (3, 7)])
def test_windows_that_overlap_are_read_once_a_tile(kernel, most):
    x, weight = numbers(2, 96, 56, 56), numbers(96, 1, kernel, kernel)
    on_card = x.to("spyre"), weight.to("spyre")
    result = torch.compile(lambda x, w: F.conv2d(x, w, padding=kernel // 2, groups=96))(*on_card)
    expected = F.conv2d(x.float(), weight.float(), padding=kernel // 2, groups=96)
    torch.testing.assert_close(result.cpu().float(), expected, atol=0.05, rtol=0.01)
    assert torch_spyre.last_report().bytes < most * on_card[0].nbytes
