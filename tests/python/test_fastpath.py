# SPDX-License-Identifier: Apache-2.0
"""torch.nn's transformer layers in inference stay on the card."""

import pytest
import torch
import torch_spyre


def layer(**options):
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, **options).eval()


def compiled(module, *operands, **named):
    torch._dynamo.reset()
    card = module.half().to("spyre")
    with torch.no_grad():
        result = torch.compile(card, dynamic=False)(
            *(x.half().to("spyre") for x in operands),
            **{name: x.to("spyre") for name, x in named.items()},
        )
    return result.cpu().float()


@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=["relu", "first", "gelu"]
)
def test_encoder_layer(options):
    x = torch.randn(2, 24, 128)
    with torch.no_grad():
        expected = layer(**options)(x)
    result = compiled(layer(**options), x)
    assert torch_spyre.last_report().nodes_on_host == 0
    torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2)


def test_encoder_layer_with_padding():
    x = torch.randn(2, 24, 128)
    padding = torch.zeros(2, 24, dtype=torch.bool)
    padding[1, 16:] = True
    with torch.no_grad():
        expected = layer()(x, src_key_padding_mask=padding)
    result = compiled(layer(), x, src_key_padding_mask=padding)
    torch.testing.assert_close(result[:, :16], expected[:, :16], rtol=2e-2, atol=2e-2)
    assert torch_spyre.last_report().nodes_on_host == 0


def test_outside_compile():
    x = torch.randn(2, 24, 128)
    with torch.no_grad():
        expected = layer()(x)
        result = layer().half().to("spyre")(x.half().to("spyre"))
    torch.testing.assert_close(result.cpu().float(), expected, rtol=2e-2, atol=2e-2)
