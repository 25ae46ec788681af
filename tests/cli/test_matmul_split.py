# SPDX-License-Identifier: Apache-2.0
"""The published split of matmuls, against the equation of torch-spyre's planner written again."""

import itertools
import math
import re

import pytest

STICK = 64  # fp16 elements
SHAPES = [  # batch, rows, columns, contracted
    (1, 128, 128, 128), (1, 512, 512, 512), (1, 1024, 1024, 1024), (1, 2048, 2048, 2048),
    (1, 8, 1024, 1024), (1, 2, 4096, 512), (1, 4096, 128, 256), (1, 96, 384, 384),
    (1, 128, 1536, 384), (1, 128, 384, 1536), (1, 300, 640, 192), (1, 64, 64, 4096),
    (4, 128, 128, 64), (12, 128, 128, 64), (12, 128, 64, 128), (32, 64, 256, 128),
    (2, 40, 64, 128), (3, 250, 192, 320), (16, 512, 512, 64), (6, 1024, 128, 1024),
]  # fmt: skip


def cost(size, slices):
    """Microseconds by docs/source/compiler/work_division_planning.md."""
    batch, rows, columns, inner = size
    b, m, n, k = slices
    passes = max(1.0, rows / m / 8)
    rate = 98.304e12 / 2 / 32 / 1e6 * min(1.0, math.sqrt(passes / 8))
    compute = batch * rows * columns * inner / (b * m * n * k) / rate
    moved = 2 * (batch * rows * inner + batch * inner * columns + batch * rows * columns)
    memory = moved / 204.8e9 * 1e6 * max(1.0, max(m, n) / 8)
    sums = (k - 1) * batch * rows * columns * 1.4e-4
    tie = 50 * math.log2(8 / passes) if passes < 8 else 0.0
    return (compute + memory + sums + tie) * b**1.4


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


def default_cores(size, cores):
    """Of the default division: output loops by size, then the contracted one."""
    batch, rows, columns, inner = size
    outputs = sorted([batch, rows, -(-columns // STICK)], reverse=True)
    used = 1
    for units in [*outputs, -(-inner // STICK)]:
        used *= max(d for d in divisors(units) if d <= cores // used)
    return used


def cheapest(size, cores):
    """The least cost, and how many cores the splits with that cost use."""
    batch, rows, columns, inner = size
    ranges = map(divisors, (batch, rows, -(-columns // STICK), -(-inner // STICK)))
    priced = [(cost(size, s), math.prod(s)) for s in itertools.product(*ranges)
              if math.prod(s) <= cores]  # fmt: skip
    least = min(us for us, _cores in priced)
    return least, {used for us, used in priced if us <= least * (1 + 1e-9)}


def write_graph(path, size):
    batch, rows, columns, inner = size
    lead = [] if batch == 1 else [batch]
    op = "mm" if batch == 1 else "bmm"
    path.write_text(
        f"input %a: f16{[*lead, rows, inner]}\ninput %b: f16{[*lead, inner, columns]}\n"
        f"%y = aten.{op}.default(%a, %b) -> f16{[*lead, rows, columns]}\nreturn %y\n"
    )


@pytest.mark.parametrize("cores", [32, 12])
@pytest.mark.parametrize("size", SHAPES, ids=str)
def test_the_cheapest_split_is_taken(spyre, tmp_path, size, cores):
    source = tmp_path / "product.graph"
    write_graph(source, size)
    spyre.good("compile", source, "--set", "work_division=published", "--cores", cores,
               "--dump", tmp_path)  # fmt: skip
    table = (tmp_path / "segment0.cost").read_text().splitlines()
    (row,) = [line for line in table if " batchmatmul " in line]
    us, used = float(row.split()[4]), int(row.split()[5])
    least, candidates = cheapest(size, cores)
    default = default_cores(size, cores)
    if "published cost" in row:
        assert us == pytest.approx(least, abs=0.0006) and used in candidates and used >= default
    else:
        assert "distribution" in row and used == default and min(candidates) < default
    slices = {var: int(count) for var, count in re.findall(r"(c\d+)/(\d+)", row)}
    assert math.prod(slices.values()) == used <= cores


def test_shared_weights_are_left_to_the_default(spyre, tmp_path):
    source = tmp_path / "shared.graph"
    source.write_text(
        "input %a: f16[4, 128, 256]\ninput %b: f16[256, 512]\n"
        "%y = aten.matmul.default(%a, %b) -> f16[4, 128, 512]\nreturn %y\n"
    )
    spyre.good("compile", source, "--set", "work_division=published", "--dump", tmp_path)
    (row,) = [line for line in (tmp_path / "segment0.cost").read_text().splitlines()
              if " batchmatmul " in line]  # fmt: skip
    assert "distribution" in row
