# SPDX-License-Identifier: Apache-2.0
"""channels_last and other dense permuted strides: computed on the card, strides as on the CPU."""

import pytest
import torch
import torch.nn.functional as F
import torch_spyre

F16 = torch.float16
LAST, LAST_3D = torch.channels_last, torch.channels_last_3d


def image(*shape, form=LAST):
    count = torch.Size(shape).numel()
    return (((torch.arange(count) * 37) % 101 - 50) / 64).reshape(shape).to(F16, memory_format=form)


X, Y = image(2, 6, 8, 10), image(2, 6, 8, 10).flip(0).contiguous(memory_format=LAST)
W = image(4, 6, 3, 3, form=torch.contiguous_format)
VOLUME = image(2, 3, 4, 5, 6, form=LAST_3D)
# Planes of one pixel, which are contiguous in both orders.
PIXELS, BIAS = image(10, 3, 1, 1), torch.linspace(-1, 1, 3).half().reshape(3, 1, 1)
TURNED = image(5, 7, 9, form=torch.contiguous_format).permute(2, 0, 1)
MEAN, VARIANCE = torch.linspace(-1, 1, 6).half(), torch.linspace(1, 2, 6).half()


def plain(x):
    return x.contiguous()


CASES = {
    "relu": (F.relu, X),
    "add": (torch.add, X, Y),
    "add of both": (torch.add, X, plain(Y)),
    "add of both, turned": (torch.add, plain(Y), X),
    "chain": (lambda x, y: F.silu(x * 2 + y) - 1, X, Y),
    "where": (lambda x, y: torch.where(x > 0, x, y), X, Y),
    "clone": (lambda x: x.clone(), X),
    "float": (lambda x: x.float(), X),
    "contiguous": (lambda x: x.contiguous(), X),
    "to channels_last": (lambda x: x.to(memory_format=LAST), plain(X)),
    "contiguous(channels_last)": (lambda x: x.contiguous(memory_format=LAST), plain(X)),
    "ones_like": (torch.ones_like, X),
    "zeros_like(channels_last)": (lambda x: torch.zeros_like(x, memory_format=LAST), plain(X)),
    "softmax": (lambda x: x.softmax(1), X),
    "sum": (lambda x: x.sum(1, keepdim=True), X),
    "cat": (lambda x, y: torch.cat([x, y], 1), X, Y),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), X),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), X, W),
    "conv2d, weight": (lambda x, w: F.conv2d(x, w, padding=1), plain(X), W.to(memory_format=LAST)),
    "conv2d, neither": (lambda x, w: F.conv2d(x, w, padding=1), plain(X), W),
    "conv2d of patches": (lambda x, w: F.conv2d(x, w[..., :2, :2], stride=2), X, W),
    "conv and relu": (lambda x, w: F.relu(F.conv2d(x, w)) * 2, X, W),
    "batch_norm": (F.batch_norm, X, MEAN, VARIANCE),
    "layer_norm": (lambda x: F.layer_norm(x.permute(0, 2, 3, 1), [6]).permute(0, 3, 1, 2), X),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), X),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), X),
    "nearest, permuted": (lambda x: F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2), plain(X)),
    "bicubic, permuted": (
        lambda x: F.interpolate(x.permute(0, 3, 1, 2), size=(5, 7), mode="bicubic"),
        plain(X),
    ),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), X),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), X),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), X),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), X),
    "volume": (lambda x: x * 2 + 1, VOLUME),
    "volume(channels_last_3d)": (lambda x: x.contiguous(memory_format=LAST_3D), plain(VOLUME)),
    "permuted": (lambda x: x * x + 1, TURNED),
    "permuted clone": (lambda x: x.clone(), TURNED),
    "permuted ones_like": (torch.ones_like, TURNED),
}


@pytest.mark.host(
    "aten.add",
    "aten.max_pool2d_with_indices",
    "aten.sub",
    "aten.upsample_bicubic2d",
    "aten.upsample_bilinear2d",
    "aten.upsample_nearest2d",
)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::torch_spyre.FallbackWarning")
def test_strides_are_those_of_the_cpu(name, mode):
    function, *inputs = CASES[name]
    expected = function(*inputs)
    form = torch.compile(function) if mode == "compiled" else function
    result = form(*[x.to("spyre") for x in inputs])
    assert result.device.type == "spyre" and result.stride() == expected.stride()
    torch.testing.assert_close(result.cpu(), expected, atol=0.02, rtol=0.01)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0)], ids=str)
def test_strides_of_a_tensor_made_by_out(order):
    x = torch.arange(24.0).half().reshape(2, 3, 4).permute(order)
    y = torch.arange(24.0).half().to("spyre").reshape(2, 3, 4).permute(order)
    for op in (torch.exp, lambda x, out: torch.add(x, x, out=out)):
        made = [op(v / 8, out=torch.empty(0, dtype=x.dtype, device=v.device)) for v in (x, y)]
        assert made[1].stride() == made[0].stride() == x.stride()
        torch.testing.assert_close(made[1].cpu(), made[0], rtol=0.01, atol=0.01)


def test_strides_of_planes_of_one_pixel():
    x, y, plane = PIXELS.to("spyre"), BIAS.to("spyre"), plain(PIXELS).to("spyre")
    assert (x + y).stride() == (y * x).stride() == (x * 5).stride() == PIXELS.stride()
    assert (x + plane).stride() == x.exp().stride() == (PIXELS + plain(PIXELS)).stride()


@pytest.mark.parametrize("shape, form", [((2, 3, 4, 5), LAST), ((2, 3, 4, 5, 6), LAST_3D),
                                         ((1, 1, 1, 1), LAST), ((2, 0, 4, 5), LAST)])  # fmt: skip
@pytest.mark.parametrize("dtype", [F16, torch.int64, torch.float64], ids=str)
def test_allocation(shape, form, dtype):
    for make in (torch.empty, torch.zeros, lambda *s, **o: torch.zeros(*s, **o).new_empty(*s)):
        options = {"dtype": dtype} | ({"memory_format": form} if make is torch.empty else {})
        made = make(shape, device="spyre", **options)
        assert made.stride() == make(shape, **options).stride()
    host = image(*shape, form=form).to(dtype)
    card = host.to("spyre")
    assert card.stride() == host.stride() and card.cpu().equal(host)
    assert card.is_contiguous(memory_format=form)
    assert torch.empty_like(card).stride() == host.stride()
    assert torch.empty_strided(shape, host.stride(), dtype=dtype, device="spyre").copy_(
        card).cpu().equal(host)  # fmt: skip
    resized = torch.zeros(3, device="spyre").resize_(shape, memory_format=form)
    assert resized.stride() == host.stride()


def test_wrong_memory_formats_are_errors():
    for shape, form in (((2, 3), LAST), ((2, 3, 4, 5), LAST_3D)):
        with pytest.raises(RuntimeError, match="required rank . tensor to use channels_last"):
            torch.empty(shape, device="spyre", memory_format=form)


def test_no_operator_of_a_chain_leaves_the_card():
    def chain(x, y):
        return F.silu(x * 2 + y).clone() - x.mean(1, keepdim=True)

    x, y = X.to("spyre"), Y.to("spyre")
    torch.testing.assert_close(torch.compile(chain)(x, y).cpu(), chain(X, Y), atol=0.02, rtol=0.01)
    assert not torch_spyre.last_report().host_ops


@pytest.mark.host("aten.convolution_backward", "aten.mm", "aten.threshold_backward")
@pytest.mark.filterwarnings("ignore::torch_spyre.FallbackWarning")
def test_a_module_in_channels_last_trains():
    host = torch.nn.Sequential(torch.nn.Conv2d(6, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(4 * 6 * 8, 3)).half()  # fmt: skip
    card = torch.nn.Sequential(torch.nn.Conv2d(6, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(4 * 6 * 8, 3)).half()  # fmt: skip
    card.load_state_dict(host.state_dict())
    card.to("spyre", memory_format=LAST)
    assert card[0].weight.stride() == host[0].weight.to(memory_format=LAST).stride()
    for model, x in ((host, X), (card, X.to("spyre"))):
        model(x).float().square().sum().backward()
    for a, b in zip(host.parameters(), card.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, atol=0.1, rtol=0.05)
