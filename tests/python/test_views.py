# SPDX-License-Identifier: Apache-2.0
"""Views share the storage and show what the CPU shows."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

VIEWS = {
    "view": lambda x: x.view(4, 30),
    "view_inferred": lambda x: x.view(-1, 5),
    "reshape_of_transpose": lambda x: x.transpose(0, 2).reshape(10, 12),
    "t": lambda x: x[0].t(),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[1:, :, 1:4:2],
    "select": lambda x: x.select(1, 3),
    "expand": lambda x: x[:1].expand(6, -1, -1),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "unbind": lambda x: x.unbind(1)[2],
    "split": lambda x: x.split(2, 1)[1],
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "as_strided": lambda x: x.as_strided((3, 4), (5, 7), 11),
    "flatten": lambda x: x.flatten(1),
    "chunk": lambda x: x.chunk(2, 0)[1],
    "movedim": lambda x: x.movedim(0, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_the_values_of_the_cpu(name):
    x = torch.randn(4, 6, 5)
    y = x.to("spyre")
    expected, view = VIEWS[name](x), VIEWS[name](y)
    assert view.stride() == expected.stride() and view.cpu().equal(expected)


@pytest.mark.host("aten.fill_")
@pytest.mark.parametrize("name", [n for n in VIEWS if n not in ("reshape_of_transpose", "expand")])
def test_writing_to_a_view_writes_to_its_base(name):
    x = torch.randn(4, 6, 5)
    y = x.to("spyre")
    for tensor in (x, y):
        VIEWS[name](tensor).fill_(7.0) if name != "unfold" else VIEWS[name](tensor)[0].fill_(7.0)
    assert y.cpu().equal(x)
    assert VIEWS[name](y).untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def test_an_impossible_view_is_refused_in_pytorchs_words():
    x = torch.randn(4, 6).to("spyre")
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(24)
    with pytest.raises(RuntimeError, match="shape .* is invalid for input of size"):
        x.view(5, 5)
    with pytest.raises((RuntimeError, IndexError), match="maximum size|out of range"):
        x.unfold(0, 9, 1)


def test_bytes_of_another_dtype():
    x = torch.randn(8)
    assert x.to("spyre").view(torch.int32).cpu().equal(x.view(torch.int32))


@pytest.mark.parametrize("length", [18, 130])  # of a cache
@pytest.mark.parametrize("part", [slice(0, 3), slice(1, 17), slice(2, 18)])
@pytest.mark.parametrize("queries", [1, 16])
def test_attention_reads_a_part_of_a_cache(length, part, queries):
    """What fills the last stick up is not there, or no number."""
    torch.manual_seed(length + queries)
    k, v = (torch.full((2, 2, length, 32), value) for value in (math.inf, math.nan))
    for cache in (k, v):
        cache[:, :, part] = torch.randn(cache[:, :, part].shape)
    q = torch.randn(2, 4, queries, 32)
    card = [cache.half().to("spyre")[:, :, part] for cache in (k, v)]
    found = F.scaled_dot_product_attention(q.half().to("spyre"), *card, enable_gqa=True)
    host = [cache[:, :, part] for cache in (k, v)]
    expected = F.scaled_dot_product_attention(q, *host, enable_gqa=True)
    torch.testing.assert_close(found.float().cpu(), expected, atol=0.01, rtol=0.01)
    scores = torch.randn(2, 2, queries, part.stop - part.start)
    found = scores.half().to("spyre") @ card[1]
    torch.testing.assert_close(found.float().cpu(), scores @ host[1], atol=0.02, rtol=0.01)
