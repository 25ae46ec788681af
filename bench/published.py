# SPDX-License-Identifier: Apache-2.0
"""What is published about the real card: formulas and measurements (bench/timing.py says where)."""

import math

ELEMENT, STICK, CORES = 2, 64, 32  # bytes, elements of a stick, cores

# RMS error of the published formulas against the card, percent (cost_model.md).
PUBLISHED_RMS = {"pointwise": 8.5, "broadcast": 5.0, "reduction": 7.2, "transport": 6.1}
TARGET_RMS = PUBLISHED_RMS | {"matmul": 25.0, "softmax": 15.0}

# Measured on a card, us (see above).
MEASURED_ADD = {
    (64, 16384): 53.0,
    (128, 16384): 108.2,
    (512, 4096): 109.1,
    (512, 16384): 461.3,
    (2048, 1024): 107.9,
    (2048, 2048): 219.1,
    (4096, 4096): 875.9,
    (8192, 4096): 1837.4,
}
MEASURED_ADD_SCALAR = {
    (256, 2048): 21.0,
    (2048, 1024): 68.5,
    (2048, 4096): 283.7,
    (8192, 2048): 604.4,
    (16384, 2048): 1221.1,
    (2048, 16384): 1140.7,
}
MEASURED_RESTICKIFY = {
    (1024, 1024): 38.0,
    (2048, 2048): 146.4,
    (4096, 4096): 572.5,
    (2048, 16384): 1157.6,
}
MEASURED_OUTER_TRANSPOSE = {
    (1024, 8, 1024): 317.1,
    (2048, 8, 1024): 644.2,
    (4096, 8, 1024): 1305.9,
    (2048, 8, 2048): 1336.6,
}
MEASURED_MATMUL = {
    (2048, 2048, 2048): 386.3,
    (4096, 2048, 1024): 344.3,
    (8192, 2048, 1024): 692.0,
}
MEASURED_SUM_OF_ROWS = {(2048, 8192): 221.7}
MEASURED_SOFTMAX = {(4096, 2048): 262.1}


# Formulas, in microseconds; their only copy in this project.


def traffic_us(read: float, written: float) -> float:
    """One direction at 150 GB/s, turnaround of 0.00574 ns for every byte of the smaller."""
    return (read + written) / 150e3 + 5.74e-6 * min(read, written)


def broadcast_rate(rows: int, cols: int, row_operand: bool) -> float:
    """GB/s with a broadcast operand, 1024 rows and more; an operand [1, cols], or another."""
    if row_operand:
        return min(135, max(100, 183.5 - 2.8 * math.log2(cols) - 2.6 * math.log2(rows)))
    return min(130, max(95, 162 - 1.8 * math.log2(cols) - 2.2 * math.log2(rows)))


def row_reduction_rate(rows: int) -> float:
    return min(150, 114 + 61 * math.exp(-rows / 3700))


OUTER_REDUCTION_RATE = 113
RESTICKIFY_RATE = 116


def transport_rate(kind: str, rows: int, cols: int, middle: int = 8) -> float:
    a, b, d, floor = {
        "cat 0": (144, 9.6, 2.4, 44),
        "outer transpose": (140, 6.8, 1.2, 83),
        "cat 1": (110, 0.8, 0, 90),
    }[kind]
    rate = a - b * math.log2(max(1, cols / STICK)) - d * math.log2(max(2, rows))
    rate = min(150, max(floor, rate))
    if kind == "outer transpose" and middle < 8:
        rate = max(40, rate - 13 * math.log2(8 / middle))
    return rate


def matmul_reread(m: int, n: int, m_split: int, n_split: int) -> float:
    """Share of the operands that is read again, by the size of a core's part of the result."""
    return min(1.5, max(0, 0.45 * math.log2(m * n / (m_split * n_split) / 65536)))


def matmul_bytes(m: int, k: int, n: int, m_split: int, n_split: int) -> float:
    again = matmul_reread(m, n, m_split, n_split)
    return ((m * k + k * n) * (1 + again) + m * n) * ELEMENT


def matmul_us(m: int, k: int, n: int, m_split: int, n_split: int, rate: float = 1140) -> float:
    """The larger of compute and memory, for a split of m and n over the cores."""
    rows, columns = m / m_split, n / n_split
    fill = min(1, (rows / 64) ** 0.35)
    compute = m * k * n / (m_split * n_split) / (rate * 1e3 * fill)
    area = rows * columns
    excess = max(0, area - 131072)
    long, short = (m_split, n_split) if m >= n else (n_split, m_split)
    compute += excess * (
        2.62e-3 * max(0, math.log2(long / 8)) + 2.88e-3 * max(0, math.log2(short / 16))
    )
    again = matmul_reread(m, n, m_split, n_split)
    operands = (m * k + k * n) * ELEMENT
    return max(compute, traffic_us(operands, m * n * ELEMENT) + again * operands / 150e3)
