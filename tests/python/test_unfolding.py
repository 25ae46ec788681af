# SPDX-License-Identifier: Apache-2.0
"""Windows of images as columns, and back: of whole numbers PyTorch's bits."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

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
