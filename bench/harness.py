# SPDX-License-Identifier: Apache-2.0
"""Timing side by side: contestants take turns, so that a noisy moment hits them all."""

import ctypes
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # <malloc.h>
ROUNDS = 7
SECONDS_A_TURN = 0.12
SECONDS_A_SAMPLE = 1e-4  # much longer than a look at the clock; the host's other work is not
SLOW_SECONDS = 1.0  # a contestant slower than this runs once a round, for two rounds

Contestants = dict[str, Callable[[], object]]

OURS = "spyre ms"
RIVALS = ("fp32", "fp16", "bf16", "inductor")
RATIOS = tuple(f"x {rival}" for rival in RIVALS)
PEAK = ("% of peak", "peak/fp32")
COLUMNS = (OURS, *RIVALS, *RATIOS, *PEAK)


def keep_freed_pages() -> None:
    """Tells the C library to keep freed memory. Without it every large result of a CPU kernel is
    fresh memory that the kernel must clear first, and PyTorch would be timed clearing pages."""
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 0)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def best_ms(
    contestants: Contestants, rounds: int = ROUNDS, seconds: float = SECONDS_A_TURN
) -> dict[str, float]:
    """name -> best milliseconds a call. Every contestant is warmed up, then they take turns."""
    slow = {name for name, call in contestants.items() if _seconds(call, 1) > SLOW_SECONDS}
    best = dict.fromkeys(contestants, float("inf"))
    for turn in range(rounds):
        for name, call in contestants.items():
            if name in slow and turn > 1:
                continue
            best[name] = min(best[name], best_of_turn(call, seconds, once=name in slow))
    return {name: time * 1e3 for name, time in best.items()}


def _seconds(call: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls


def best_of_turn(
    call: Callable[[], object], seconds: float = SECONDS_A_TURN, once: bool = False
) -> float:
    """The best seconds a call within one turn."""
    if once:
        return _seconds(call, 1)
    calls = max(1, int(SECONDS_A_SAMPLE / max(_seconds(call, 1), 1e-7)))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        best = min(best, _seconds(call, calls))
    return best


def on_card(function: Callable, *operands) -> Callable[[], object]:
    """A call that ends when the card has finished."""

    def call():
        result = function(*operands)
        torch.spyre.synchronize()
        return result

    return call


def agreement(ours: torch.Tensor, reference: torch.Tensor) -> float:
    """Cosine of two results, in float64 on the CPU: sums in fp32 lose 1 % over millions."""
    return F.cosine_similarity(
        ours.cpu().double().flatten(), reference.cpu().double().flatten(), 0
    ).item()


def with_ratios(row: dict[str, float]) -> dict[str, float]:
    """The row and, for every rival in it, how many times faster the card is."""
    return row | {f"x {rival}": row[rival] / row[OURS] for rival in RIVALS if rival in row}


def measured(
    contestants: Contestants, reference: Callable, operands, peak_gflops: float | None
) -> dict[str, float]:
    """The times, their ratios and, where `reference` has matrix products, the share of the host's
    fp32 FMA peak that the card reaches, and how many times faster than PyTorch's fp32 the products
    would be at that peak with everything else free."""
    row = with_ratios(best_ms(contestants))
    flops = _products_flops(reference, operands)
    if flops and peak_gflops:
        least_ms = flops / peak_gflops / 1e6
        row |= zip(PEAK, (100 * least_ms / row[OURS], row["fp32"] / least_ms), strict=True)
    return row


def _products_flops(function: Callable, operands) -> int:
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        function(*operands)
    return counter.get_total_flops()


class Table:
    """Prints rows as they come and keeps them for the JSON file."""

    def __init__(self, title: str, columns: list[str], width: int = 10, first: int = 26):
        self.title, self.columns, self.width, self.first = title, columns, width, first
        self.rows: dict[str, dict[str, float]] = {}
        print(f"\n{title}\n{'':{first}s}" + "".join(f"{c:>{width}s}" for c in columns))

    def add(self, name: str, row: dict[str, float]) -> None:
        self.rows[name] = row
        cells = (_cell(row.get(column)) for column in self.columns)
        print(f"{name:{self.first}s}" + "".join(f"{c:>{self.width}s}" for c in cells), flush=True)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
