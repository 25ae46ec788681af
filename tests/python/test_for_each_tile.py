# SPDX-License-Identifier: Apache-2.0
"""for_each_tile: computations written tile by tile, against PyTorch on whole tensors."""

import re

import pytest
import torch
from torch_spyre import config
from torch_spyre._inductor.wsr import Gather, for_each_tile

M, K, N = 64, 256, 128


def tensor(*size, scale=1.0):
    return (torch.randn(size) * scale).half().to("spyre")


def check(tiled, whole, *tensors, atol=0.02):
    torch._dynamo.reset()
    with torch.no_grad():
        result = torch.compile(tiled, fullgraph=True)(*tensors)
    want = whole(*[t.cpu().float() if t.is_floating_point() else t.cpu() for t in tensors])
    torch.testing.assert_close(result.cpu().float(), want, atol=atol, rtol=0.01)


@pytest.fixture(autouse=True)
def loops(tmp_path, monkeypatch):
    """loops(): the counts of the loops around the kernels that stand in one."""
    monkeypatch.setenv("SPYRE_DUMP_DIR", str(tmp_path))
    torch.manual_seed(0)
    text = lambda: (tmp_path / "segment0.loop").read_text()  # noqa: E731
    return lambda: [int(n) for n in re.findall(r"in\(t\d+<(\d+)", text())]


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_a_product(reverse, loops):
    def tiled(x, y):
        def body(_carry, tiles):
            rows, whole = tiles
            return None, rows @ whole

        options = {"dims": (0, None), "tile_size": 16, "out_dim": 0, "reverse": reverse}
        return for_each_tile(body, (x, y), **options)[1]

    check(tiled, torch.matmul, tensor(M, K, scale=0.1), tensor(K, N))
    assert loops() == [4, 4]  # the product of a tile, and its copy into the whole


def test_sums_of_a_product(loops):
    def tiled(x, y):
        def body(carry, tiles):
            return carry + tiles[0] @ tiles[1], None

        zero = torch.zeros(M, N, dtype=x.dtype, device=x.device)
        return for_each_tile(body, (x, y), dims=(1, 0), tile_size=64, init=zero)[0]

    check(tiled, torch.matmul, tensor(M, K, scale=0.1), tensor(K, N))
    assert loops() == [4, 4]


def attention():
    """Softmax in one pass over the keys, and what it is."""

    def tiled(q, k, v):
        def body(carry, tiles):
            most, total, sums = carry
            scores = q @ tiles[0].transpose(0, 1) * 0.125
            new = torch.maximum(most, scores.amax(-1, keepdim=True))
            shift, weights = torch.exp(most - new), torch.exp(scores - new)
            total = total * shift + weights.sum(-1, keepdim=True)
            return (new, total, sums * shift + weights @ tiles[1]), None

        rows = q.shape[0]
        init = (
            torch.full((rows, 1), -1000.0, dtype=q.dtype, device=q.device),
            torch.zeros(rows, 1, dtype=q.dtype, device=q.device),
            torch.zeros(rows, v.shape[1], dtype=q.dtype, device=q.device),
        )
        (_most, total, sums), _ = for_each_tile(body, (k, v), dims=0, tile_size=64, init=init)
        return sums / total

    def whole(q, k, v):
        return torch.softmax(q @ k.transpose(0, 1) * 0.125, -1) @ v

    return tiled, whole, (tensor(M, 64), tensor(256, 64), tensor(256, 64))


def test_softmax_in_one_pass_over_keys(loops):
    tiled, whole, tensors = attention()
    check(tiled, whole, *tensors)
    assert len(loops()) > 10 and set(loops()) == {4}


def test_loops_and_steps_give_the_same_bits(tmp_path):
    tiled, _whole, tensors = attention()
    results = []
    for settings in (
        {"unroll_loops": False},
        {"unroll_loops": True},
        {"skip_passes": "reroll_steps"},
    ):
        torch._dynamo.reset()
        with torch.no_grad(), config.patch(**settings):
            results.append(torch.compile(tiled, fullgraph=True)(*tensors).cpu())
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_an_index_is_not_carried():
    def body(carry, tiles):
        return carry + 1, tiles[0]

    with pytest.raises(TypeError, match="0 in the carry: .* index of a step is not known"):
        for_each_tile(body, [torch.zeros(64, 128)], dims=0, tile_size=8, init=0, out_dim=0)


def test_numbers_of_tiles_that_data_decides_are_refused():
    def tiled(x):
        rows = (x[:, 0] > 0).nonzero().flatten()
        spec = (Gather(0, rows),)
        return for_each_tile(lambda _c, t: (None, t[0]), (x,), dims=spec, tile_size=1, out_dim=0)[1]

    torch._dynamo.reset()
    with pytest.raises(Exception, match="(?i)data.dependent|dynamic shape"):
        torch.compile(tiled, fullgraph=True)(tensor(8, 128))


def test_rows_that_an_index_chooses():
    def tiled(pool, index):
        def body(_carry, tiles):
            return None, tiles[0] * 2

        (spec, size) = Gather(0, index), 1
        return for_each_tile(body, (pool,), dims=(spec,), tile_size=size, out_dim=0)[1]

    index = torch.tensor([5, 0, 3], dtype=torch.int64).to("spyre")
    check(tiled, lambda pool, index: pool[index] * 2, tensor(8, 128), index)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"dims": 0, "tile_size": 24, "out_dim": 0}, ValueError, "no multiple.*nearest is 16"),
        ({"dims": 0, "tile_size": 0, "out_dim": 0}, ValueError, "tile_size=0"),
        ({"dims": 0, "tile_size": 8}, ValueError, "nothing to return"),
        ({"dims": (0,), "tile_size": 8, "out_dim": 0}, ValueError, "1 dims for 2 operands"),
        ({"dims": [0, 0], "tile_size": 8, "out_dim": 0}, TypeError, "are a tuple"),
        ({"dims": None, "tile_size": 8, "out_dim": 0}, ValueError, "no operand is cut"),
        ({"dims": (0, 1), "tile_size": 8, "out_dim": 0}, ValueError, "different numbers of tiles"),
        ({"dims": 0, "tile_size": 8, "out_dim": Gather(0, None)}, NotImplementedError, "scattered"),
        ({"dims": 2, "tile_size": 8, "out_dim": 0}, ValueError, "has no dim 2: expected -2..1"),
        ({"dims": "M", "tile_size": 8, "out_dim": 0}, TypeError, "expected a dim, None or a Gat"),
    ],
    ids=str,
)
def test_bad_tiles_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        for_each_tile(lambda carry, tiles: (None, tiles[0]), [torch.zeros(64, 128)] * 2, **options)


@pytest.mark.parametrize(
    "body, operands, message",
    [
        (3, [torch.zeros(64)], "expected a function of .carry, tiles., got 3"),
        (lambda carry, tiles: tiles[0], [torch.zeros(64)], "body returned Tensor: expected .carry"),
        (lambda carry, tiles: (None, tiles[0]), None, "expected a list of operands, got None"),
    ],
)
def test_what_is_no_body_or_no_operands_is_refused(body, operands, message):
    with pytest.raises(TypeError, match=message):
        for_each_tile(body, operands, dims=0, tile_size=8, out_dim=0)
