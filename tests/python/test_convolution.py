# SPDX-License-Identifier: Apache-2.0
"""Convolutions as products, against float32 on the CPU."""

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
    "dilated": ((1, 2, 9, 9), (3, 2, 3, 3), 1, (2, 1), 2, 1),
}
TILES = {
    "patches": ((2, 3, 16, 24), (70, 3, 8, 8), 8, 0, 1, 1),
    "pointwise": ((1, 5, 6, 8), (4, 5, 1, 1), 1, 0, 1, 1),
    "groups": ((1, 6, 8, 8), (4, 3, 2, 2), 2, 0, 1, 2),
}


def check(case, compiled):
    (x, w), rest = (numbers(*case[0]), numbers(*case[1])), case[2:]
    bias = numbers(case[1][0])
    torch._dynamo.reset()
    function = torch.compile(F.conv2d) if compiled else F.conv2d
    for b in (bias,) if compiled else (bias, None):
        actual = function(x.to("spyre"), w.to("spyre"), b if b is None else b.to("spyre"), *rest)
        expected = F.conv2d(x.float(), w.float(), b if b is None else b.float(), *rest)
        assert actual.is_contiguous() and actual.device.type == "spyre"
        torch.testing.assert_close(actual.cpu().float(), expected, atol=5e-2, rtol=2e-2)


@pytest.mark.host("aten.im2col")
@pytest.mark.parametrize("name", CASES)
def test_windows(name):
    check(CASES[name], compiled=name == "strided")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", TILES)
def test_tiles_stay_on_the_card(name, compiled):
    with torch_spyre.fallback("error"):
        check(TILES[name], compiled)


@pytest.mark.host("aten.convolution", "aten.im2col")
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


@pytest.mark.host("aten.convolution_backward", "aten.im2col")
def test_gradients():
    layer = torch.nn.Conv2d(3, 4, 3, padding=1)
    x = numbers(1, 3, 6, 6)
    layer(x.float()).square().sum().backward()
    expected = layer.weight.grad.clone()
    layer.zero_grad()
    moved = layer.half().to("spyre")
    moved(x.to("spyre")).square().sum().backward()
    torch.testing.assert_close(moved.weight.grad.cpu().float(), expected, atol=0.5, rtol=3e-2)
