# SPDX-License-Identifier: Apache-2.0
"""Access tiles over sets that are no boxes (triangles, bands, every other row): the points that
Python finds, in the interpreter and on the card."""

import itertools
import random

import pytest
import torch
import torch_spyre.ktir as ktir

KERNEL = """
#from = affine_set<(DIMS) : (FROM)>
#to = affine_set<(DIMS) : (TO)>
#order = affine_map<(DIMS) -> (ORDER)>
module {
  func.func @points(%x: index, %y: index) attributes {grid = [2]} {
    %id = ktdp.get_compute_tile_id : index
    %cn = arith.constant ROWS : index
    %cb = arith.constant BEGIN : index
    %row = arith.muli %id, %cn : index
    %two = arith.constant dense<2.0> : tensor<TILExELEMENT>
    %xm = ktdp.construct_memory_view %x, sizes: [SIZES], strides: [STRIDES]
      {memory_space = #ktdp.memory_space<global>} : memref<SHAPExELEMENT>
    %ym = ktdp.construct_memory_view %y, sizes: [SIZES], strides: [STRIDES]
      {memory_space = #ktdp.memory_space<global>} : memref<SHAPExELEMENT>
    %xt = ktdp.construct_access_tile %xm[%row, BASE] {
      access_tile_set = #from, access_tile_order = #order}
      : memref<SHAPExELEMENT> -> !ktdp.access_tile<TILExindex>
    %yt = ktdp.construct_access_tile %ym[%row, BASE] {
      access_tile_set = #to, access_tile_order = #order}
      : memref<SHAPExELEMENT> -> !ktdp.access_tile<TILExindex>
    %v = ktdp.load %xt : !ktdp.access_tile<TILExindex> -> tensor<TILExELEMENT>
    %r = arith.mulf %v, %two : tensor<TILExELEMENT>
    ktdp.store %r, %yt : tensor<TILExELEMENT>, !ktdp.access_tile<TILExindex>
    return
  }
}
"""
DTYPE = {"f16": torch.float16, "f32": torch.float32}


class Tile:
    """A set within a box from 0 on, as text and as its points."""

    def __init__(self, draw: random.Random, sizes: list[int], order: list[int]) -> None:
        self.constraints = [f"d{d} >= 0, -d{d} + {n - 1} >= 0" for d, n in enumerate(sizes)]
        rules = []
        for _ in range(draw.randint(1, 2)):
            a, b = draw.sample(range(len(sizes)), 2)
            more = draw.randint(-3, 5)
            text, rule = draw.choice([
                (f"d{a} - d{b} + {more} >= 0", lambda p, a=a, b=b, m=more: p[a] - p[b] + m >= 0),
                (f"-2 * d{a} + d{b} + {more} >= 0",
                 lambda p, a=a, b=b, m=more: -2 * p[a] + p[b] + m >= 0),
                (f"d{a} mod 3 == 0", lambda p, a=a: p[a] % 3 == 0),
                (f"(d{a} + d{b}) mod 2 == 0", lambda p, a=a, b=b: (p[a] + p[b]) % 2 == 0),
                (f"d{a} floordiv 2 - d{b} >= 0", lambda p, a=a, b=b: p[a] // 2 - p[b] >= 0),
                (f"d{a} + d{b} - {abs(more) + 4} == 0",
                 lambda p, a=a, b=b, m=more: p[a] + p[b] == abs(m) + 4),
            ])  # fmt: skip
            self.constraints.append(text)
            rules.append(rule)
        walked = itertools.product(*[range(sizes[d]) for d in order])
        points = [tuple(p[order.index(d)] for d in range(len(sizes))) for p in walked]
        self.points = [p for p in points if all(rule(p) for rule in rules)]
        self.text = ", ".join(self.constraints)


def find_tiles(draw: random.Random, sizes: list[int], order: list[int]) -> tuple[Tile, Tile]:
    """Two of as many points, the first of which are left where none are."""
    found: dict[int, Tile] = {}
    while True:
        tile = Tile(draw, sizes, order)
        count = len(tile.points)
        if count and count in found and (draw.random() < 0.3 or found[count].text != tile.text):
            return found[count], tile
        found[count] = tile


def check(seed: int) -> None:
    draw = random.Random(seed)
    element = draw.choice(sorted(DTYPE))
    sizes = [draw.choice((1, 3, 5, 8, 13, 33)) for _ in range(draw.choice((2, 2, 3)))]
    order = (
        draw.sample(range(len(sizes)), len(sizes)) if draw.random() < 0.5 else [*range(len(sizes))]
    )
    source, target = find_tiles(draw, sizes, order)
    base, room = draw.randint(0, 3), draw.choice((0, 5))
    shape = [2 * sizes[0], *[n + base + room for n in sizes[1:]]]
    strides = [int(torch.tensor([1, *shape[d + 1 :]]).prod()) for d in range(len(shape))]
    count = len(source.points)
    divisor = next(n for n in range(1, count + 1) if count % n == 0 and (n > 1 or count == 1)
                   or n == count)  # fmt: skip
    tile = [1] * (len(sizes) - 2) + [divisor, count // divisor]
    text = KERNEL
    for word, value in {
        "DIMS": ", ".join(f"d{d}" for d in range(len(sizes))), "FROM": source.text,
        "TO": target.text, "ORDER": ", ".join(f"d{d}" for d in order),
        "TILE": "x".join(map(str, tile)), "SIZES": ", ".join(map(str, shape)),
        "STRIDES": ", ".join(map(str, strides)), "SHAPE": "x".join(map(str, shape)),
        "BASE": ", ".join(["%cb"] * (len(sizes) - 1)), "ELEMENT": element,
        "ROWS": str(sizes[0]), "BEGIN": str(base),
    }.items():  # fmt: skip
        text = text.replace(word, value)
    kernel = ktir.loads(text, f"set{seed}.mlir")
    x = torch.randint(-99, 100, shape).to(DTYPE[element])
    expected = torch.full(shape, 7.0, dtype=DTYPE[element])
    for core in range(2):
        at = [core * sizes[0], *[base] * (len(sizes) - 1)]
        for p, q in zip(source.points, target.points, strict=True):
            place = tuple(n + m for n, m in zip(at, q, strict=True))
            expected[place] = 2 * x[tuple(n + m for n, m in zip(at, p, strict=True))]
    for interpret in (True, False):
        y = torch.full(shape, 7.0, dtype=DTYPE[element])
        kernel.run(x=x, y=y, interpret=interpret)
        assert y.equal(expected), (seed, interpret, text)


def test_random_sets() -> None:
    for seed in range(40):
        check(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_more_random_sets(first: int) -> None:
    for seed in range(first, first + 50):
        check(seed)
