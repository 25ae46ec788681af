# SPDX-License-Identifier: Apache-2.0
"""Patterns of common models (patterns.py), operators beyond them (natives.py), what people write of
them (everyday.py) and long lines (signals.py), compiled or eagerly on the emulated card, beside
PyTorch on the CPU. At the end: the geometric mean over what takes PyTorch long enough to count, and
the cliffs."""

import math
import statistics
from collections.abc import Callable, Iterator

import everyday
import natives
import patterns
import signals
import torch
import torch_spyre
from harness import OURS, RATIOS, RIVALS, Table, agreement, on_card, with_ratios
from harness import best_ms as best

EAGER = ("fp32", "fp16", "bf16")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
COUNTS_MS = 0.1  # sizes that take PyTorch less are all dispatch
ROUNDS, SECONDS_A_TURN = 3, 0.03
LEAST_AGREEMENT = 0.999
LEAST_OF_FP16, LEAST_OF_FP32 = 0.8, 0.5  # below: a cliff
WIDE = 36


def run(only: str, inductor: bool, factor: int = 1) -> dict[str, dict[str, float]]:
    """factor: of the batch. What is fast in one size may fit no fast form in another."""
    columns = [OURS, *RIVALS, *RATIOS, "kernels", "on host"]
    title = "Breadth, milliseconds" + (f", {factor} times the batch" if factor > 1 else "")
    table = Table(title, columns, width=9, first=WIDE)
    for label, function, variant in rows(factor):
        if only in label:
            table.add(label, _measure(function, variant, inductor, label))
    if table.rows:
        _conclude(table.rows)
    return table.rows


def run_eager(only: str) -> dict[str, dict[str, float]]:
    """The same functions without torch.compile, operator by operator."""
    title = "Breadth without torch.compile, milliseconds"
    eager_ratios = [ratio for ratio in RATIOS if "inductor" not in ratio]
    table = Table(title, [OURS, *EAGER, *eager_ratios], width=9, first=WIDE)
    for label, function, variant in rows():
        if only in label:
            table.add(label, _measure_eager(function, variant, label))
    if table.rows:
        _conclude(table.rows)
    return table.rows


def rows(factor: int = 1) -> Iterator[tuple[str, Callable, tuple]]:
    """(label, function, operands' shapes) of every row."""
    tables = (patterns.PATTERNS, natives.NATIVES, everyday.EVERYDAY, signals.SIGNALS)
    for name, pattern in (row for table in tables for row in table.items()):
        for variant in pattern.variants:
            variant = patterns.grown(variant, factor)
            yield patterns.label(name, variant), pattern.function, variant


def card_call(function: Callable, variant: tuple) -> tuple[Callable[[], object], list]:
    """A call of the function compiled for the card, and its operands in float32 on the CPU. A row
    has one size; `dynamic=False` would have Dynamo set its configuration at every call."""
    torch._dynamo.reset()
    wide = patterns.operands(variant, torch.Generator().manual_seed(0))
    card = [_cast(x, torch.float16).to("spyre") for x in wide]
    return on_card(torch.compile(function), *card), wide


def _measure_eager(function: Callable, variant: tuple, label: str) -> dict[str, float]:
    wide = patterns.operands(variant, torch.Generator().manual_seed(0))
    card = [_cast(x, torch.float16).to("spyre") for x in wide]
    with torch_spyre.fallback("silent"):
        _require_agreement(function(*card), function(*wide), label)
        contestants = {OURS: on_card(function, *card)} | _rivals(function, wide)
        return with_ratios(best(contestants, ROUNDS, SECONDS_A_TURN))


def _rivals(function: Callable, wide: list) -> dict[str, Callable[[], object]]:
    """Calls of PyTorch's own kernels, by dtype."""
    found = {}
    for rival, dtype in zip(EAGER, _DTYPES, strict=True):
        own = [_cast(x, dtype) for x in wide]
        found[rival] = lambda own=own: function(*own)
    return found


def _measure(function: Callable, variant: tuple, inductor: bool, label: str) -> dict[str, float]:
    call, wide = card_call(function, variant)
    with torch_spyre.fallback("silent"):
        _require_agreement(call(), function(*wide), label)
        report = torch_spyre.last_report()
        contestants = {OURS: call} | _rivals(function, wide)
        if inductor:
            alone = torch.compile(function, backend="inductor")
            contestants["inductor"] = lambda: alone(*wide)
        row = with_ratios(best(contestants, ROUNDS, SECONDS_A_TURN))
    return row | {"kernels": report.kernels, "on host": report.nodes_on_host}


def _cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) if x.is_floating_point() else x


def _require_agreement(ours: torch.Tensor, reference: torch.Tensor, label: str) -> None:
    if reference.is_floating_point():
        alike = agreement(ours, reference)
    else:
        alike = (ours.cpu() == reference).float().mean().item()
    least = LEAST_AGREEMENT if reference.is_floating_point() else 0.9  # near ties turn an argmax
    if not alike >= least:
        raise SystemExit(f"bench: {label} agrees with PyTorch's result by {alike:.6f} only")


def _conclude(rows: dict[str, dict[str, float]]) -> None:
    counted = {n: r for n, r in rows.items() if _best_eager(r) >= COUNTS_MS}
    if counted:
        mean = statistics.geometric_mean(_best_eager(r) / r[OURS] for r in counted.values())
        print(f"\n{len(counted)} of {len(rows)} rows take PyTorch {COUNTS_MS} ms or more: the "
              f"card is {mean:.2f} times as fast as the best of {', '.join(EAGER)}")  # fmt: skip
    cliffs = {n: worst for n, r in counted.items() if (worst := _cliff(r)) < 1}
    print(f"cliffs: {len(cliffs)} (below {LEAST_OF_FP16} of fp16, or {LEAST_OF_FP32} of the better "
          "of fp32 and Inductor)")  # fmt: skip
    for name, worst in sorted(cliffs.items(), key=lambda item: item[1]):
        print(f"  {name:{WIDE}s} {worst:.2f} of what is wanted")


def _best_eager(row: dict[str, float]) -> float:
    return min(row[rival] for rival in EAGER)


def _cliff(row: dict[str, float]) -> float:
    """Below 1: how far the row is from what is wanted."""
    wide = min(row["fp32"], row.get("inductor", math.inf))
    return min(row["fp16"] / LEAST_OF_FP16, wide / LEAST_OF_FP32) / row[OURS]
