# SPDX-License-Identifier: Apache-2.0
"""Access tiles over sets that are no boxes (triangles, bands, every other row), of one memory or
several, whole or in slices, with and without indices: the points that Python finds, in the
interpreter and on the card."""

import itertools
import random
from collections.abc import Callable

import pytest
import torch
import torch_spyre.ktir as ktir

KERNEL = """
#from = affine_set<(DIMS) : (FROM)>
#to = affine_set<(DIMS) : (TO)>
#order = affine_map<(DIMS) -> (ORDER)>
module {
  func.func @points(PARAMETERS) attributes {grid = [2]} {
    %id = ktdp.get_compute_tile_id : index
    %cn = arith.constant ROWS : index
    %cb = arith.constant BEGIN : index
    %row = arith.muli %id, %cn : index
    %two = arith.constant dense<2.0> : tensor<TILExELEMENT>
    VIEWS
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


class Memory:
    """An array as a view, or as parts along a dim of one that is distributed."""

    def __init__(self, draw: random.Random, name: str, whole: torch.Tensor, element: str) -> None:
        self.name, self.whole, self.element = name, whole, element
        self.dim = draw.randrange(whole.dim())
        size = whole.shape[self.dim]
        cuts = draw.sample(range(1, size), min(size - 1, draw.choice((0, 0, 1, 2))))
        self.edges = [0, *sorted(cuts), size]
        self.parts = {
            f"{name}{n}": whole.narrow(self.dim, first, last - first).clone()
            for n, (first, last) in enumerate(itertools.pairwise(self.edges))
        }

    def type_of(self, shape: torch.Size) -> str:
        return f"memref<{'x'.join(map(str, shape))}x{self.element}>"

    def text(self) -> str:
        lines, names, types = [], [], []
        for n, (name, part) in enumerate(self.parts.items()):
            begin = [self.edges[n] if d == self.dim else 0 for d in range(part.dim())]
            rules = ", ".join(
                f"d{d} >= {first}, d{d} <= {first + size - 1}"
                for d, (first, size) in enumerate(zip(begin, part.shape, strict=True))
            )
            dims = ", ".join(f"d{d}" for d in range(part.dim()))
            view = f"%{self.name}m" if len(self.parts) == 1 else f"%{name}m"
            lines.append(
                f"{view} = ktdp.construct_memory_view %{name}, sizes: {list(part.shape)}, "
                f"strides: {list(part.stride())} {{coordinate_set = affine_set<({dims}) : ({rules})"
                f">, memory_space = #ktdp.memory_space<global>}} : {self.type_of(part.shape)}"
            )
            names.append(view)
            types.append(self.type_of(part.shape))
        if len(self.parts) > 1:
            lines.append(
                f"%{self.name}m = ktdp.construct_distributed_memory_view ({', '.join(names)} : "
                f"{', '.join(types)}) : {self.type_of(self.whole.shape)}"
            )
        return "\n    ".join(lines)

    def joined(self) -> torch.Tensor:
        return torch.cat(list(self.parts.values()), self.dim)


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
    count = len(source.points)
    divisor = next(n for n in range(1, count + 1) if count % n == 0 and (n > 1 or count == 1)
                   or n == count)  # fmt: skip
    tile = [1] * (len(sizes) - 2) + [divisor, count // divisor]
    x = torch.randint(-99, 100, shape).to(DTYPE[element])
    untouched = torch.full(shape, 7.0, dtype=DTYPE[element])
    xm, ym = Memory(draw, "x", x, element), Memory(draw, "y", untouched, element)
    text = KERNEL
    for word, value in {
        "DIMS": ", ".join(f"d{d}" for d in range(len(sizes))), "FROM": source.text,
        "TO": target.text, "ORDER": ", ".join(f"d{d}" for d in order),
        "TILE": "x".join(map(str, tile)), "SHAPE": "x".join(map(str, shape)),
        "PARAMETERS": ", ".join(f"%{name}: index" for m in (xm, ym) for name in m.parts),
        "VIEWS": f"{xm.text()}\n    {ym.text()}",
        "BASE": ", ".join(["%cb"] * (len(sizes) - 1)), "ELEMENT": element,
        "ROWS": str(sizes[0]), "BEGIN": str(base),
    }.items():  # fmt: skip
        text = text.replace(word, value)
    kernel = ktir.loads(text, f"set{seed}.mlir")
    expected = untouched.clone()
    for core in range(2):
        at = [core * sizes[0], *[base] * (len(sizes) - 1)]
        for p, q in zip(source.points, target.points, strict=True):
            place = tuple(n + m for n, m in zip(at, q, strict=True))
            expected[place] = 2 * x[tuple(n + m for n, m in zip(at, p, strict=True))]
    for interpret in (True, False):
        for part in ym.parts.values():
            part.fill_(7.0)
        kernel.run(**xm.parts, **ym.parts, interpret=interpret)
        assert ym.joined().equal(expected), (seed, interpret, text)


INDIRECT = """
#points = affine_set<(d0, d1) : (POINTS)>
module {
  func.func @points(%x: index, %i: index, %y: index) {
    %c0 = arith.constant 0 : index
    %two = arith.constant dense<2.0> : tensor<TILExf32>
    %im = ktdp.construct_memory_view %i, sizes: [ROWS], strides: [1]
      {memory_space = #ktdp.memory_space<global>} : memref<ROWSxi32>
    %xm = ktdp.construct_memory_view %x, sizes: [TABLE, COLUMNS], strides: [COLUMNS, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<TABLExCOLUMNSxf32>
    %ym = ktdp.construct_memory_view %y, sizes: [TABLE, COLUMNS], strides: [COLUMNS, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<TABLExCOLUMNSxf32>
    %xt = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c)
      %xm[ind(%im[%r]), (%c)] {variables_space_set = #points}
      : memref<TABLExCOLUMNSxf32>, memref<ROWSxi32> -> !ktdp.access_tile<TILExindex>
    %v = ktdp.load %xt : !ktdp.access_tile<TILExindex> -> tensor<TILExf32>
    %w = arith.mulf %v, %two : tensor<TILExf32>
    %yt = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c)
      %ym[ind(%im[%r]), (%c)] {variables_space_set = #points}
      : memref<TABLExCOLUMNSxf32>, memref<ROWSxi32> -> !ktdp.access_tile<TILExindex>
    ktdp.store %w, %yt : tensor<TILExf32>, !ktdp.access_tile<TILExindex>
    return
  }
}
"""


def check_indices(seed: int) -> None:
    """Rows of a table that indices choose, of each of them some columns; rows whose points are
    none have an index that no table has."""
    draw = random.Random(seed)
    sizes, table = [draw.choice((3, 5, 8, 13)) for _ in range(2)], draw.choice((13, 29))
    points = Tile(draw, sizes, [0, 1])
    while not points.points:
        points = Tile(draw, sizes, [0, 1])
    rows = torch.tensor(draw.sample(range(table), sizes[0]), dtype=torch.int32)
    for row in {*range(sizes[0])} - {row for row, _ in points.points}:
        rows[row] = 1 << 20
    count = len(points.points)
    text = INDIRECT
    for word, value in {
        "POINTS": points.text, "TILE": f"1x{count}", "ROWS": sizes[0], "TABLE": table,
        "COLUMNS": sizes[1],
    }.items():  # fmt: skip
        text = text.replace(word, str(value))
    kernel = ktir.loads(text, f"indices{seed}.mlir")
    x = torch.randint(-99, 100, (table, sizes[1])).float()
    expected = torch.full_like(x, 7.0)
    for row, column in points.points:
        expected[rows[row], column] = 2 * x[rows[row], column]
    for interpret in (True, False):
        y = torch.full_like(x, 7.0)
        kernel.run(x=x, i=rows, y=y, interpret=interpret)
        assert y.equal(expected), (seed, interpret, text)


COORDINATES = """
#points = affine_set<(d0, d1) : (POINTS)>
module {
  func.func @points(%x: index, %y: index, %n: index) attributes {grid = [GRID]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %trips = arith.constant TRIPS : index
    %down = arith.constant DOWN : index
    %right = arith.constant RIGHT : index
    %first = arith.constant FIRST : index
    %id = ktdp.get_compute_tile_id : index
    %xm = ktdp.construct_memory_view %x, sizes: [SIZES], strides: [COLUMNS, 1]
      {coordinate_set = affine_set<(d0, d1)[s0] : (RULES)>,
       memory_space = #ktdp.memory_space<global>} : memref<?xCOLUMNSxf32>
    %ym = ktdp.construct_memory_view %y, sizes: [9, COUNT], strides: [COUNT, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<9xCOUNTxf32>
    scf.for %k = %c0 to %trips step %c1 {
      %row = arith.muli %id, %down : index
      %step = arith.muli %k, %right : index
      %column = arith.addi %step, %first : index
      %to = arith.muli %id, %trips : index
      %line = arith.addi %to, %k : index
      %xt = ktdp.construct_access_tile %xm[%row, %column] {access_tile_set = #points}
        : memref<?xCOLUMNSxf32> -> !ktdp.access_tile<TILExindex>
      %v = ktdp.load %xt : !ktdp.access_tile<TILExindex> -> tensor<TILExf32>
      RESHAPE
      %yt = ktdp.construct_access_tile %ym[%line, %c0]
        : memref<9xCOUNTxf32> -> !ktdp.access_tile<1xCOUNTxindex>
      ktdp.store %w, %yt : tensor<1xCOUNTxf32>, !ktdp.access_tile<1xCOUNTxindex>
    }
    return
  }
}
"""
RESHAPE = """%u = tensor.collapse_shape %v [[0, 1]] : tensor<TILExf32> into tensor<COUNTxf32>
      %w = tensor.expand_shape %u [[0, 1]] output_shape [1, COUNT]
        : tensor<COUNTxf32> into tensor<1xCOUNTxf32>"""


def draw_coordinates(draw: random.Random, rows: int) -> tuple[str, Callable[[int, int], bool]]:
    """Rules of coordinates, some with the number of rows as a symbol."""
    texts, rules = [], []
    for _ in range(draw.randint(1, 3)):
        a, b, c = draw.choice((-2, -1, 0, 1)), draw.choice((-1, 0, 1)), draw.randint(-2, 30)
        n, equal = draw.choice((0, 0, 1)), draw.random() < 0.05
        text = f"{a} * d0 + {b} * d1 + {n} * s0 + {c}"
        by, most, kind = draw.randint(1, 5), draw.randint(0, 4), draw.choice(("", "", "mod", "div"))
        if kind == "mod":
            text = f"({text}) mod {by} * -1 + {most}"
        elif kind == "div":
            text = f"({text}) floordiv {by} + d0 - ({text}) ceildiv {by + 1} + {most}"
        texts.append(f"{text} {'==' if equal else '>='} 0")

        def rule(row: int, column: int, f=(a, b, n * rows + c, kind, by, most, equal)) -> bool:
            *f, kind, by, most, equal = f
            value = f[0] * row + f[1] * column + f[2]
            if kind == "mod":
                value = most - value % by
            elif kind == "div":
                value = value // by + row + -value // (by + 1) + most
            return value == 0 if equal else value >= 0

        rules.append(rule)
    return ", ".join(texts), lambda row, column: all(rule(row, column) for rule in rules)


def check_coordinates(seed: int) -> bool:
    """A view of some of the coordinates of an array: what leaves them is found; whether it was."""
    draw = random.Random(seed)
    rows, columns = draw.randint(4, 20), draw.randint(8, 60)
    sizes = [draw.randint(1, 4), draw.randint(1, 6)]
    grid, trips = draw.choice((1, 2, 3)), draw.choice((1, 2, 3))
    down, right, first = (draw.randint(0, 3) for _ in range(3))
    box = draw.random() < 0.5
    tile = Tile(draw, sizes, [0, 1])
    while not tile.points:
        tile = Tile(draw, sizes, [0, 1])
    points = [*itertools.product(*map(range, sizes))] if box else tile.points
    rules, holds = draw_coordinates(draw, rows)
    text = COORDINATES.replace("RESHAPE", RESHAPE if box else "").replace(
        "%w,", "%w," if box else "%v,"
    )
    for word, value in {
        "POINTS": ", ".join(tile.constraints[:2]) if box else tile.text, "RULES": rules,
        "TILE": "x".join(map(str, sizes)) if box else f"1x{len(points)}", "GRID": grid,
        "TRIPS": trips, "DOWN": down, "RIGHT": right, "FIRST": first, "COUNT": len(points),
        "SIZES": f"%n, {columns}", "COLUMNS": columns,
    }.items():  # fmt: skip
        text = text.replace(word, str(value))
    kernel = ktir.loads(text, f"coordinates{seed}.mlir")
    x, expected = torch.randn(rows, columns), torch.zeros(9, len(points))
    leaves = False
    for core, k in itertools.product(range(grid), range(trips)):
        at = [(core * down + p, first + k * right + q) for p, q in points]
        leaves = leaves or not all(p < rows and q < columns and holds(p, q) for p, q in at)
        if not leaves:
            expected[core * trips + k] = torch.stack([x[p, q] for p, q in at])
    for interpret in (True, False):
        y = torch.zeros_like(expected)
        if leaves:
            with pytest.raises(RuntimeError, match="coordinate"):
                kernel.run(x=x, y=y, n=rows, interpret=interpret)
            continue
        kernel.run(x=x, y=y, n=rows, interpret=interpret)
        assert y.equal(expected), (seed, interpret, text)
    return leaves


LARGE = """
#points = affine_set<(d0, d1) : (RULES)>
module {
  func.func @points(%x: index, %y: index) {
    %c0 = arith.constant 0 : index
    %xm = ktdp.construct_memory_view %x, sizes: [ROWS, COLUMNS], strides: [COLUMNS, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<ROWSxCOLUMNSxf16>
    %ym = ktdp.construct_memory_view %y, sizes: [ROWS, COLUMNS], strides: [COLUMNS, 1]
      {memory_space = #ktdp.memory_space<global>} : memref<ROWSxCOLUMNSxf16>
    %xt = ktdp.construct_access_tile %xm[%c0, %c0] {access_tile_set = #points}
      : memref<ROWSxCOLUMNSxf16> -> !ktdp.access_tile<TILExindex>
    %yt = ktdp.construct_access_tile %ym[%c0, %c0] {access_tile_set = #points}
      : memref<ROWSxCOLUMNSxf16> -> !ktdp.access_tile<TILExindex>
    %v = ktdp.load %xt : !ktdp.access_tile<TILExindex> -> tensor<TILExf16>
    %w = arith.negf %v : tensor<TILExf16>
    ktdp.store %w, %yt : tensor<TILExf16>, !ktdp.access_tile<TILExindex>
    return
  }
}
"""


@pytest.mark.parametrize(
    "sizes, rule, chooses",
    [
        ((1280, 1280), "d0 - d1 >= 0", lambda row, column: row >= column),
        ((1280, 1280), "d0 mod 2 == 0", lambda row, column: row % 2 == 0),
        ((5000, 100), "(d0 + d1) mod 2 == 0", lambda row, column: (row + column) % 2 == 0),
        ((6000, 20), "d0 mod 60 - 3 * d1 >= 0", lambda row, column: row % 60 >= 3 * column),
    ],
)
def test_large_sets(sizes: tuple[int, int], rule: str, chooses: Callable) -> None:
    """Moved in slices, which begin and end anywhere in rows, where they are larger than LX; in few
    blocks, where their rows come again."""
    rows, columns = sizes
    chosen = chooses(*torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"))
    rules = f"d0 >= 0, d1 >= 0, -d0 + {rows - 1} >= 0, -d1 + {columns - 1} >= 0, {rule}"
    text = LARGE.replace("RULES", rules).replace("TILE", f"1x{int(chosen.sum())}")
    text = text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    kernel = ktir.loads(text, "large.mlir")
    x, y = torch.randint(-99, 100, sizes).half(), torch.full(sizes, 7.0).half()
    kernel.run(x=x, y=y)
    assert y.equal(torch.where(chosen, -x, 7.0))


def test_random_sets() -> None:
    for seed in range(40):
        check(seed)


def test_random_sets_with_indices() -> None:
    for seed in range(30):
        check_indices(seed)


def test_random_coordinates() -> None:
    left = sum(check_coordinates(seed) for seed in range(60))
    assert 10 < left < 50


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_more_random_sets(first: int) -> None:
    for seed in range(first, first + 50):
        check(seed)
        check_indices(seed)
        check_coordinates(seed)
