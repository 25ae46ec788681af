# SPDX-License-Identifier: Apache-2.0
"""The forms in which torch-spyre/hf-adapters (ARCHITECTURE.md) writes parts of decoders for the
card: compiled, right, and on the card as a whole."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_spyre

BLOCK = 64  # prompts are padded to it, on the left
LENGTH = 192  # of the cache


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def halves(*shape):
    return (torch.randint(-16, 17, shape) / 16).half()


def check(function, *arguments, tolerance=2e-2):
    """Compiled on the card beside float32 on the CPU; one graph, nothing on the host."""
    wide = [a.float() if a.is_floating_point() else a.clone() for a in arguments]
    on_card = [a.to("spyre") for a in arguments]
    with torch.no_grad():
        expected = function(*wide)
        actual = torch.compile(function, fullgraph=True)(*on_card)
    report = torch_spyre.last_report()
    assert report.host_ops == [], report.text
    torch.testing.assert_close(
        actual.cpu().float(), expected.float(), atol=tolerance, rtol=tolerance
    )
    return on_card


def rotations(positions, size):
    """[batch, length] -> [batch, length, 2, 2, size / 2], fp16: one matrix a pair of elements."""
    steps = 10000.0 ** (-torch.arange(0, size, 2) / size)
    angles = positions[..., None].float() * steps
    rows = (angles.cos(), -angles.sin(), angles.sin(), angles.cos())
    return torch.stack(rows, 2).unflatten(2, (2, 2)).half()


def rotate(x, rotation):
    """x [batch, heads, length, size] -> the same, without a slice along the size."""
    pairs = x.transpose(1, 2).unflatten(-1, (1, 2, x.shape[-1] // 2))
    turned = (rotation[:, :, None] * pairs).sum(4)
    return turned.flatten(3).transpose(1, 2)


@pytest.mark.parametrize("length", [1, BLOCK])
@pytest.mark.parametrize("size", [128, 64])
def test_rotary_positions_as_matrices(size, length):
    rotation = rotations(torch.arange(length).expand(2, -1) + 3, size)
    check(rotate, halves(2, 4, length, size), rotation)


def test_matrices_are_the_usual_rotation():
    x, positions = halves(1, 2, 5, 64).float(), torch.arange(5)[None]
    angles = torch.outer(torch.arange(5.0), 10000.0 ** (-torch.arange(0, 64, 2) / 64)).repeat(1, 2)
    half_turned = torch.cat((-x[..., 32:], x[..., :32]), -1)
    usual = x * angles.cos() + half_turned * angles.sin()
    matrices = rotate(x, rotations(positions, 64).float())
    torch.testing.assert_close(matrices, usual, atol=5e-3, rtol=0)


def test_rms_norm_in_the_dtype_of_its_input():
    def norm(x, weight):
        return weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6))

    check(norm, halves(2, BLOCK, 256), halves(256))


@pytest.mark.parametrize("words", [1000, 151 * 64 - 5])
def test_padded_head(words):
    """Rows of zeros up to a whole stick; the caller cuts the logits."""
    weight = halves(words, 128) / 8

    def head(x, padded):
        return F.linear(x, padded)[..., :words]

    check(head, halves(2, 1, 128), F.pad(weight, (0, 0, 0, -words % 64)), tolerance=4e-2)


@pytest.mark.parametrize(("start", "count"), [(0, BLOCK), (BLOCK, 1), (130, 1)])
def test_cache_of_fixed_size(start, count):
    """index_copy_ along the positions, in place, then attention over the whole cache."""

    def step(q, k, v, keys, values, index, mask):
        keys.index_copy_(2, index, k)
        values.index_copy_(2, index, v)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

    index = torch.arange(start, start + count)
    mask = torch.full((2, 1, count, LENGTH), -6e4)
    mask = mask.masked_fill(torch.arange(LENGTH) <= index[:, None], 0).half()
    mask[1, ..., :7] = -6e4 if start else 0  # the second row is padded on the left
    new = [halves(2, heads, count, 128) for heads in (8, 4, 4)]
    caches = [halves(2, 4, LENGTH, 128) for _ in range(2)]
    on_card = check(step, *new, *caches, index, mask)
    for cache, at, value in ((caches[0], 3, new[1]), (caches[1], 4, new[2])):
        cache.index_copy_(2, index, value)
        assert torch.equal(on_card[at].cpu(), cache)


def test_heads_padded_to_two_sticks():
    """Heads of 64 as heads of 128 with zeros: the same attention, scaled as before."""
    q, k, v = (halves(2, 4, BLOCK, 64) for _ in range(3))
    mask = torch.full((BLOCK, BLOCK), -6e4).triu(1).half()

    def attend(q, k, v, mask):
        q, k, v = (F.pad(x, (0, 64)) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.125)[..., :64]

    check(attend, q, k, v, mask)
    wide = [x.float() for x in (q, k, v, mask)]
    plain = F.scaled_dot_product_attention(*wide[:3], attn_mask=wide[3])
    torch.testing.assert_close(attend(*wide), plain)


class Decoder(torch.nn.Module):
    """Two layers of the adapters' block: prefill of a block, then tokens one by one."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(256, 128)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({
                "qkv": torch.nn.Linear(128, 512, bias=False),
                "out": torch.nn.Linear(256, 128, bias=False),
                "up": torch.nn.Linear(128, 512, bias=False),
                "down": torch.nn.Linear(256, 128, bias=False),
            })
            for _ in range(2)
        )  # fmt: skip
        self.head = torch.nn.Linear(128, 256, bias=False)

    def norm(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)

    def forward(self, tokens, rotation, caches, index, mask):
        x = self.embed(tokens)
        for layer, (keys, values) in zip(self.layers, caches, strict=True):
            q, k, v = layer["qkv"](self.norm(x)).split((256, 128, 128), -1)
            q, k, v = (y.unflatten(-1, (-1, 128)).transpose(1, 2) for y in (q, k, v))
            keys.index_copy_(2, index, rotate(k, rotation))
            values.index_copy_(2, index, v)
            y = F.scaled_dot_product_attention(
                rotate(q, rotation), keys, values, attn_mask=mask, enable_gqa=True
            )
            x = x + layer["out"](y.transpose(1, 2).flatten(2))
            gate, up = layer["up"](self.norm(x)).chunk(2, -1)
            x = x + layer["down"](F.silu(gate) * up)
        return self.head(self.norm(x)[:, -1])


def generate(decoder, prompt, real, count, device, dtype, step):
    """Greedy tokens of one prompt, `real` of whose tokens are no padding (on the left)."""
    caches = [
        [torch.zeros(1, 1, LENGTH, 128, dtype=dtype, device=device) for _ in range(2)]
        for _ in decoder.layers
    ]
    tokens, first, found, scores = prompt, BLOCK - real, [], []
    for at in range(count):
        index = torch.arange(BLOCK) if at == 0 else torch.tensor([BLOCK + at - 1])
        positions = (index - first).clamp_min(0)[None]
        seen = torch.arange(LENGTH)
        hidden = (seen > index[:, None]) | (seen < first)
        mask = torch.zeros(1, 1, len(index), LENGTH).masked_fill(hidden, -6e4).to(dtype)
        with torch.no_grad():
            logits = step(tokens.to(device), rotations(positions, 128).to(dtype).to(device), caches,
                          index.to(device), mask.to(device)).cpu().float()  # fmt: skip
        tokens = logits.argmax(-1, keepdim=True)
        found.append(tokens.item())
        scores.append(logits)
    return found, torch.cat(scores)


def test_prefill_and_decoding():
    decoder = Decoder().half()
    prompt = torch.randint(4, 256, (1, BLOCK))
    prompt[:, : BLOCK - 41] = 0
    wide = Decoder()
    wide.load_state_dict({k: v.float() for k, v in decoder.state_dict().items()})
    expected = generate(wide, prompt, 41, 8, "cpu", torch.float32, wide)
    on_card = decoder.to("spyre")
    step = torch.compile(on_card, fullgraph=True, dynamic=False)
    tokens, scores = generate(on_card, prompt, 41, 8, "spyre", torch.float16, step)
    torch.testing.assert_close(scores[0], expected[1][0], atol=2e-2, rtol=2e-2)
    assert tokens == expected[0]
    assert torch_spyre.last_report().host_ops == []
