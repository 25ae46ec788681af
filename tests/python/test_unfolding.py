# SPDX-License-Identifier: Apache-2.0
"""Windows of images as columns, and back: of whole numbers PyTorch's bits."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch_spyre
from inputs import half
from torch_spyre.eager.operator_program import operator_of

# Image without its batch, batch or none, kernel, and how windows lie.
CASES = {
    "overlapping": ((3, 8, 9), 2, 3, {"padding": 1}),
    "of one image": ((5, 6, 70), None, 2, {}),
    "side by side": ((4, 8, 12), 2, (2, 3), {"stride": (2, 3)}),
    "with gaps": ((2, 9, 9), 3, 2, {"stride": 3, "padding": 1}),
    "dilated": ((70, 7, 8), 1, (3, 2), {"dilation": (1, 3), "stride": (2, 1), "padding": (1, 2)}),
    "of one place": ((3, 5, 65), 2, 1, {}),
    "over all": ((3, 4, 5), 2, (4, 5), {}),
    "of many places": ((2, 18, 18), 1, 17, {}),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_columns_of_images(name, dtype, compiled):
    torch._dynamo.reset()
    image, batch, kernel, options = CASES[name]
    x = torch.randint(-9, 9, image if batch is None else (batch, *image)).to(dtype)
    wanted = F.unfold(x, kernel, **options)
    y = torch.randint(-3, 4, wanted.shape).to(dtype)

    def unfold(x):
        return F.unfold(x, kernel, **options)

    def fold(y):
        return F.fold(y, image[1:], kernel, **options)

    with torch_spyre.fallback("error"):
        for function, operand in ((unfold, x), (fold, y)):
            form = torch.compile(function) if compiled else function
            found, expected = form(operand.to("spyre")), function(operand)
            assert found.stride() == expected.stride()
            assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_their_gradients(compiled):
    torch._dynamo.reset()
    x = torch.randint(-9, 9, (2, 3, 8, 9)).half()

    def both(x):
        columns = F.unfold(x, 3, padding=1, stride=2)
        return F.fold(columns * 2, (8, 9), 3, padding=1, stride=2)

    leaves = [x.clone().requires_grad_(), x.to("spyre").requires_grad_()]
    for leaf, form in zip(leaves, (both, torch.compile(both) if compiled else both), strict=True):
        result = form(leaf)
        (result * (torch.arange(72).reshape(8, 9) % 5).to(leaf)).sum().backward()
    assert torch.equal(leaves[0].grad, leaves[1].grad.cpu())


FRAMES = [(64, 32), (64, 16), (400, 160), (5, 3), (7, 1), (3, 3), (25, 10), (9, 12)]


@pytest.mark.parametrize("size, step", FRAMES)
def test_frames_of_signals_are_cut_where_they_overlap(size, step):
    x = half(3, 2000)

    def frames(x):
        return x.unfold(1, size, step) * 2

    torch._dynamo.reset()
    result = torch.compile(frames, dynamic=False)(x.to("spyre"))
    torch.testing.assert_close(result.cpu(), frames(x), atol=0.01, rtol=0.01)
    report = torch_spyre.last_report()
    assert ": host" not in report.text
    assert report.kernels <= 8 * (math.ceil(size / step) + 1)


def test_windows_that_overlap_in_two_dims():
    x = half(2, 12, 20)

    def windows(x):
        return x.unfold(1, 4, 2).unfold(2, 6, 3).flatten(-2).relu()

    torch._dynamo.reset()
    result = torch.compile(windows, dynamic=False)(x.to("spyre"))
    torch.testing.assert_close(result.cpu(), windows(x), atol=0.01, rtol=0.01)


def _card_bytes(op, *args):
    """What the program of an eager call reads and writes of the card's memory."""
    program, _tensors, reason = operator_of(op).find(args, {})
    assert program is not None, reason
    counters = program.launch.executable.counters(0)
    return sum(c["memory_read_bytes"] + c["memory_written_bytes"] for c in counters)


def test_columns_that_leave_are_not_written_element_by_element():
    """Channels are the sticks of the windows, places those of the result; each element of a stick
    of its own would be 64 times as many bytes."""
    x = torch.randint(-9, 9, (2, 32, 28, 28)).half()
    card = x.to("spyre")
    columns = F.unfold(card, 3, padding=1)
    assert torch.equal(columns.cpu(), F.unfold(x, 3, padding=1))
    moved = _card_bytes(torch.ops.aten.im2col.default, card, [3, 3], [1, 1], [1, 1], [1, 1])
    assert moved < 12 * columns.numel() * 2


def test_a_copy_with_colours_last_fills_more_of_its_sticks():
    x = torch.randint(-9, 9, (2, 3, 64, 64)).half()
    patches = x.to("spyre").view(2, 3, 4, 16, 4, 16).permute(0, 2, 4, 3, 5, 1)
    copy = patches.contiguous()
    layout = copy.device_tensor_layout()
    assert layout.stride_map[-1] == 3  # along 16 places, not along three colours
    wanted = x.view(2, 3, 4, 16, 4, 16).permute(0, 2, 4, 3, 5, 1).contiguous()
    assert torch.equal(copy.cpu(), wanted)
    weight = torch.randn(8, 768).half()
    rows = F.linear(copy.view(2, 16, 768), weight.to("spyre"))
    exact = F.linear(wanted.view(2, 16, 768).float(), weight.float())
    torch.testing.assert_close(rows.cpu().float(), exact, rtol=1e-2, atol=0.2)
