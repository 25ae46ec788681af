# SPDX-License-Identifier: Apache-2.0
"""The card between PyTorch's own CPU operators: a product alone, and each time just after one of
PyTorch's, whose threads still spin on the cores for a while. `in turns / alone` is what that costs
(1: nothing)."""

import time

import torch
from harness import Table, on_card

SHAPES = {"product 768x1536x1280": (768, 1536, 1280), "product 256x384x1536": (256, 384, 1536)}
CALLS = 40


def run(only: str) -> dict[str, dict[str, float]]:
    columns = ["alone ms", "turns ms", "turns/alone", "fp32 alone", "fp32 turns", "fp32 ratio"]
    table = Table("In turns with PyTorch's operators, milliseconds", columns, width=12)
    for name, shape in SHAPES.items():
        if only in name:
            table.add(name, _measure(*shape))
    return table.rows


def _measure(m: int, k: int, n: int) -> dict[str, float]:
    a, b = torch.rand(m, k), torch.rand(k, n)
    card_a, card_b = (t.half().to("spyre") for t in (a, b))
    ours, theirs = on_card(torch.mm, card_a, card_b), lambda: torch.mm(a, b)
    row = {"alone ms": _median_ms(ours), "turns ms": _median_ms(ours, theirs)}
    row["turns/alone"] = row["turns ms"] / row["alone ms"]
    row |= {"fp32 alone": _median_ms(theirs), "fp32 turns": _median_ms(theirs, ours)}
    row["fp32 ratio"] = row["fp32 turns"] / row["fp32 alone"]
    return row


def _median_ms(call, before=None) -> float:
    """Of a call, each after one of `before`."""
    samples = []
    for _ in range(CALLS):
        if before:
            before()
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return sorted(samples[CALLS // 8 :])[CALLS * 7 // 16] * 1e3
