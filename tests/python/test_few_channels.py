# SPDX-License-Identifier: Apache-2.0
"""Convolutions of few channels: filters of images and of signals."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre
from inputs import half

FEW_CHANNELS = {  # sizes of x and weight, stride, padding, dilation, groups
    "one channel": ((2, 1, 40, 50), (1, 1, 3, 3), 1, 1, 1, 1),
    "filters of one channel": ((2, 1, 70, 33), (3, 1, 3, 3), 1, 0, 1, 1),
    "colours": ((2, 3, 132, 70), (3, 1, 5, 5), 1, 2, 1, 3),
    "two features a colour": ((1, 3, 90, 20), (6, 1, 3, 3), 1, 1, 1, 3),
    "columns": ((1, 2, 9, 200), (2, 1, 3, 7), 1, 1, 1, 2),
    "steps": ((2, 3, 131, 40), (3, 1, 4, 3), (2, 3), 1, 1, 3),
    "spread": ((1, 1, 150, 30), (1, 1, 3, 3), 1, 2, (2, 3), 1),
    "wide": ((1, 3, 80, 80), (3, 1, 11, 11), 1, 5, 1, 3),
    "many images": ((70, 1, 12, 12), (1, 1, 3, 3), 1, 1, 1, 1),
    "signals": ((70, 1, 300), (1, 1, 16), 1, 15, 1, 1),
    "one signal": ((1, 1, 3000), (2, 1, 9), 1, 4, 1, 1),
    "signals in steps": ((3, 4, 700), (4, 1, 5), 3, 0, 2, 4),
    "steps that leave columns": ((1, 2, 100, 33), (2, 1, 3, 3), 3, 1, 1, 2),
    "tiles": ((32, 1, 4, 12), (1, 1, 1, 2), (1, 2), 0, 1, 1),
    "tiles of many channels": ((2, 40, 12), (40, 1, 2), 2, 0, 1, 40),
    "tiles that leave rows": ((2, 40, 9, 12), (80, 1, 2, 4), (2, 4), 0, 1, 40),
    "no images": ((0, 3, 90, 20), (3, 1, 3, 3), 1, 1, 1, 3),
    "one row of windows": ((1, 1, 3, 300), (1, 1, 3, 5), 1, 0, 1, 1),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", FEW_CHANNELS)
def test_few_channels_fill_sticks_with_images_or_blocks_of_rows(name, bias):
    sizes, of_weight, stride, padding, dilation, groups = FEW_CHANNELS[name]
    x, weight = half(*sizes), half(*of_weight)
    b = half(of_weight[0]) if bias else None
    convolve = F.conv2d if len(sizes) == 4 else F.conv1d

    def function(x, weight, b):
        return convolve(x, weight, b, stride, padding, dilation, groups)

    expected = function(x.float(), weight.float(), None if b is None else b.float())
    on_card = [None if t is None else t.to("spyre") for t in (x, weight, b)]
    for run in (function, torch.compile(function, dynamic=False)):
        result = run(*on_card)
        assert result.shape == expected.shape
        torch.testing.assert_close(result.cpu().float(), expected, atol=0.02, rtol=0.01)
    assert 0 in sizes or ": host" not in torch_spyre.last_report().text


def test_an_image_in_blocks_moves_a_few_times_its_bytes():
    x, weight = half(1, 1, 512, 512).to("spyre"), half(1, 1, 3, 3).to("spyre")
    torch.compile(lambda x, w: F.conv2d(x, w, padding=1), dynamic=False)(x, weight)
    assert torch_spyre.last_report().bytes < 8 * x.nbytes


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_blocks_of_rows_leave_the_order_of_the_input(order):
    x, weight = half(1, 3, 100, 40).to(memory_format=order), half(3, 1, 3, 3)

    def function(x, weight):
        return F.conv2d(x, weight, padding=1, groups=3)

    result = torch.compile(function, dynamic=False)(x.to("spyre"), weight.to("spyre"))
    assert result.is_contiguous(memory_format=order)
    expected = function(x.float(), weight.float())
    torch.testing.assert_close(result.cpu().float(), expected, atol=0.02, rtol=0.01)


def test_what_blocks_of_rows_make_is_viewed():
    def function(x, weight):
        return F.conv2d(x, weight, padding=1, groups=3).view(1, -1)

    x, weight = half(1, 3, 100, 40), half(3, 1, 3, 3)
    result = torch.compile(function, dynamic=False)(x.to("spyre"), weight.to("spyre"))
    expected = function(x.float(), weight.float())
    torch.testing.assert_close(result.cpu().float(), expected, atol=0.02, rtol=0.01)
